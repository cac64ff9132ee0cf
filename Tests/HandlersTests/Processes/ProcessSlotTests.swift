import Foundation
import Glibc
import Handlers
import Synchronization
import TestThreads
import TestSupport
import Testing

@Suite(.serialized, .ownThread) struct ProcessSlotTests {
    // MARK: - Death

    @Test("H13 the mark of a killed process is found, exactly once")
    func killedMark() throws {
        try withFolder { folder in
            try prepareSlots(folder.file())
            let slot = try occupy(folder.file())
            let child = try SlotChild(folder.file())
            try child.tell("mark 7 99")
            try child.tell("mark 8 100")
            #expect(slot.found() == [], "it still lives")
            child.kill()
            #expect(
                slot.found() == [Found(slot: child.slot, runningCall: RunningCall(handler: 8, digest: 100))])
            #expect(slot.found() == [])
            slot.leave()
        }
    }

    @Test("H13 a process that is killed between two handlers leaves no mark, but a slot to recover")
    func killedWithoutMark() throws {
        try withFolder { folder in
            try prepareSlots(folder.file())
            let slot = try occupy(folder.file())
            let child = try SlotChild(folder.file())
            try child.tell("mark 7 99")
            try child.tell("clear")
            child.kill()
            #expect(slot.found() == [Found(slot: child.slot, runningCall: nil)])
            slot.leave()
        }
    }

    @Test("H13 a dead process whose slot another one recovers at this moment is seen, until it is done")
    func recoveredMeanwhile() throws {
        try withFolder { folder in
            try prepareSlots(folder.file())
            let other = try occupy(folder.file())
            let child = try SlotChild(folder.file())
            #expect(!other.hasUnrecovered)
            child.kill()
            var isSeen = false
            let slot = try ProcessSlot(path: folder.file()) { (_, _) throws(HandlerError) in
                #expect(other.found() == [])
                isSeen = other.hasUnrecovered
            }
            #expect(slot.number == child.slot)
            #expect(isSeen && !other.hasUnrecovered)
            for slot in [slot, other] { slot.leave() }
        }
    }

    @Test("H13 a store finds out that it is alone before others can see it, also when it recovers a slot")
    func alone() throws {
        try withFolder { folder in
            var calls: [String] = []
            let open = {
                try ProcessSlot(
                    path: folder.file(), whenAlone: { () throws(HandlerError) in calls.append("alone") },
                    recover: { (_, _) throws(HandlerError) in calls.append("recover") })
            }
            let first = try open()
            #expect(calls == ["alone", "recover"], "in a new file each slot is one of an unknown holder")
            first.recoverDead { _, _ in }
            let second = try open()
            #expect(calls.count == 2)
            for slot in [first, second] { slot.leave() }
            calls = []
            // One that comes meanwhile is alone, too: it cannot rely on what the other has not done yet.
            let outer = try ProcessSlot(
                path: folder.file(),
                whenAlone: { () throws(HandlerError) in
                    if let inner = try? open() { inner.leave() }
                }, recover: { (_, _) throws(HandlerError) in })
            #expect(calls == ["alone"])
            outer.leave()
            calls = []
            let third = try open()
            #expect(calls == ["alone"])
            third.leave()
        }
    }

    @Test("H13 who takes the slot of a dead process recovers it first")
    func successor() throws {
        try withFolder { folder in
            try prepareSlots(folder.file())
            let child = try SlotChild(folder.file())
            try child.tell("mark 7 99")
            child.kill()
            var found: [Found] = []
            let slot = try ProcessSlot(path: folder.file()) { (slot, runningCall) throws(HandlerError) in
                found.append(Found(slot: slot, runningCall: runningCall))
            }
            #expect(slot.number == child.slot)
            #expect(found == [Found(slot: child.slot, runningCall: RunningCall(handler: 7, digest: 99))])
            slot.leave()
            // The dead one's mark is not taken for the successor's.
            let next = try SlotChild(folder.file())
            #expect(next.greeting == "slot 0")
            next.kill()
            let last = try SlotChild(folder.file())
            #expect(last.greeting == "slot 0 0")
        }
    }

    @Test("H13 a process that is killed while it writes marks leaves a whole one or none")
    func killedWhileMarking() throws {
        try withFolder { folder in
            try prepareSlots(folder.file())
            let slot = try occupy(folder.file())
            for _ in 0..<10 {
                let child = try SlotChild(folder.file(), "mark-for-ever")
                child.kill()
                let found = slot.found()
                #expect(found.map(\.slot) == [child.slot])
                if let runningCall = found.first?.runningCall {
                    #expect(runningCall.digest == digest(of: runningCall.handler))
                }
            }
            slot.leave()
        }
    }

    private func digest(of handler: Int64) -> UInt64 { UInt64(handler) &* 0x9e37_79b9_7f4a_7c15 }

    /// The moment itself is too short for a signal to meet it.
    @Test("H13 a mark that is written only in part is none, whatever stood there before")
    func tornMark() throws {
        let memory = UnsafeMutableRawPointer.allocate(byteCount: SlotRecord.stride, alignment: 64)
        defer { memory.deallocate() }
        memory.initializeMemory(as: UInt8.self, repeating: 0, count: SlotRecord.stride)
        let record = memory.assumingMemoryBound(to: SlotRecord.self)
        for handler: Int64 in 1...3 {
            let runningCall = RunningCall(handler: handler, digest: UInt64(handler) * 11)
            record.pointee.write(runningCall) { #expect(record.pointee.runningCall == nil) }
            #expect(record.pointee.runningCall == runningCall)
        }
    }

    // MARK: - Recovery

    @Test("H13 of several stores that recover at the same time, one finds each dead slot")
    func oneWins() async throws {
        try await withFolder { folder in
            try prepareSlots(folder.file())
            let slots = try (0..<4).map { _ in try occupy(folder.file()) }
            for _ in 0..<20 {
                // Released without leaving, which is what death does.
                let dead = try (0..<200).map { _ in try occupy(folder.file()) }.map(\.number)
                let found = Mutex<[Int]>([])
                let barrier = Barrier(slots.count)
                await concurrently(slots.count) { index in
                    barrier.wait()
                    let mine = slots[index].found().map(\.slot)
                    found.withLock { $0 += mine }
                }
                let all = found.withLock { $0 }
                #expect(all.sorted() == dead)
            }
            for slot in slots { slot.leave() }
        }
    }

    @Test("H13 two processes recover the slot of a third: one finds it, the other does not")
    func oneProcessWins() throws {
        try withFolder { folder in
            try prepareSlots(folder.file())
            let (first, second) = (try SlotChild(folder.file()), try SlotChild(folder.file()))
            let victim = try SlotChild(folder.file())
            try victim.tell("mark 5 6")
            victim.kill()
            try first.process.write("recover\n")
            let answers = [
                try second.tell("recover"),
                try #require(try first.process.output?.readLine(deadline: .now + .seconds(60))),
            ]
            #expect(answers.sorted() == ["recovered", "recovered \(victim.slot):5:6"])
        }
    }

    @Test("H13 a slot is nobody else's while it is recovered")
    func heldWhileRecovered() throws {
        try withFolder { folder in
            try prepareSlots(folder.file())
            let (slot, other) = (try occupy(folder.file()), try occupy(folder.file()))
            let child = try SlotChild(folder.file())
            child.kill()
            slot.recoverDead { (slot, _) in
                #expect(other.found() == [])
                // A newcomer passes the slot by as well.
                let newcomer = try? occupy(folder.file())
                #expect(newcomer != nil && newcomer?.number != slot)
                newcomer?.leave()
            }
            slot.leave()
            other.leave()
        }
    }

    @Test("H13 a slot whose holder died is recovered before it counts as vacant: no death is forgotten")
    func vacantOnceRecovered() throws {
        try withFolder { folder in
            try prepareSlots(folder.file())
            let slot = try occupy(folder.file())
            let child = try SlotChild(folder.file())
            var calls = 0
            try child.tell("mark 7 99")
            slot.whileVacant(child.slot) { calls += 1 }
            child.kill()
            slot.whileVacant(child.slot) { calls += 1 }
            #expect(calls == 0)
            #expect(
                slot.found() == [Found(slot: child.slot, runningCall: RunningCall(handler: 7, digest: 99))])
            slot.whileVacant(child.slot) { calls += 1 }
            #expect(calls == 1)
            slot.leave()
        }
    }

    @Test("H13 a recovery that fails leaves the slot to be found again, in the opening store too")
    func failingRecovery() throws {
        try withFolder { folder in
            try prepareSlots(folder.file())
            let slot = try occupy(folder.file())
            let child = try SlotChild(folder.file())
            try child.tell("mark 7 99")
            child.kill()
            let refused = HandlerError(.databaseLocked, "not now")
            let expected = Found(slot: child.slot, runningCall: RunningCall(handler: 7, digest: 99))
            #expect(throws: HandlerError.self) { try slot.recoverDead { (_, _) in throw refused } }
            var seen: [Found] = []
            #expect(throws: HandlerError.self) {
                _ = try ProcessSlot(path: folder.file()) { (slot, runningCall) throws(HandlerError) in
                    seen.append(Found(slot: slot, runningCall: runningCall))
                    throw refused
                }
            }
            #expect(seen == [expected])
            #expect(slot.found() == [expected])
            #expect(slot.found() == [])
            slot.leave()
        }
    }

    @Test("H14 a stopped process keeps its slot and is not recovered")
    func stopped() throws {
        try withFolder { folder in
            try prepareSlots(folder.file())
            let slot = try occupy(folder.file())
            let child = try SlotChild(folder.file())
            try child.tell("mark 7 99")
            child.process.signal(SIGSTOP)
            #expect(slot.found() == [])
            #expect(slot.others == [child.slot])
            child.process.signal(SIGCONT)
            try child.tell("clear")
            child.kill()
            #expect(slot.found() == [Found(slot: child.slot, runningCall: nil)])
            #expect(slot.others == [])
            slot.leave()
        }
    }

    // MARK: - Leaving

    @Test("H14 a store that leaves in good order leaves nothing to recover, though its process lives on")
    func cleanLeave() throws {
        try withFolder { folder in
            try prepareSlots(folder.file())
            let slot = try occupy(folder.file())
            let child = try SlotChild(folder.file())
            try child.tell("mark 7 99")
            #expect(slot.others == [child.slot])
            try child.tell("leave")
            #expect(slot.found() == [])
            #expect(slot.others == [])
            // What it does afterwards touches the slot no more.
            let next = try occupy(folder.file())
            #expect(next.number == child.slot)
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
            try prepareSlots(folder.file())
            let slot = try occupy(folder.file())
            do {
                let other = try occupy(folder.file())
                other.record(RunningCall(handler: 3, digest: 4))
                #expect(slot.found() == [])
            }
            #expect(slot.found() == [Found(slot: 1, runningCall: RunningCall(handler: 3, digest: 4))])
            slot.leave()
        }
    }

    // MARK: - Slots

    @Test("H14 two stores in one process sit on two slots, and one's life says nothing of the other's")
    func twoInOneProcess() throws {
        try withFolder { folder in
            try prepareSlots(folder.file())
            let (first, second) = (try occupy(folder.file()), try occupy(folder.file()))
            #expect(first.number == 0)
            #expect(second.number == 1)
            #expect(first.others == [1])
            #expect(second.others == [0])
            #expect(first.isAlive(second.aliveByte))
            #expect(second.isAlive(first.aliveByte))
            #expect(second.processID(of: 0) == getpid())
            first.leave()
            #expect(!second.isAlive(first.aliveByte))
            #expect(second.others == [])
            second.leave()
        }
    }

    @Test("H14 one store more than there are slots is refused with a sentence that says what to do")
    func limit() throws {
        try withFolder { folder in
            try prepareSlots(folder.file())
            let slots = try (0..<ProcessSlot.limit).map { _ in try occupy(folder.file()) }
            #expect(slots.map(\.number) == Array(0..<ProcessSlot.limit))
            #expect(slots[5].others.count == ProcessSlot.limit - 1)
            let error = #expect(throws: HandlerError.self) { _ = try occupy(folder.file()) }
            #expect(error?.code == .databaseUnavailable)
            #expect(error?.message.contains("256 stores") == true)
            #expect(error?.message.contains("close one of them") == true)
            slots[100].leave()
            let late = try occupy(folder.file())
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
