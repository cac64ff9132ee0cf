import Foundation
import Glibc
import Handlers
import Platform
import Synchronization
import TestThreads
import Testing

@Suite(.serialized, .ownThread) struct SlotWatchTests {
    @Test("H14 the death of a process is told, and its slot can be recovered in that moment")
    func killed() throws {
        try withFolder { folder in
            try prepareSlots(folder.file())
            let slot = try occupy(folder.file())
            for round in 1...20 {
                let child = try SlotChild(folder.file())
                try child.tell("mark \(round) 1")
                let bell = Bell()
                let found = Mutex<[Found]>([])
                let watch = try slot.watch(child.slot) {
                    let mine = slot.found()
                    found.withLock { $0 += mine }
                    bell.ring()
                }
                #expect(bell.count == 0)
                child.process.signal(SIGKILL)
                #expect(bell.wait())
                watch.cancel()
                #expect(bell.count == 1)
                let runningCall = RunningCall(handler: Int64(round), digest: 1)
                let all = found.withLock { $0 }
                #expect(all == [Found(slot: child.slot, runningCall: runningCall)])
            }
            slot.leave()
        }
    }

    @Test("H14 a store that leaves is told of, though its process lives on and its slot is taken at once")
    func left() throws {
        try withFolder { folder in
            try prepareSlots(folder.file())
            let slot = try occupy(folder.file())
            let child = try SlotChild(folder.file())
            let bell = Bell()
            let watches = try (0..<3).map { _ in try slot.watch(child.slot) { bell.ring() } }
            try child.tell("leave")
            let next = try occupy(folder.file())
            #expect(next.number == child.slot)
            for _ in watches { #expect(bell.wait()) }
            #expect(slot.found() == [])
            for watch in watches { watch.cancel() }
            #expect(child.process.isRunning)
            slot.leave()
            next.leave()
        }
    }

    @Test("H14 the watch of a slot on which nobody sits ends at once")
    func nobody() throws {
        try withFolder { folder in
            let slot = try occupy(folder.file())
            let bell = Bell()
            let watch = try slot.watch(9) { bell.ring() }
            #expect(bell.wait())
            watch.cancel()
            slot.leave()
        }
    }

    @Test("H14 a stopped process is not told of as dead")
    func stopped() throws {
        try withFolder { folder in
            try prepareSlots(folder.file())
            let slot = try occupy(folder.file())
            let child = try SlotChild(folder.file())
            let bell = Bell()
            child.process.signal(SIGSTOP)
            let watch = try slot.watch(child.slot) { bell.ring() }
            // A store that dies later is told of first: the watch of the stopped one had its chance.
            let other = try SlotChild(folder.file())
            let later = Bell()
            let second = try slot.watch(other.slot) { later.ring() }
            other.kill()
            #expect(later.wait())
            #expect(bell.count == 0)
            child.process.signal(SIGKILL)
            #expect(bell.wait())
            watch.cancel()
            second.cancel()
            slot.leave()
        }
    }

    @Test("H14 a watch is called off while it waits: nothing is told, no thread and no file is left")
    func canceled() throws {
        try withFolder { folder in
            try prepareSlots(folder.file())
            let slot = try occupy(folder.file())
            let child = try SlotChild(folder.file())
            let bell = Bell()
            let file = folder.file() + "-processes"
            let before = folder.openFiles
            let watches = try (0..<20).map { _ in try slot.watch(child.slot) { bell.ring() } }
            // Each wait must be seen, or calling it off would show nothing.
            while try waitingThreads(on: file) < 20 { sched_yield() }
            // All of them wait on the store's own file.
            #expect(folder.openFiles == before)
            for watch in watches { watch.cancel() }
            #expect(try waitingThreads(on: file) == 0)
            child.kill()
            #expect(bell.count == 0)
            withExtendedLifetime(watches) {}
            slot.leave()
        }
    }

    @Test("H14 a watch that is released is called off")
    func released() throws {
        try withFolder { folder in
            try prepareSlots(folder.file())
            let slot = try occupy(folder.file())
            let child = try SlotChild(folder.file())
            let bell = Bell()
            let before = folder.openFiles
            do { _ = try slot.watch(child.slot) { bell.ring() } }
            #expect(folder.openFiles == before)
            child.kill()
            #expect(bell.count == 0)
            slot.leave()
        }
    }

    @Test("H14 a store that leaves while it watches is told of by others at once")
    func leavesWhileWatching() throws {
        try withFolder { folder in
            try prepareSlots(folder.file())
            let (slot, observer) = (try occupy(folder.file()), try occupy(folder.file()))
            let child = try SlotChild(folder.file())
            let (bell, left) = (Bell(), Bell())
            let watch = try slot.watch(child.slot) { bell.ring() }
            let second = try observer.watch(slot.number) { left.ring() }
            slot.leave()
            #expect(left.wait())
            #expect(bell.count == 0)
            child.kill()
            #expect(bell.wait())
            watch.cancel()
            second.cancel()
            observer.leave()
        }
    }

    @Test("H14 a callback may call off its own watch")
    func cancelsItself() throws {
        try withFolder { folder in
            let slot = try occupy(folder.file())
            let bell = Bell()
            let watch = Mutex<(any ProcessWatch)?>(nil)
            try watch.withLock {
                $0 = try slot.watch(9) {
                    watch.withLock { $0.take() }?.cancel()
                    bell.ring()
                }
            }
            #expect(bell.wait())
            slot.leave()
        }
    }

    @Test("H14 watches that are called off at the moment of the death leave nothing behind")
    func canceledAtDeath() async throws {
        try await withFolder { folder in
            try prepareSlots(folder.file())
            let slot = try occupy(folder.file())
            for _ in 0..<20 {
                let child = try SlotChild(folder.file())
                let rung = Atomic<Int>(0)
                let watches = try (0..<8).map { _ in
                    try slot.watch(child.slot) { rung.add(1, ordering: .relaxed) }
                }
                child.process.signal(SIGKILL)
                await concurrently(watches.count) { watches[$0].cancel() }
                let count = rung.load(ordering: .relaxed)
                #expect((0...8).contains(count))
                child.kill()
                _ = slot.found()
            }
            slot.leave()
        }
    }
}

/// How many threads of any process the kernel lets wait for a lock on this file.
func waitingThreads(on path: String) throws -> Int {
    var status = stat()
    guard stat(path, &status) == 0 else { throw POSIXError(.init(rawValue: errno) ?? .EIO) }
    let inode = ":\(status.st_ino)"
    return KernelFile.text("/proc/locks").split(separator: "\n").filter { line in
        line.contains("->") && line.split(separator: " ").contains { $0.hasSuffix(inode) }
    }.count
}
