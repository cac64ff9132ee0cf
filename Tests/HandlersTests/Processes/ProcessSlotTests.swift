import Foundation
import Glibc
import Handlers
import Synchronization
import TestThreads
import Testing

@Suite(.serialized, .ownThread) struct ProcessSlotTests {
    // MARK: - Death

    @Test("H13 the mark of a killed process is found, exactly once")
    func killedMark() throws {
        try withFolder { folder in
            try prepareSeats(folder.file())
            let slot = try sitDown(folder.file())
            let child = try SeatedChild(folder.file())
            try child.tell("mark 7 99")
            try child.tell("mark 8 100")
            #expect(slot.found() == [], "it still lives")
            child.kill()
            #expect(slot.found() == [Found(seat: child.seat, mark: Mark(handler: 8, digest: 100))])
            #expect(slot.found() == [])
            slot.leave()
        }
    }

    @Test("H13 a process that is killed between two handlers leaves no mark, but a seat to recover")
    func killedWithoutMark() throws {
        try withFolder { folder in
            try prepareSeats(folder.file())
            let slot = try sitDown(folder.file())
            let child = try SeatedChild(folder.file())
            try child.tell("mark 7 99")
            try child.tell("clear")
            child.kill()
            #expect(slot.found() == [Found(seat: child.seat, mark: nil)])
            slot.leave()
        }
    }

    @Test("H13 who takes the seat of a dead process recovers it first")
    func successor() throws {
        try withFolder { folder in
            try prepareSeats(folder.file())
            let child = try SeatedChild(folder.file())
            try child.tell("mark 7 99")
            child.kill()
            var found: [Found] = []
            let slot = try ProcessSlot(path: folder.file()) { (seat, mark) throws(HandlerError) in
                found.append(Found(seat: seat, mark: mark))
            }
            #expect(slot.number == child.seat)
            #expect(found == [Found(seat: child.seat, mark: Mark(handler: 7, digest: 99))])
            slot.leave()
            // The dead one's mark is not taken for the successor's.
            let next = try SeatedChild(folder.file())
            #expect(next.greeting == "seat 0")
            next.kill()
            let last = try SeatedChild(folder.file())
            #expect(last.greeting == "seat 0 0")
        }
    }

