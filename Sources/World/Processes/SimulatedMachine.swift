package import Handlers

/// The processes of a simulated machine that have one database open, with their slots, deaths and notifications.
///
/// ```swift
/// let machine = SimulatedMachine()
/// let system = SystemServices(files: files, presence: machine.presence)
/// machine.kill(slot: 0)
/// ```
///
/// `@unchecked Sendable`: one thread uses it.
package final class SimulatedMachine: @unchecked Sendable {
    private struct Slot {
        let aliveByte: Int64
        let process: SimulatedDisk.Process?
        var isAlive = true
        /// Whether a store has used the slot since its last recovery.
        var isDirty = true
        /// The alive byte of the process that is recovering the slot, and holds its lock meanwhile.
        var recoverer: Int64?
        var runningCall: RunningCall?
        var ownNotifications: UInt32 = 0
        var changed: (@Sendable () -> Void)?
    }

    private var slots: [Slot] = []
    private var notifications: UInt32 = 0
    private var lastByte: Int64 = 0
    /// Calls a callback of a process, at once or when the world's schedule chooses it.
    package var deliver: (_ process: SimulatedDisk.Process?, @escaping @Sendable () -> Void) -> Void = {
        $1()
    }

    package init() {}

    /// Makes the presence of a store, for ``SystemServices``.
    package var presence: SystemServices.Presence { presence(of: nil) }

    /// Makes the presence of a process's store.
    package func presence(of process: SimulatedDisk.Process?) -> SystemServices.Presence {
        { [self] (_, whenAlone, recover) throws(HandlerError) in
            if alive.isEmpty { try whenAlone() }
            let presence = SimulatedPresence(self, enter(process))
            try presence.recoverDead(recover)
            return presence
        }
    }

    /// Kills the process of a slot. The processes that watch it are notified, as by the kernel.
    package func kill(slot: Int) {
        guard slots[slot].isAlive else { return }
        end(slot)
    }

    /// Kills the slots of a process.
    package func kill(_ process: SimulatedDisk.Process) {
        for slot in slots.indices where slots[slot].isAlive && slots[slot].process === process { end(slot) }
    }

    /// The slots of live processes.
    package var alive: [Int] { slots.indices.filter { slots[$0].isAlive } }

    /// Kills all processes and notifies none. The file of slots belongs to an earlier boot, so each slot must be recovered.
    package func losePower() {
        for slot in slots.indices {
            slots[slot].changed = nil
            (slots[slot].isAlive, slots[slot].isDirty) = (false, true)
            slots[slot].recoverer = nil
            // The record of the running call is only in memory.
            slots[slot].runningCall = nil
        }
    }

    // MARK: For the presence of a process

    private func enter(_ process: SimulatedDisk.Process?) -> Int {
        lastByte += 1
        let new = Slot(aliveByte: lastByte, process: process, ownNotifications: notifications)
        if let free = slots.firstIndex(where: { !$0.isAlive && !$0.isDirty }) {
            slots[free] = new
            return free
        }
        slots.append(new)
        return slots.count - 1
    }

    private func end(_ slot: Int) {
        slots[slot].isAlive = false
        slots[slot].changed = nil
        callOthers(than: slot)
    }

    private func callOthers(than slot: Int) {
        for other in slots.indices where other != slot {
            if let changed = slots[other].changed { deliver(slots[other].process, changed) }
        }
    }

    fileprivate func leave(_ slot: Int) {
        guard slots[slot].isAlive else { return }
        slots[slot].isDirty = false
        slots[slot].runningCall = nil
        end(slot)
    }

    fileprivate func isAlive(_ slot: Int, _ byte: Int64) -> Bool {
        slots[slot].isAlive && slots[slot].aliveByte == byte
    }

    fileprivate func byte(_ slot: Int) -> Int64 { slots[slot].aliveByte }

    fileprivate func record(_ slot: Int, _ call: RunningCall?) { slots[slot].runningCall = call }

    fileprivate func notify(from slot: Int) {
        notifications &+= 1
        slots[slot].ownNotifications &+= 1
        callOthers(than: slot)
    }

    fileprivate func notifications(by others: Int) -> UInt32 {
        notifications &- slots[others].ownNotifications
    }

    fileprivate func recoverDead<E>(
        by byte: Int64, _ body: (Int, RunningCall?) throws(E) -> Void
    ) throws(E) {
        for slot in slots.indices where !slots[slot].isAlive && slots[slot].isDirty {
            if let recoverer = slots[slot].recoverer, isAlive(recoverer) { continue }
            slots[slot].recoverer = byte
            defer { if slots[slot].recoverer == byte { slots[slot].recoverer = nil } }
            try body(slot, slots[slot].runningCall)
            // The recovering process may have died during the call.
            guard isAlive(byte) else { return }
            (slots[slot].isDirty, slots[slot].runningCall) = (false, nil)
        }
    }

    fileprivate func hasUnrecovered(besides number: Int) -> Bool {
        slots.indices.contains { $0 != number && !slots[$0].isAlive && slots[$0].isDirty }
    }

    private func isAlive(_ byte: Int64) -> Bool { slots.contains { $0.isAlive && $0.aliveByte == byte } }

    fileprivate func isVacant(_ slot: Int) -> Bool {
        slot >= slots.count || !slots[slot].isAlive && !slots[slot].isDirty
    }

    fileprivate func watchOthers(_ slot: Int, _ changed: (@Sendable () -> Void)?) {
        slots[slot].changed = changed
    }
}

/// The slot of one process. After the process's death its calls have no effect.
private final class SimulatedPresence: ProcessPresence, @unchecked Sendable {
    private let machine: SimulatedMachine
    let number: Int
    private let byte: Int64
    let narrowedFiles: [String] = []
    let fileNumber: Int64? = 1

    init(_ machine: SimulatedMachine, _ number: Int) {
        (self.machine, self.number) = (machine, number)
        byte = machine.byte(number)
    }

    /// To other processes, a store that was released without leaving has died.
    deinit { if isAlive { machine.kill(slot: number) } }

    private var isAlive: Bool { machine.isAlive(number, byte) }

    func record(_ runningCall: RunningCall) { if isAlive { machine.record(number, runningCall) } }
    func clearRunningCall() { if isAlive { machine.record(number, nil) } }
    func leave() { if isAlive { machine.leave(number) } }
    func notifyOthers() { if isAlive { machine.notify(from: number) } }
    var countOfOthers: UInt32 { isAlive ? machine.notifications(by: number) : 0 }

    func recoverDead<E>(_ body: (Int, RunningCall?) throws(E) -> Void) throws(E) {
        if isAlive { try machine.recoverDead(by: byte, body) }
    }

    func whileVacant<E>(_ slot: Int, _ body: () throws(E) -> Void) throws(E) {
        if isAlive, machine.isVacant(slot) { try body() }
    }

    var hasUnrecovered: Bool { isAlive && machine.hasUnrecovered(besides: number) }

    func isSeenOtherwise(than inode: Int64) -> Bool { false }

    /// The machine calls the callback itself; no loop waits for changes.
    func watchOthers(
        _ driver: any LoopDriver, _ changed: @escaping @Sendable () -> Void
    ) throws(HandlerError) -> any ProcessWatch {
        if isAlive { machine.watchOthers(number, changed) }
        return Watch { [self] in if isAlive { machine.watchOthers(number, nil) } }
    }

    private final class Watch: ProcessWatch {
        private let end: @Sendable () -> Void
        init(_ end: @escaping @Sendable () -> Void) { self.end = end }
        deinit { end() }
        func cancel() { end() }
    }
}
