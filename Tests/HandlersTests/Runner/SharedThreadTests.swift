import Foundation
import Glibc
import Handlers
import TestThreads
import Testing

@Suite(.ownThread) struct SharedThreadTests {
    @Test("H14 fifty stores are watched on one thread; closed, they leave no thread and no descriptor")
    func manyStores() async throws {
        // In a process of its own, where nothing else starts threads.
        await #expect(processExitsWith: .success) {
            try withFolder { folder in
                let paths = (0..<50).map { folder.file("\($0).db") }
                // What the first store and the first thread of a process leave for good.
                try occupy(paths[0]).watchOthers(ThreadDriver()) {}.cancel()
                let before = (threads: entries("task").count, descriptors: ownDescriptors())
                do {
                    let slots = try paths.map(occupy)
                    let others = try paths.map(occupy)
                    let bells = paths.map { _ in Bell() }
                    let watches = try zip(slots, bells).map { slot, bell in
                        try slot.watchOthers(ThreadDriver()) { bell.ring() }
                    }
                    #expect(entries("task").count == before.threads + 1)
                    for (other, bell) in zip(others, bells) {
                        other.notifyOthers()
                        #expect(bell.wait())
                    }
                    // One after the other; the last one ends with the thread.
                    for watch in watches { watch.cancel() }
                    #expect(eventually { entries("task").count == before.threads })
                    for slot in slots + others { slot.leave() }
                }
                #expect(eventually { ownDescriptors() == before.descriptors })
            }
        }
    }

    @Test("H14 a watch that is closed keeps nothing open, while the shared thread goes on for other stores")
    func closedBesideOthers() async throws {
        await #expect(processExitsWith: .success) {
            try withFolder { folder in
                let staying = try occupy(folder.file("staying.db"))
                let watch = try staying.watchOthers(ThreadDriver()) {}
                let before = folder.openFiles
                for _ in 0..<2000 {
                    do {
                        let slot = try occupy(folder.file())
                        try slot.watchOthers(ThreadDriver()) {}.cancel()
                    }
                    try #require(folder.openFiles == before)
                }
                watch.cancel()
                staying.leave()
            }
        }
    }

    @Test("H14 the shared thread starts again after it has ended, as often as stores come and go")
    func again() async throws {
        await #expect(processExitsWith: .success) {
            try await withFolder { folder in
                let before = ownDescriptors()
                try occupy(folder.file()).leave()
                await concurrently(4) { index in
                    for _ in 0..<300 {
                        guard let slot = try? occupy(folder.file()),
                            let watch = try? slot.watchOthers(ThreadDriver(), {})
                        else { fatalError("a store cannot be watched") }
                        watch.cancel()
                        slot.leave()
                    }
                }
                #expect(eventually { ownDescriptors() == before })
            }
        }
    }
}

/// The entries of a folder of this process in /proc.
private func entries(_ folder: String) -> [String] {
    (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/" + folder)) ?? []
}

/// How many descriptors are open but for those of Dispatch, which opens its own at any time: the library has no eventfd and no
/// timerfd, and Dispatch has one eventpoll and reads files of the kernel for a moment.
private func ownDescriptors() -> Int {
    let kinds = entries("fd").compactMap {
        try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/" + $0)
    }
    let polls = kinds.filter { $0.hasSuffix("[eventpoll]") }.count
    let own = kinds.filter { kind in !["anon_inode:", "/proc/", "/sys/"].contains { kind.hasPrefix($0) } }
    return own.count + max(polls, 1)
}

/// Whether something comes true: the kernel removes a thread a moment after it was joined.
private func eventually(_ isTrue: () -> Bool) -> Bool {
    let deadline = ContinuousClock.now + .seconds(10)
    while !isTrue(), ContinuousClock.now < deadline { sched_yield() }
    return isTrue()
}
