import Foundation
import Glibc
import Handlers
import Synchronization
import TestThreads
import TestSupport
import Testing

@Suite(.serialized, .ownThread) struct NeighborDeathTests {
    /// What a watch found in its calls.
    private final class Finds: Sendable {
        let bell = Bell()
        private let found = Mutex<[Found]>([])
        var all: [Found] { found.withLock { $0 } }

        /// Looks for dead stores in each call.
        func watch(_ slot: ProcessSlot) throws -> any ProcessWatch {
            try slot.watchOthers { [self] in
                let mine = slot.found()
                found.withLock { $0 += mine }
                for _ in mine { bell.ring() }
            }
        }
    }

    /// Occupies the only slot in use of a new database.
    private func withSlot(_ body: (Folder, ProcessSlot) throws -> Void) throws {
        try withFolder { folder in
            try prepareSlots(folder.file())
            let slot = try occupy(folder.file())
            try body(folder, slot)
            slot.leave()
        }
    }

    /// Checks that an end is reported at once. The regular look comes a second later in every round; a busy machine delays some.
    private func expectAtOnce(_ times: [Duration]) {
        #expect(times.sorted()[times.count / 2] < .milliseconds(900), "\(times)")
    }

    @Test("H14 a store is notified of the death of a process, whose slot can be recovered at that moment")
    func killed() throws {
        try withSlot { folder, slot in
            let finds = Finds()
            let watch = try finds.watch(slot)
            var times: [Duration] = []
            for round in 1...20 {
                let child = try SlotChild(folder.file())
                try child.tell("mark \(round) 1")
                // The look of each second must not be what finds it.
                usleep(20_000)
                let start = ContinuousClock.now
                child.process.signal(SIGKILL)
                #expect(finds.bell.wait())
                times.append(ContinuousClock.now - start)
                let runningCall = RunningCall(handler: Int64(round), digest: 1)
                #expect(finds.all.last == Found(slot: child.slot, runningCall: runningCall))
                #expect(finds.all.count == round)
                child.kill()
            }
            expectAtOnce(times)
            watch.cancel()
        }
    }

    @Test("H14 a store is notified of the death of a process that had opened the database before the watch")
    func earlierNeighbor() throws {
        try withSlot { folder, slot in
            var times: [Duration] = []
            for _ in 0..<3 {
                let child = try SlotChild(folder.file())
                let finds = Finds()
                let watch = try finds.watch(slot)
                let start = ContinuousClock.now
                child.kill()
                #expect(finds.bell.wait())
                times.append(ContinuousClock.now - start)
                #expect(finds.all == [Found(slot: child.slot, runningCall: nil)])
                watch.cancel()
            }
            expectAtOnce(times)
        }
    }

    @Test("H14 a store is notified in about a second of the death of a process whose id says nothing here")
    func unknownProcess() throws {
        try withSlot { folder, slot in
            let child = try SlotChild(folder.file())
            // As in another container: an id that is another process, which lives on.
            try overwrite(folder.file() + "-processes", at: 64 + 64 * child.slot + 16, with: 1)
            let finds = Finds()
            let watch = try finds.watch(slot)
            let start = ContinuousClock.now
            child.kill()
            try #require(finds.bell.wait())
            #expect(ContinuousClock.now - start < .seconds(5))
            #expect(finds.all == [Found(slot: child.slot, runningCall: nil)])
            watch.cancel()
        }
    }

    @Test("H14 a store is notified within about a second of a process that becomes another program")
    func replaced() throws {
        try withSlot { folder, slot in
            let child = try SlotChild(folder.file())
            let finds = Finds()
            let watch = try finds.watch(slot)
            let start = ContinuousClock.now
            try child.process.write("exec\n")
            try #require(finds.bell.wait())
            #expect(ContinuousClock.now - start < .seconds(5))
            #expect(child.process.isRunning)
            child.kill()
            #expect(finds.all == [Found(slot: child.slot, runningCall: nil)])
            watch.cancel()
        }
    }

    @Test(
        "H14 a store is notified of one that leaves, though its process lives and its slot is reused at once")
    func left() throws {
        try withSlot { folder, slot in
            var times: [Duration] = []
            for _ in 0..<3 {
                let child = try SlotChild(folder.file())
                let bells = (0..<3).map { _ in Bell() }
                let watches = try bells.map { bell in try slot.watchOthers { bell.ring() } }
                let start = ContinuousClock.now
                try child.tell("leave")
                for bell in bells { #expect(bell.wait()) }
                times.append(ContinuousClock.now - start)
                let next = try occupy(folder.file())
                #expect(next.number == child.slot)
                #expect(slot.found() == [])
                for watch in watches { watch.cancel() }
                #expect(child.process.isRunning)
                next.leave()
            }
            expectAtOnce(times)
        }
    }

    @Test("H14 a store is notified at once of one of the same process that goes without leaving")
    func goneWithoutLeaving() throws {
        try withSlot { folder, slot in
            var times: [Duration] = []
            for _ in 0..<3 {
                let finds = Finds()
                var watch: (any ProcessWatch)?
                do {
                    let other = try occupy(folder.file())
                    watch = try finds.watch(slot)
                    other.record(RunningCall(handler: 3, digest: 4))
                }
                let start = ContinuousClock.now
                #expect(finds.bell.wait())
                times.append(ContinuousClock.now - start)
                #expect(finds.all == [Found(slot: 1, runningCall: RunningCall(handler: 3, digest: 4))])
                watch?.cancel()
            }
            expectAtOnce(times)
        }
    }

    @Test("H14 a store is not notified of a stopped process as dead")
    func stopped() throws {
        try withSlot { folder, slot in
            let child = try SlotChild(folder.file())
            let finds = Finds()
            child.process.signal(SIGSTOP)
            let watch = try finds.watch(slot)
            // The store is notified of a later death first: by then the watch has looked at the stopped process, too.
            let other = try SlotChild(folder.file())
            other.kill()
            #expect(finds.bell.wait())
            #expect(finds.all == [Found(slot: other.slot, runningCall: nil)])
            usleep(1_200_000)
            #expect(finds.all.count == 1)
            child.process.signal(SIGKILL)
            #expect(finds.bell.wait())
            #expect(finds.all.last == Found(slot: child.slot, runningCall: nil))
            watch.cancel()
        }
    }

    @Test("H14 watches that are closed at the moment of a death leave nothing behind")
    func canceledAtDeath() async throws {
        try await withFolder { folder in
            try prepareSlots(folder.file())
            let slot = try occupy(folder.file())
            for _ in 0..<20 {
                let child = try SlotChild(folder.file())
                let watches = try (0..<8).map { _ in try slot.watchOthers {} }
                child.process.signal(SIGKILL)
                await concurrently(watches.count) { watches[$0].cancel() }
                child.kill()
                _ = slot.found()
            }
            slot.leave()
        }
    }
}