    @Test("H13 a process that is killed while it writes marks leaves a whole one or none")
    func killedWhileMarking() throws {
        try withFolder { folder in
            try prepareSeats(folder.file())
            let slot = try sitDown(folder.file())
            for _ in 0..<10 {
                let child = try SeatedChild(folder.file(), "mark-for-ever")
                child.kill()
                let found = slot.found()
                #expect(found.map(\.seat) == [child.seat])
                if let mark = found.first?.mark { #expect(mark.digest == digest(of: mark.handler)) }
            }
            slot.leave()
        }
    }

    private func digest(of handler: Int64) -> UInt64 { UInt64(handler) &* 0x9e37_79b9_7f4a_7c15 }

    /// The moment itself is too short for a signal to meet it.
    @Test("H13 a mark that is written only in part is none, whatever stood there before")
    func tornMark() throws {
        let memory = UnsafeMutableRawPointer.allocate(byteCount: SeatRecord.stride, alignment: 64)
        defer { memory.deallocate() }
        memory.initializeMemory(as: UInt8.self, repeating: 0, count: SeatRecord.stride)
        let record = memory.assumingMemoryBound(to: SeatRecord.self)
        for handler: Int64 in 1...3 {
            let mark = Mark(handler: handler, digest: UInt64(handler) * 11)
            record.pointee.write(mark) { #expect(record.pointee.mark == nil) }
            #expect(record.pointee.mark == mark)
        }
    }

    // MARK: - Recovery

    @Test("H13 of several stores that recover at the same time, one finds each dead seat")
    func oneWins() async throws {
        try await withFolder { folder in
            try prepareSeats(folder.file())
            let slots = try (0..<4).map { _ in try sitDown(folder.file()) }
            for _ in 0..<20 {
                // Released without leaving, which is what death does.
                let dead = try (0..<200).map { _ in try sitDown(folder.file()) }.map(\.number)
                let found = Mutex<[Int]>([])
                let barrier = Barrier(slots.count)
                await concurrently(slots.count) { index in
                    barrier.wait()
                    let mine = slots[index].found().map(\.seat)
                    found.withLock { $0 += mine }
                }
                let all = found.withLock { $0 }
                #expect(all.sorted() == dead)
            }
            for slot in slots { slot.leave() }
        }
    }

    @Test("H13 two processes recover the seat of a third: one finds it, the other does not")
    func oneProcessWins() throws {
        try withFolder { folder in
            try prepareSeats(folder.file())
            let (first, second) = (try SeatedChild(folder.file()), try SeatedChild(folder.file()))
            let victim = try SeatedChild(folder.file())
            try victim.tell("mark 5 6")
            victim.kill()
            try first.process.write("recover\n")
            let answers = [
                try second.tell("recover"),
                try #require(try first.process.output?.readLine(deadline: .now + .seconds(60))),
            ]
            #expect(answers.sorted() == ["recovered", "recovered \(victim.seat):5:6"])
        }
    }

    @Test("H13 a seat is nobody else's while it is recovered")
    func heldWhileRecovered() throws {
        try withFolder { folder in
            try prepareSeats(folder.file())
            let (slot, other) = (try sitDown(folder.file()), try sitDown(folder.file()))
            let child = try SeatedChild(folder.file())
            child.kill()
            slot.recoverDead { (seat, _) in
                #expect(other.found() == [])
                // A newcomer passes the seat by as well.
                let newcomer = try? sitDown(folder.file())
                #expect(newcomer != nil && newcomer?.number != seat)
                newcomer?.leave()
            }
            slot.leave()
            other.leave()
        }
    }

    @Test("H13 a seat whose holder died is recovered before it counts as vacant: no death is forgotten")
    func vacantOnceRecovered() throws {
        try withFolder { folder in
            try prepareSeats(folder.file())
            let slot = try sitDown(folder.file())
            let child = try SeatedChild(folder.file())
            var calls = 0
            try child.tell("mark 7 99")
            slot.whileVacant(child.seat) { calls += 1 }
            child.kill()
            slot.whileVacant(child.seat) { calls += 1 }
            #expect(calls == 0)
            #expect(slot.found() == [Found(seat: child.seat, mark: Mark(handler: 7, digest: 99))])
            slot.whileVacant(child.seat) { calls += 1 }
            #expect(calls == 1)
            slot.leave()
        }
    }

    @Test("H13 a recovery that fails leaves the seat to be found again, in the opening store too")
    func failingRecovery() throws {
        try withFolder { folder in
            try prepareSeats(folder.file())
            let slot = try sitDown(folder.file())
            let child = try SeatedChild(folder.file())
            try child.tell("mark 7 99")
            child.kill()
            let refused = HandlerError(.databaseLocked, "not now")
            let expected = Found(seat: child.seat, mark: Mark(handler: 7, digest: 99))
            #expect(throws: HandlerError.self) { try slot.recoverDead { (_, _) in throw refused } }
            var seen: [Found] = []
            #expect(throws: HandlerError.self) {
                _ = try ProcessSlot(path: folder.file()) { (seat, mark) throws(HandlerError) in
                    seen.append(Found(seat: seat, mark: mark))
                    throw refused
                }
            }
            #expect(seen == [expected])
            #expect(slot.found() == [expected])
            #expect(slot.found() == [])
            slot.leave()
        }
    }

    @Test("H14 a stopped process keeps its seat and is not recovered")
    func stopped() throws {
        try withFolder { folder in
            try prepareSeats(folder.file())
            let slot = try sitDown(folder.file())
            let child = try SeatedChild(folder.file())
            try child.tell("mark 7 99")
            child.process.signal(SIGSTOP)
            #expect(slot.found() == [])
            #expect(slot.others == [child.seat])
            child.process.signal(SIGCONT)
            try child.tell("clear")
            child.kill()
            #expect(slot.found() == [Found(seat: child.seat, mark: nil)])
            #expect(slot.others == [])
            slot.leave()
        }
    }

    // MARK: - Leaving

    @Test("H14 a store that leaves in good order leaves nothing to recover, though its process lives on")
    func cleanLeave() throws {
        try withFolder { folder in
            try prepareSeats(folder.file())
            let slot = try sitDown(folder.file())
            let child = try SeatedChild(folder.file())
            try child.tell("mark 7 99")
            #expect(slot.others == [child.seat])
            try child.tell("leave")
            #expect(slot.found() == [])
            #expect(slot.others == [])
            // What it does afterwards touches the seat no more.
            let next = try sitDown(folder.file())
            #expect(next.number == child.seat)
            try child.tell("mark 8 100")
            try child.tell("leave")
            child.kill()
            #expect(slot.found() == [])
            #expect(slot.others == [next.number])
            slot.leave()
            next.leave()
        }
    }

    @Test("H14 a store that goes without leaving is taken for dead, though its process lives on")
    func goneWithoutLeaving() throws {
        try withFolder { folder in
            try prepareSeats(folder.file())
            let slot = try sitDown(folder.file())
            do {
                let other = try sitDown(folder.file())
                other.mark(Mark(handler: 3, digest: 4))
                #expect(slot.found() == [])
            }
            #expect(slot.found() == [Found(seat: 1, mark: Mark(handler: 3, digest: 4))])
            slot.leave()
        }
    }

    // MARK: - Seats

    @Test("H14 two stores in one process sit on two seats, and one's life says nothing of the other's")
    func twoInOneProcess() throws {
        try withFolder { folder in
            try prepareSeats(folder.file())
            let (first, second) = (try sitDown(folder.file()), try sitDown(folder.file()))
            #expect(first.number == 0)
            #expect(second.number == 1)
            #expect(first.others == [1])
            #expect(second.others == [0])
            #expect(first.isAlive(second.life))
            #expect(second.isAlive(first.life))
            #expect(second.processID(of: 0) == getpid())
            first.leave()
            #expect(!second.isAlive(first.life))
            #expect(second.others == [])
            second.leave()
        }
    }

    @Test("H14 one store more than there are seats is refused with a sentence that says what to do")
    func limit() throws {
        try withFolder { folder in
            try prepareSeats(folder.file())
            let slots = try (0..<ProcessSlot.limit).map { _ in try sitDown(folder.file()) }
            #expect(slots.map(\.number) == Array(0..<ProcessSlot.limit))
            #expect(slots[5].others.count == ProcessSlot.limit - 1)
            let error = #expect(throws: HandlerError.self) { _ = try sitDown(folder.file()) }
            #expect(error?.code == .databaseUnavailable)
            #expect(error?.message.contains("256 stores") == true)
            #expect(error?.message.contains("close one of them") == true)
            slots[100].leave()
            let late = try sitDown(folder.file())
            #expect(late.number == 100)
            for slot in slots + [late] { slot.leave() }
        }
    }
}

/// Writes eight bytes into a file.
func overwrite(_ path: String, at offset: Int, with word: Int64) throws {
    let file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
    try file.seek(toOffset: UInt64(offset))
    try file.write(contentsOf: withUnsafeBytes(of: word) { Data($0) })
    try file.close()
}
