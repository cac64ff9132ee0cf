import Foundation
import Glibc
import Handlers
import Synchronization
import TestThreads
import TestSupport
import Testing

@Suite(.serialized, .ownThread) struct NeighborWatchTests {
    @Test("H14 what another process commits is seen by the look that its change calls for, to the last row")
    func commits() throws {
        try withFolder { folder in
            let slot = try occupy(folder.file())
            let child = try SlotChild(folder.file())
            try child.tell("commit 0")
            let store = try openStore(folder.file())
            let seen = Mutex<Int64>(0)
            let all = Bell()
            let watch = try slot.watchOthers {
                let count = try? store.step { try $0.first("SELECT count(*) FROM counted") { $0.integer(0) } }
                seen.withLock { $0 = count ?? -1 }
                if count == 300 { all.ring() }
            }
            for _ in 0..<300 { try child.tell("commit 1") }
            #expect(all.wait())
            #expect(seen.withLock { $0 } == 300)
            watch.cancel()
            slot.leave()
        }
    }

    @Test("H14 a store is notified of each of many single changes")
    func single() throws {
        try withFolder { folder in
            let slot = try occupy(folder.file())
            let child = try SlotChild(folder.file())
            let bell = Bell()
            let watch = try slot.watchOthers { bell.ring() }
            let start = ContinuousClock.now
            for _ in 0..<200 {
                try child.tell("ring 1")
                #expect(bell.wait())
                // At once, and not by the look of each second.
                try #require(ContinuousClock.now - start < .seconds(60))
            }
            #expect(bell.count == 200)
            watch.cancel()
            slot.leave()
        }
    }

    @Test("H14 a store is notified of a storm of changes in few calls, the last one after the last change")
    func storm() throws {
        try withFolder { folder in
            let slot = try occupy(folder.file())
            let child = try SlotChild(folder.file())
            let isOver = Atomic<Bool>(false)
            let (calls, last) = (Bell(), Bell())
            let watch = try slot.watchOthers {
                calls.ring()
                if isOver.load(ordering: .sequentiallyConsistent) { last.ring() }
            }
            try child.tell("ring 100000")
            isOver.store(true, ordering: .sequentiallyConsistent)
            try child.tell("ring 1")
            #expect(last.wait())
            #expect(calls.count < 10_000)
            watch.cancel()
            slot.leave()
        }
    }

    @Test("H14 another call notifies of a change that comes while the callback runs")
    func duringTheCall() throws {
        try withFolder { folder in
            let slot = try occupy(folder.file())
            let child = try SlotChild(folder.file())
            let (began, mayEnd) = (Bell(), Bell())
            let watch = try slot.watchOthers {
                began.ring()
                _ = mayEnd.wait()
            }
            try child.tell("ring 1")
            #expect(began.wait())
            try child.tell("ring 1")
            #expect(began.count == 1)
            mayEnd.ring()
            #expect(began.wait())
            mayEnd.ring()
            watch.cancel()
            #expect(began.count == 2)
            slot.leave()
        }
    }

    @Test("H14 a store is not notified of its own changes, but of those of another store in its process")
    func ownChanges() throws {
        try withFolder { folder in
            let (slot, other) = (try occupy(folder.file()), try occupy(folder.file()))
            let (own, others) = (Bell(), Bell())
            let watch = try slot.watchOthers { own.ring() }
            let second = try other.watchOthers { others.ring() }
            for _ in 0..<50 {
                slot.notifyOthers()
                #expect(others.wait())
            }
            #expect(own.count == 0)
            other.notifyOthers()
            #expect(own.wait())
            second.cancel()
            watch.cancel()
            slot.leave()
            other.leave()
        }
    }

    @Test("H14 a store is notified of one that comes and of one that leaves")
    func comingAndLeaving() throws {
        try withFolder { folder in
            let slot = try occupy(folder.file())
            let others = Mutex<[Int]>([])
            let bell = Bell()
            let watch = try slot.watchOthers {
                others.withLock { $0 = slot.others }
                bell.ring()
            }
            let child = try SlotChild(folder.file())
            #expect(bell.wait())
            #expect(others.withLock { $0 } == [child.slot])
            try child.tell("leave")
            #expect(bell.wait())
            #expect(others.withLock { $0 } == [])
            watch.cancel()
            slot.leave()
        }
    }

    @Test("H14 a watch that is closed calls no more and leaves no thread, asleep or not")
    func closed() throws {
        try withFolder { folder in
            let slot = try occupy(folder.file())
            let other = try occupy(folder.file())
            for round in 0..<50 {
                let calls = Bell()
                let thread = Mutex("")
                let watch = try slot.watchOthers {
                    thread.withLock { $0 = ownThread() }
                    calls.ring()
                }
                other.notifyOthers()
                #expect(calls.wait())
                if round % 2 == 0 { other.notifyOthers() }
                watch.cancel()
                let count = calls.count
                other.notifyOthers()
                #expect(calls.count == count)
                #expect(isGone(thread.withLock { $0 }))
                watch.cancel()
            }
            slot.leave()
            other.leave()
        }
    }

    @Test("H14 a watch is closed at any moment of its start, beside notifications, and by its release")
    func otherEndings() async throws {
        try await withFolder { folder in
            let slot = try occupy(folder.file())
            // Before the first turn, within it, before its pause and in it. Alone first, where nothing else ends the pause.
            @Sendable func closeAtEveryMoment() {
                for moment in 0..<3000 {
                    let watch = try? slot.watchOthers {}
                    let end = ContinuousClock.now + .microseconds(moment % 120)
                    while ContinuousClock.now < end {}
                    watch?.cancel()
                }
            }
            closeAtEveryMoment()
            let other = try occupy(folder.file())
            let isOver = Atomic<Bool>(false)
            await concurrently(2) { index in
                if index == 0 {
                    closeAtEveryMoment()
                    isOver.store(true, ordering: .relaxed)
                } else {
                    while !isOver.load(ordering: .relaxed) { other.notifyOthers() }
                }
            }
            do { _ = try slot.watchOthers {} }
            slot.leave()
            other.leave()
        }
    }

    @Test("H14 a callback may close its own watch: it is the last call")
    func closesItself() throws {
        try withFolder { folder in
            do {
                let (slot, other) = (try occupy(folder.file()), try occupy(folder.file()))
                let bell = Bell()
                let watch = Mutex<(any ProcessWatch)?>(nil)
                try watch.withLock {
                    $0 = try slot.watchOthers {
                        watch.withLock { $0.take() }?.cancel()
                        bell.ring()
                    }
                }
                other.notifyOthers()
                #expect(bell.wait())
                other.notifyOthers()
                slot.leave()
                other.leave()
                #expect(bell.count == 1)
            }
            // Nobody waits for such a thread; it lets go of the store after the call has returned.
            let deadline = ContinuousClock.now + .seconds(60)
            while !folder.openFiles.isEmpty, ContinuousClock.now < deadline { sched_yield() }
        }
    }
}

/// The running thread's folder in /proc.
private func ownThread() -> String {
    let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/thread-self")
    return target.map { "/proc/" + $0 } ?? ""
}

/// Whether a thread ends; the kernel removes it a moment after it was joined.
private func isGone(_ thread: String) -> Bool {
    let deadline = ContinuousClock.now + .seconds(60)
    while access(thread, F_OK) == 0, ContinuousClock.now < deadline { sched_yield() }
    return !thread.isEmpty && access(thread, F_OK) != 0
}
