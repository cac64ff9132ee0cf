import HandlersTestKit
import TestThreads
import Testing

@testable import Handlers
@testable import World

/// The shipped store on a disk that is killed, loses power, fills up and fails.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct StoreOnDiskTests {
    private static let schema = Schema(
        module: "notes",
        migrations: ["CREATE TABLE note(id INTEGER PRIMARY KEY, text TEXT NOT NULL, filler BLOB)"])

    private struct Late: Handler {
        static let id = "world.late"
        var number: Int
        func run(_ call: borrowing Call<TimerFired>) throws {}
    }

    /// A machine with one database.
    private final class Machine {
        let disk: SimulatedDisk
        let files: SQLiteFileSystem
        let processes = SimulatedMachine()
        let clock = VirtualClock()
        var synchronous: HandlerStore.Synchronous
        /// Called when a store that is opened has its slot.
        var hasSlot: () -> Void = {}

        init(seed: UInt64, synchronous: HandlerStore.Synchronous = .full) {
            disk = SimulatedDisk(seed: seed)
            files = SQLiteFileSystem(disk)
            self.synchronous = synchronous
        }

        func start() -> SimulatedDisk.Process {
            let process = disk.startProcess("main")
            disk.current = process
            return process
        }

        /// - Parameter schemas: Tables that come beside those of all tests.
        func open(_ schemas: [Schema] = []) throws -> HandlerStore {
            nonisolated(unsafe) let (disk, hasSlot) = (disk, hasSlot)
            let processes = processes
            return try HandlerStore(
                path: "/app.db", registry: HandlerRegistry([Late.self]),
                schemas: [StoreOnDiskTests.schema] + schemas, role: .main,
                synchronous: synchronous, busyTimeout: .zero, time: clock.timeSource, log: nil,
                system: SystemServices(
                    files: files, boot: { "boot-\(disk.boot)" },
                    presence: { (path, whenAlone, recover) throws(HandlerError) in
                        defer { hasSlot() }
                        return try processes.presence(path, whenAlone, recover)
                    }))
        }

        /// Opens the store as the only process, after all others are dead.
        func reopened<R>(_ body: (HandlerStore) throws -> R) throws -> R {
            disk.onCall = nil
            for slot in processes.alive { processes.kill(slot: slot) }
            _ = start()
            return try body(open())
        }
    }

    private static func add(_ number: Int, to store: HandlerStore) throws {
        try store.step { step in
            try step.execute(
                "INSERT INTO note(id, text, filler) VALUES (?, ?, randomblob(1500))", number, "n\(number)")
            try step.schedule(Late(number: number).durable, after: .seconds(3600))
        }
    }

    private static func notes(_ store: HandlerStore) throws -> [Int64] {
        try store.step { try $0.all("SELECT id FROM note ORDER BY id") { $0.integer(0) } }
    }

    /// What a life is ended by.
    private enum End: CaseIterable { case kill, powerLoss }

    /// Runs a life that ends at a random call.
    ///
    /// - Returns: How many commits were confirmed to the caller.
    private static func live(_ machine: Machine, from first: Int, _ end: End, at call: Int) -> Int {
        let process = machine.start()
        var calls = 0
        machine.disk.onCall = { _ in
            calls += 1
            if calls == call { machine.disk.kill(process) }
            return nil
        }
        var confirmed = 0
        do {
            let store = try machine.open()
            for number in first..<first + 14 {
                try add(number, to: store)
                confirmed += 1
            }
            machine.disk.kill(process)
        } catch {}
        machine.disk.onCall = nil
        machine.disk.kill(process)
        if end == .powerLoss {
            machine.disk.losePower()
            machine.processes.losePower()
        }
        return confirmed
    }

    @Test("Z2 a store whose write-ahead log could not be turned on is refused")
    func withoutLog() throws {
        var opened = 0
        for failing in 1...12 {
            let machine = Machine(seed: 1)
            _ = machine.start()
            var syncs = 0
            machine.disk.onCall = { call in
                syncs += call.kind == .sync ? 1 : 0
                return call.kind == .sync && syncs == failing ? .ioError : nil
            }
            guard let store = try? machine.open() else { continue }
            opened += 1
            let mode = try store.step { try $0.first("PRAGMA journal_mode") { $0.text(0) } }
            #expect(mode == "wal", "sync \(failing) failed")
        }
        #expect(opened > 0)
    }

    @Test("Z2 a read that fails while a store is opened after a kill fails the opening as what it is")
    func failedReads() throws {
        let machine = Machine(seed: 1)
        var failed = 0
        for failing in 1... {
            // Most pages are in the database, and those of the newest commits in the log, which is to be settled.
            try machine.reopened { _ in }
            machine.disk.onCall = nil
            let process = machine.start()
            do {
                let store = try machine.open()
                try Self.add(failing, to: store)
                machine.disk.kill(process)
            }
            for slot in machine.processes.alive { machine.processes.kill(slot: slot) }
            _ = machine.start()
            var reads = 0
            machine.disk.onCall = { call in
                guard call.kind == .read, call.path == "/app.db" else { return nil }
                reads += 1
                return reads == failing ? .full : nil
            }
            do {
                _ = try machine.open()
                if reads < failing { break }
            } catch {
                failed += 1
                #expect((error as? HandlerError)?.isStorageFailure == true, "read \(failing): \(error)")
            }
        }
        #expect(failed > 0)
    }

    @Test(
        "Z2 after a kill or a loss of power at any call, a FULL store has what was confirmed, and whole steps only"
    )
    func full() throws {
        var random = SeededGenerator(seed: 1)
        for seed in 0..<24 as Range<UInt64> {
            let machine = Machine(seed: seed)
            var count = 0
            for life in 0..<4 {
                let end = End.allCases.randomElement(using: &random) ?? .kill
                let confirmed = Self.live(
                    machine, from: count, end, at: Int.random(in: 1...400, using: &random))
                try machine.reopened { store in
                    let notes = try Self.notes(store)
                    let handlers = try store.step {
                        try $0.all("SELECT count(*) FROM handler") { $0.integer(0) }
                    }
                    let integrity = try store.step { try $0.all("PRAGMA integrity_check") { $0.text(0) } }
                    let found = notes.count
                    // The last commit may have been done although nobody was told.
                    #expect(
                        found == count + confirmed || found == count + confirmed + 1,
                        "seed \(seed), life \(life), \(end): \(found) of \(count) + \(confirmed)")
                    #expect(notes == (0..<Int64(found)).map { $0 })
                    #expect(handlers == [Int64(found)])
                    #expect(integrity == ["ok"])
                    count = found
                }
            }
        }
    }

    @Test("Z2 after a loss of power a NORMAL store is whole, and at most the newest steps are gone")
    func normal() throws {
        var random = SeededGenerator(seed: 2)
        var lost = 0
        for seed in 0..<16 as Range<UInt64> {
            let machine = Machine(seed: seed, synchronous: .normal)
            let confirmed = Self.live(
                machine, from: 0, .powerLoss, at: Int.random(in: 100...400, using: &random))
            try machine.reopened { store in
                let notes = try Self.notes(store)
                let copies = try store.step { try $0.copies }
                let integrity = try store.step { try $0.all("PRAGMA integrity_check") { $0.text(0) } }
                #expect(copies == 1 || notes.isEmpty, "seed \(seed): the boot was stored with a sync")
                #expect(
                    notes == (0..<Int64(notes.count)).map { $0 } && notes.count <= confirmed + 1,
                    "seed \(seed)")
                #expect(integrity == ["ok"])
                if notes.count < confirmed { lost += 1 }
            }
        }
        #expect(lost > 0, "a loss of power takes steps that were not synced")
    }

    @Test("Z2 a loss of power right after the opening of a NORMAL store does not hide that it was one")
    func bootOfNormal() throws {
        for seed in 0..<8 as Range<UInt64> {
            let machine = Machine(seed: seed, synchronous: .normal)
            let process = machine.start()
            let store = try machine.open()
            try Self.add(0, to: store)
            machine.disk.kill(process)
            machine.disk.losePower()
            machine.processes.losePower()
            let copies = try machine.reopened { store in try store.step { try $0.copies } }
            #expect(copies == 1, "seed \(seed)")
        }
    }

    @Test("Z2 a step whose sync fails is refused, and what is confirmed after it survives a loss of power")
    func failedSync() throws {
        for seed in 0..<8 as Range<UInt64> {
            let machine = Machine(seed: seed)
            _ = machine.start()
            var confirmed: [Int64] = []
            do {
                let store = try machine.open()
                var syncs = 0
                machine.disk.onCall = { call in
                    guard call.kind == .sync else { return nil }
                    syncs += 1
                    return syncs % 3 == 0 ? .ioError : nil
                }
                for number in 0..<12 {
                    do {
                        try Self.add(number, to: store)
                        confirmed.append(Int64(number))
                    } catch let error as HandlerError {
                        #expect(error.isStorageFailure, "\(error)")
                    }
                }
                #expect(confirmed.count < 12 && confirmed.count > 6)
                machine.disk.losePower()
            }
            machine.processes.losePower()
            try machine.reopened { store in
                let notes = try Self.notes(store)
                #expect(notes == confirmed, "seed \(seed)")
            }
        }
    }

    /// Lets the commit of a note fail at a sync, and kills the process there or after it.
    ///
    /// - Parameter isFirst: Whether it is the first one of its log, whose head is synced before.
    private static func dieInCommit(
        _ number: Int, _ store: HandlerStore, on machine: Machine, isFirst: Bool = false,
        after fault: SimulatedDisk.Fault?
    ) throws {
        let process = try #require(machine.disk.current)
        var isHead = isFirst
        machine.disk.onCall = { call in
            guard call.kind == .sync else { return nil }
            if isHead {
                isHead = false
                return nil
            }
            if fault == nil { machine.disk.kill(process) }
            return fault
        }
        #expect(throws: HandlerError.self) { try add(number, to: store) }
        machine.disk.onCall = nil
        machine.disk.kill(process)
    }

    /// Adds a note and loses the power; that note and an earlier one must be there then.
    private static func expectKept(
        _ number: Int, after earlier: Int, on machine: Machine, _ comment: Comment
    ) throws {
        try machine.reopened { store in
            try add(number, to: store)
            machine.disk.losePower()
        }
        machine.processes.losePower()
        let notes = try machine.reopened { try Self.notes($0) }
        #expect(notes.contains(Int64(number)) && notes.contains(Int64(earlier)), comment)
    }

    @Test("Z2 a commit after one whose sync failed, and whose process died at once, survives a loss of power")
    func commitAfterFailedSync() throws {
        for seed in 0..<8 as Range<UInt64> {
            let machine = Machine(seed: seed)
            _ = machine.start()
            do {
                let store = try machine.open()
                try Self.add(0, to: store)
                try Self.dieInCommit(1, store, on: machine, after: .ioError)
            }
            try Self.expectKept(2, after: 0, on: machine, "seed \(seed)")
        }
    }

    @Test(
        "Z2 what is confirmed after a commit whose sync failed survives, however many processes died in mending the log",
        arguments: 1...3)
    func deathsInMending(count: Int) throws {
        for seed in 0..<8 as Range<UInt64> {
            let machine = Machine(seed: seed)
            _ = machine.start()
            do {
                let store = try machine.open()
                try Self.add(0, to: store)
                try Self.dieInCommit(1, store, on: machine, after: .ioError)
            }
            for _ in 0..<count {
                for slot in machine.processes.alive { machine.processes.kill(slot: slot) }
                let process = machine.start()
                var hasFailed = false
                machine.disk.onCall = { call in
                    if hasFailed { machine.disk.kill(process) }
                    guard call.kind == .sync else { return nil }
                    hasFailed = true
                    return .ioError
                }
                #expect(throws: HandlerError.self) { _ = try machine.open() }
                machine.disk.onCall = nil
            }
            try Self.expectKept(2, after: 0, on: machine, "seed \(seed)")
        }
    }

    /// A machine on which a store was closed after the sync of its commit of note 1 had failed; note 0 is confirmed.
    private static func machineWithLeftLog(seed: UInt64) throws -> Machine {
        let machine = Machine(seed: seed)
        _ = machine.start()
        let store = try machine.open()
        try add(0, to: store)
        // Until after the close, so that the log stays.
        machine.disk.onCall = { $0.kind == .sync ? .ioError : nil }
        #expect(throws: HandlerError.self) { try add(1, to: store) }
        return machine
    }

    @Test("Z2 of two stores that open beside a log that a failed one left, what the faster confirms survives")
    func openedTogether() throws {
        for seed in 0..<8 as Range<UInt64> {
            let machine = try Self.machineWithLeftLog(seed: seed)
            machine.disk.onCall = nil
            var failure: (any Error)?
            // The other one has not come as far as to write the log again, and cannot be seen yet.
            _ = try machine.processes.presence(
                "/app.db",
                { () throws(HandlerError) in
                    do {
                        _ = machine.start()
                        let store = try machine.open()
                        try Self.add(2, to: store)
                        machine.disk.losePower()
                    } catch {
                        failure = error
                    }
                }, { (_, _) throws(HandlerError) in })
            #expect(failure == nil)
            machine.processes.losePower()
            let notes = try machine.reopened { try Self.notes($0) }
            #expect(notes.contains(0) && notes.contains(2), "seed \(seed): \(notes)")
        }
    }

    @Test(
        "Z2 what a store confirms that opens while another process recovers a dead one survives a loss of power"
    )
    func openedBesideRecovery() throws {
        for seed in 0..<8 as Range<UInt64> {
            let machine = Machine(seed: seed)
            _ = machine.start()
            do {
                let store = try machine.open()
                try Self.add(0, to: store)
                try Self.dieInCommit(1, store, on: machine, after: .ioError)
            }
            machine.processes.kill(slot: 0)
            var failure: (any Error)?
            // The other process has taken the slot, and gets no further.
            _ = try machine.processes.presence("/app.db", {}) { (_, _) throws(HandlerError) in
                do {
                    _ = machine.start()
                    let store = try machine.open()
                    try Self.add(2, to: store)
                    machine.disk.losePower()
                } catch {
                    failure = error
                }
            }
            #expect(failure == nil)
            machine.processes.losePower()
            let notes = try machine.reopened { try Self.notes($0) }
            #expect(notes.contains(0) && notes.contains(2), "seed \(seed): \(notes)")
        }
    }

    @Test("Z2 a commit after one whose sync failed, and whose store was closed, survives a loss of power")
    func closedAfterFailedSync() throws {
        for seed in 0..<8 as Range<UInt64> {
            let machine = try Self.machineWithLeftLog(seed: seed)
            #expect(machine.processes.alive.isEmpty)
            try Self.expectKept(2, after: 0, on: machine, "seed \(seed)")
        }
    }

    @Test(
        "Z2 a store that cannot settle the log leaves it where it is, so a loss of power finds the database whole"
    )
    func refusedBeforeSettled() throws {
        for seed in 0..<8 as Range<UInt64> {
            for last in 1...20 {
                let machine = Machine(seed: seed)
                _ = machine.start()
                do { try Self.add(0, to: machine.open()) }
                // The log is empty now.
                do {
                    let store = try machine.open()
                    try Self.dieInCommit(1, store, on: machine, isFirst: true, after: .ioError)
                }
                machine.processes.kill(slot: 0)
                let process = machine.start()
                Self.failFirstSync(on: machine) { if $0 == last { machine.disk.kill(process) } }
                #expect(throws: HandlerError.self) { _ = try machine.open() }
                machine.disk.onCall = nil
                machine.disk.losePower()
                machine.processes.losePower()
                try machine.reopened { store in
                    let notes = try Self.notes(store)
                    let integrity = try store.step { try $0.all("PRAGMA integrity_check") { $0.text(0) } }
                    #expect(notes.first == 0 && integrity == ["ok"], "seed \(seed), call \(last)")
                }
            }
        }
    }

    private static let added = Schema(
        module: "added", migrations: ["CREATE TABLE added(id INTEGER PRIMARY KEY)"])

    @Test("Z2 what is confirmed after a migration whose sync failed survives a loss of power")
    func failedMigration() throws {
        for seed in 0..<8 as Range<UInt64> {
            let machine = Machine(seed: seed)
            _ = machine.start()
            do { try Self.add(0, to: machine.open()) }
            _ = machine.start()
            var syncs = 0
            machine.disk.onCall = { call in
                guard call.kind == .sync else { return nil }
                syncs += 1
                // The first one is of the log's head.
                return syncs == 2 ? .ioError : nil
            }
            #expect(throws: HandlerError.self) { _ = try machine.open([Self.added]) }
            machine.disk.onCall = nil
            #expect(machine.processes.alive.isEmpty)
            _ = machine.start()
            do {
                let store = try machine.open([Self.added])
                try Self.add(2, to: store)
                machine.disk.losePower()
            }
            machine.processes.losePower()
            let notes = try machine.reopened { try Self.notes($0) }
            #expect(notes == [0, 2], "seed \(seed)")
        }
    }

    @Test("Z2 what a FULL store confirms after a NORMAL one whose checkpoint failed survives a loss of power")
    func fullAfterNormal() throws {
        for seed in 0..<8 as Range<UInt64> {
            let machine = Machine(seed: seed, synchronous: .normal)
            let process = machine.start()
            do {
                let store = try machine.open()
                for number in 0..<12 { try Self.add(number, to: store) }
                try store.betweenSteps { $0.takeOverCheckpoints(at: 1) }
                Self.failFirstSync(on: machine) { _ in machine.disk.kill(process) }
                try? Self.add(12, to: store)
                machine.disk.kill(process)
            }
            machine.synchronous = .full
            try Self.expectKept(20, after: 0, on: machine, "seed \(seed)")
        }
    }

    @Test("Z2 a store is whole after a loss of power though a sync of the database failed in a checkpoint")
    func failedSyncOfDatabase() throws {
        for seed in 0..<8 as Range<UInt64> {
            let machine = Machine(seed: seed)
            _ = machine.start()
            do {
                let (store, other) = (try machine.open(), try machine.open())
                for number in 0..<4 { try Self.add(number, to: store) }
                try store.betweenSteps { $0.takeOverCheckpoints(at: 1) }
                try other.read { snapshot in
                    // It keeps the frames from here on out of the database, which is not synced.
                    _ = try snapshot.all("SELECT id FROM note") { $0.integer(0) }
                    for number in 4..<6 { try Self.add(number, to: store) }
                }
                var hasFailed = false
                machine.disk.onCall = { call in
                    guard call.kind == .sync, call.path == "/app.db", !hasFailed else { return nil }
                    hasFailed = true
                    return .ioError
                }
                for number in 6..<10 { try Self.add(number, to: store) }
                #expect(hasFailed)
                machine.disk.losePower()
            }
            machine.processes.losePower()
            try machine.reopened { store in
                let notes = try Self.notes(store)
                let integrity = try store.step { try $0.all("PRAGMA integrity_check") { $0.text(0) } }
                #expect(notes == (0..<10).map { $0 } && integrity == ["ok"], "seed \(seed)")
            }
        }
    }

    @Test("Z2 a new store beside what is left of an older one survives a loss of power")
    func newBesideOldLog() throws {
        for seed in 0..<8 as Range<UInt64> {
            let machine = Machine(seed: seed)
            // What a loss of power has left of a store that was being made.
            for path in ["/app.db", "/app.db-wal"] {
                machine.disk.create(path)
                machine.disk.sync(path)
            }
            _ = machine.start()
            do {
                let store = try machine.open()
                try Self.add(0, to: store)
                machine.disk.losePower()
            }
            machine.processes.losePower()
            let notes = try machine.reopened { try Self.notes($0) }
            #expect(notes == [0], "seed \(seed)")
        }
    }

    /// Two processes with a NORMAL store of twelve notes; the first is running, and makes a checkpoint after each commit.
    private static func twoProcesses(seed: UInt64) throws -> (
        Machine, SimulatedDisk.Process, HandlerStore, SimulatedDisk.Process, HandlerStore
    ) {
        let machine = Machine(seed: seed, synchronous: .normal)
        let first = machine.start()
        let store = try machine.open()
        for number in 0..<12 { try add(number, to: store) }
        let second = machine.start()
        let other = try machine.open()
        machine.disk.current = first
        try store.betweenSteps { $0.takeOverCheckpoints(at: 1) }
        return (machine, first, store, second, other)
    }

    @Test("Z2 an opening that is refused does not move a log that nobody has settled into the database")
    func refusedBesideStep() throws {
        struct Undone: Error {}
        for seed in 0..<24 as Range<UInt64> {
            let (machine, first, store, second, other) = try Self.twoProcesses(seed: seed)
            // The log's sync fails, and the process dies before it can write the log again.
            Self.failFirstSync(on: machine) { _ in machine.disk.kill(first) }
            try? Self.add(12, to: store)
            machine.disk.kill(first)
            machine.disk.onCall = nil
            // A store that is opened sees only then that it is dead, and cannot settle the log beside another one's step.
            machine.hasSlot = { machine.processes.kill(slot: 0) }
            machine.disk.current = second
            do {
                try other.step { _ in
                    _ = machine.start()
                    #expect(throws: HandlerError.self) { _ = try machine.open() }
                    machine.hasSlot = {}
                    machine.disk.current = second
                    throw Undone()
                }
            } catch is Undone {}
            try Self.expectWhole(machine, "seed \(seed)")
        }
    }

    @Test("Z2 after a checkpoint that failed another process's checkpoint does not break the database")
    func checkpointAfterFailed() throws {
        for seed in 0..<24 as Range<UInt64> {
            let (machine, _, store, second, other) = try Self.twoProcesses(seed: seed)
            Self.failFirstSync(on: machine) { _ in }
            try Self.add(12, to: store)
            machine.disk.onCall = nil
            machine.disk.current = second
            try other.betweenSteps { $0.checkpoint() }
            try Self.expectWhole(machine, "seed \(seed)")
        }
    }

    /// Loses the power; the store must be whole then, with the oldest notes.
    private static func expectWhole(_ machine: Machine, _ comment: Comment) throws {
        machine.disk.losePower()
        machine.processes.losePower()
        try machine.reopened { store in
            let notes = try Self.notes(store)
            let integrity = try store.step { try $0.all("PRAGMA integrity_check") { $0.text(0) } }
            #expect(notes == (0..<Int64(notes.count)).map { $0 } && integrity == ["ok"], comment)
        }
    }

    /// When the first checkpoint runs, which fails.
    enum FirstCheckpoint: CaseIterable { case afterCommit, atClose, afterMigration }

    @Test(
        "Z2 a NORMAL store is whole after a loss of power in the checkpoint that follows a failed one",
        arguments: FirstCheckpoint.allCases)
    func failedCheckpoint(first: FirstCheckpoint) throws {
        for seed in 0..<UInt64(TestScale.of(8, part: 2)) {
            for last in 1...40 {
                let machine = Machine(seed: seed, synchronous: .normal)
                var process = machine.start()
                var count = 0
                do {
                    let store = try machine.open()
                    while count < 12 {
                        try Self.add(count, to: store)
                        count += 1
                    }
                    if first != .afterMigration {
                        Self.failFirstSync(on: machine) { if $0 == last { machine.disk.kill(process) } }
                    }
                    if first == .afterCommit {
                        try store.betweenSteps { $0.takeOverCheckpoints(at: 1) }
                        for number in 12...14 { try? Self.add(number, to: store) }
                    }
                }
                if first != .afterCommit, !process.isDead { process = machine.start() }
                switch first {
                case .afterCommit: break
                case .atClose: _ = try? machine.open()
                case .afterMigration:
                    // The first sync is of the log's head.
                    Self.failFirstSync(on: machine, after: 1) { if $0 == last { machine.disk.kill(process) } }
                    _ = try? machine.open([Self.added])
                }
                machine.disk.onCall = nil
                try Self.expectWhole(machine, "seed \(seed), call \(last)")
            }
        }
    }

    /// Lets the next sync fail.
    ///
    /// - Parameters:
    ///   - count: How many syncs succeed before it.
    ///   - then: Called before each write and sync that follows, with its number from 1 on.
    private static func failFirstSync(
        on machine: Machine, after count: Int = 0, then: @escaping (_ call: Int) -> Void
    ) {
        var (calls, left) = (0, count)
        machine.disk.onCall = { call in
            if call.kind == .sync, left > 0 {
                left -= 1
                return nil
            }
            guard call.kind == .sync || calls > 0 && call.kind == .write else { return nil }
            defer { calls += 1 }
            if calls > 0 { then(calls) }
            return calls == 0 ? .ioError : nil
        }
    }

    @Test("Z2 a commit that no process saw when its own died does not appear once that process is recovered")
    func commitOfTheDead() throws {
        let machine = Machine(seed: 6)
        let first = machine.start()
        let store = try machine.open()
        let second = machine.start()
        let other = try machine.open()
        machine.disk.current = first
        try Self.dieInCommit(1, store, on: machine, after: nil)
        machine.processes.kill(slot: 0)
        // The other process recovers the slot, and dies too.
        machine.disk.current = second
        try other.recoverDead()
        machine.disk.kill(second)
        let notes = try machine.reopened { try Self.notes($0) }
        #expect(notes == [])
    }

    @Test("Z2 a dead process is not recovered beside a step that may roll back, but after it")
    func recoveryBesideStep() throws {
        struct Undone: Error {}
        let machine = Machine(seed: 6)
        let first = machine.start()
        let store = try machine.open()
        let second = machine.start()
        let other = try machine.open()
        let third = machine.start()
        let writer = try machine.open()
        machine.disk.current = first
        try Self.dieInCommit(1, store, on: machine, after: nil)
        machine.processes.kill(slot: 0)
        machine.disk.current = third
        var refusal: (any Error)?
        do {
            try writer.step { _ in
                machine.disk.current = second
                do { try other.recoverDead() } catch { refusal = error }
                machine.disk.current = third
                throw Undone()
            }
        } catch is Undone {}
        #expect((refusal as? HandlerError)?.code == .databaseLocked)
        machine.disk.current = second
        try other.recoverDead()
        for process in [second, third] { machine.disk.kill(process) }
        let notes = try machine.reopened { try Self.notes($0) }
        #expect(notes == [])
    }

    @Test("Z2 a bit that flips in the file is named, or found by a check, or has changed one value")
    func flippedBit() throws {
        var outcomes: [String: Int] = [:]
        for seed in 0..<UInt64(TestScale.of(600, part: 200)) {
            let machine = Machine(seed: seed)
            _ = machine.start()
            do {
                let store = try machine.open()
                for number in 0..<8 { try Self.add(number, to: store) }
            }
            let bit = machine.disk.flipBit(of: "/app.db") ?? 0
            let before = Self.rowsAlone(on: machine)
            let outcome = try Self.found(on: machine)
            outcomes[outcome, default: 0] += 1
            #expect(outcome != "rows are missing", "seed \(seed), bit \(bit)")
            // The library takes nothing of what can still be read.
            let after = Self.rowsAlone(on: machine)
            #expect(before == after, "seed \(seed), bit \(bit), \(outcome)")
        }
        #expect((outcomes["named"] ?? 0) > 0 && (outcomes["checked"] ?? 0) > 0, "\(outcomes)")
    }

    /// The rows that SQLite alone finds, -1 for none that can be read.
    private static func rowsAlone(on machine: Machine) -> [Int] {
        for slot in machine.processes.alive { machine.processes.kill(slot: slot) }
        let observer = Observer(machine.files)
        return ["note", "handler"].map { observer.number("SELECT count(*) FROM \($0)") ?? -1 }
    }

    /// What a program finds in a store with a flipped bit.
    private static func found(on machine: Machine) throws -> String {
        do {
            return try machine.reopened { store in
                let rows = try store.step {
                    try $0.all("SELECT id, text FROM note ORDER BY id") { "\($0.integer(0)) \($0.text(1))" }
                }
                let handlers = try store.step {
                    try $0.all("SELECT count(*) FROM handler") { $0.integer(0) }
                }
                let integrity = try store.step { try $0.all("PRAGMA integrity_check") { $0.text(0) } }
                if integrity != ["ok"] { return "checked" }
                let wrong = rows.enumerated().count { $1 != "\($0) n\($0)" }
                return rows.count == 8 && wrong <= 1 && handlers == [8] ? "one value" : "rows are missing"
            }
        } catch let error as HandlerError {
            #expect(error.message.contains("/app.db") || error.code != .databaseCorrupt, "\(error)")
            let named: [ErrorCode<HandlerError>] = [
                .databaseCorrupt, .databaseNewer, .databaseForeign, .databaseUnavailable, .storageFailed,
            ]
            // A bit of the schema: SQLite says which name it does not find.
            let isName = error.code == .sql && error.message.contains("no such ")
            #expect(named.contains(error.code) || isName, "\(error)")
            return "named"
        }
    }

    @Test("Z2 a full disk refuses steps and loses nothing; with room again they are stored")
    func fullDisk() throws {
        let machine = Machine(seed: 3)
        _ = machine.start()
        let store = try machine.open()
        machine.disk.capacity = machine.disk.used + 150_000
        var confirmed: [Int64] = []
        var error: HandlerError?
        for number in 0..<200 where error == nil {
            do {
                try Self.add(number, to: store)
                confirmed.append(Int64(number))
            } catch let refusal as HandlerError {
                error = refusal
            }
        }
        #expect(error?.isStorageFailure == true, "\(error as Any)")
        let kept = try Self.notes(store)
        #expect(kept == confirmed && kept.count > 10)
        machine.disk.capacity = nil
        try Self.add(1000, to: store)
        let notes = try Self.notes(store)
        #expect(notes == confirmed + [1000])
    }

    @Test(
        "Z2 Z4 a process that was killed changes nothing any more, while another one goes on",
        arguments: [SimulatedDisk.Call.Kind.write, .sync])
    func noEffectAfterDeath(at kind: SimulatedDisk.Call.Kind) throws {
        let machine = Machine(seed: 4)
        let first = machine.start()
        let store = try machine.open()
        try Self.add(0, to: store)
        let second = machine.start()
        let other = try machine.open()
        machine.disk.current = first
        // Killed in the middle of its commit; what SQLite does on the way out reaches nobody.
        machine.disk.onCall = { call in
            if call.kind == kind { machine.disk.kill(first) }
            return nil
        }
        #expect(throws: HandlerError.self) { try Self.add(1, to: store) }
        machine.disk.onCall = nil
        machine.disk.current = second
        try Self.add(2, to: other)
        machine.disk.current = first
        #expect(throws: HandlerError.self) { try Self.add(3, to: store) }
        machine.disk.current = second
        let notes = try Self.notes(other)
        #expect(notes == [0, 2])
    }

    @Test("Z2 a writer keeps others out, and they are notified at once")
    func busy() throws {
        let machine = Machine(seed: 5)
        _ = machine.start()
        let store = try machine.open()
        let other = try machine.open()
        let error = try store.step { step in
            try step.execute("INSERT INTO note(id, text) VALUES (1, 'one')")
            do {
                try Self.add(2, to: other)
                return nil as HandlerError?
            } catch let error as HandlerError {
                return error
            }
        }
        #expect(error?.code == .databaseLocked)
        try Self.add(2, to: other)
        let notes = try Self.notes(store)
        #expect(notes == [1, 2])
    }
}
