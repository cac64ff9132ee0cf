import Foundation
import Glibc
import Handlers
import HandlersTestKit
import TestSupport
import TestThreads
import Testing

/// Notes what it was given to tell one piece of work from another.
struct KeyNoting: AsyncHandler {
    static let id = "copied.keyed"
    var name: String
    func run(_ call: AsyncCall<Job>) async throws {
        let key = call.idempotencyKey
        try call.end { try $0.note("\(name) \(key)") }
    }
}

/// Databases that were put back from a backup, copied, moved, or taken away while a program has them open.
@Suite(.serialized, .ownThread, .realDisk, .timeLimit(.minutes(3))) struct CopiedStoreTests {
    /// What a backup program makes of a database, also of one that is open.
    private func backUp(_ path: String, to copy: String) throws {
        try RawConnection(path).run("VACUUM INTO '\(copy)'")
    }

    enum Restoring: CaseIterable {
        /// As a file of its own takes the place of the old one.
        case renaming
        /// As the content of the old one is written over.
        case writing
        /// As the old one is deleted and the backup copied: the new file may get the inode of the old one.
        case deleting
    }

    /// Puts a copy back while nobody has the database open.
    private func putBack(_ copy: String, to path: String, by way: Restoring) throws {
        switch way {
        case .renaming: #expect(rename(copy, path) == 0)
        case .writing:
            let file = try #require(FileHandle(forWritingAtPath: path))
            try file.truncate(atOffset: 0)
            try file.write(contentsOf: Data(bytes(of: copy)))
            try file.close()
        case .deleting:
            #expect(unlink(path) == 0)
            #expect(FileManager.default.createFile(atPath: path, contents: Data(bytes(of: copy))))
        }
    }

    @Test(
        "H14 what ran when a backup was made runs again once it is put back, though its slot was left in good order",
        arguments: Restoring.allCases, [0, 7, 300])
    func leases(_ way: Restoring, _ slot: Int) throws {
        try withFolder { folder in
            let path = folder.file()
            var (running, gone) = (HandlerID<Job>(rawValue: 0), HandlerID<Job>(rawValue: 0))
            try withRig(path, [KeyNoting.self]) { rig in
                running = try rig.store.bind(KeyNoting(name: "k").durable)
                gone = try rig.store.bind(KeyNoting(name: "g").durable)
                try rig.end(running)
                // As the file says while a process on that slot runs it.
                try rig.store.step {
                    try $0.execute(
                        "UPDATE handler SET state = 3, due = NULL, lease = ? WHERE id = ?", slot, running)
                    try $0.execute("INSERT INTO connected_slot(scope, slot) VALUES ('away', ?)", slot)
                }
                try backUp(path, to: folder.file("backup.db"))
                try rig.store.step {
                    try $0.execute("DELETE FROM connected_slot WHERE scope = 'away'")
                    try $0.discard(running)
                }
            }
            try putBack(folder.file("backup.db"), to: path, by: way)
            try withRig(path, [KeyNoting.self]) { rig in
                let (status, other) = (try rig.status(of: running), try rig.status(of: gone))
                #expect(status?.state == .pending && status?.dueAt != nil)
                #expect(other?.state == .pending)
                let slots = try rig.store.integer("SELECT count(*) FROM connected_slot WHERE scope = 'away'")
                #expect(slots == 0)
            }
        }
    }

    @Test(
        "H14 a handler that is bound after a backup was put back has another idempotency key than the one that had its id",
        arguments: Restoring.allCases)
    func keysOfBefore(_ way: Restoring) async throws {
        try await withFolder { folder in
            let (path, backup) = (folder.file(), folder.file("backup.db"))
            var known: [String] = []
            for round in 1...2 {
                if round == 2 { try putBack(backup, to: path, by: way) }
                // By the clock of the system, which goes on.
                let store = try HandlerStore(
                    path: path, registry: HandlerRegistry([KeyNoting.self]), schemas: [notes],
                    synchronous: .normal)
                let runner = try HandlerRunner(store)
                defer { runner.close() }
                if round == 1 { try backUp(path, to: backup) }
                let id = try store.bind(KeyNoting(name: "k").durable)
                _ = try store.step { try $0.end(id, .result, with: Job()) }
                let isDrained = try await runner.drain(for: .seconds(60))
                #expect(isDrained && id.rawValue == 1)
                known += try store.notes()
            }
            #expect(Set(known).count == 2)
        }
    }

    @Test("H14 a copy is noticed though its file got the inode of the one that was deleted for it")
    func sameInode() throws {
        try withFolder { folder in
            let (path, backup) = (folder.file(), folder.file("backup.db"))
            _ = try openStore(path)
            try backUp(path, to: backup)
            try putBack(backup, to: path, by: .deleting)
            #expect(try openStore(path).integer("SELECT copies FROM place") == 1)
            #expect(try openStore(path).integer("SELECT copies FROM place") == 1)
        }
    }

    @Test("W4 a store opens beside one that lives without waiting for a writer")
    func besideWriter() throws {
        try withFolder { folder in
            try withRig(folder.file(), [KeyNoting.self]) { rig in
                try rig.store.step {
                    try $0.execute("INSERT INTO connected_slot(scope, slot) VALUES ('here', 0)")
                }
                let writer = try RawConnection(folder.file())
                try writer.run("BEGIN IMMEDIATE")
                defer { try? writer.run("ROLLBACK") }
                _ = try HandlerStore(
                    path: folder.file(), registry: HandlerRegistry([KeyNoting.self]), schemas: [notes],
                    synchronous: .normal, busyTimeout: .zero)
            }
        }
    }

    @Test("H14 opening a store beside one that runs something takes nothing from it")
    func besideOther() throws {
        try withFolder { folder in
            try withRig(folder.file(), [KeyNoting.self]) { rig in
                let id = try rig.store.bind(KeyNoting(name: "k").durable)
                try rig.store.step {
                    try $0.execute("UPDATE handler SET state = 3, lease = 0 WHERE id = ?", id)
                }
                _ = try openStore(folder.file())
                #expect(try rig.status(of: id)?.state == .running)
            }
        }
    }

    @Test("H14 a copy is noticed once, also by two processes that open it at the same moment")
    func noticedOnce() throws {
        try withFolder { folder in
            let path = folder.file()
            let copies = "SELECT copies FROM place"
            #expect(try openStore(path).integer(copies) == 0)
            try RawConnection(path).run("UPDATE place SET inode = inode + 1")
            let store = try openStore(path)
            #expect(try store.integer(copies) == 1)
            // As the one finds it that sat down before the other had looked.
            try store.step { _ = try $0.execute("UPDATE place SET inode = inode + 1") }
            for _ in 0..<2 { #expect(try openStore(path).integer(copies) == 2) }
        }
    }

    @Test(
        "H14 a copy binds under other idempotency keys than its original; what it took along keeps its own")
    func keys() async throws {
        try await withFolder { folder in
            let (path, copy) = (folder.file(), folder.file("copy.db"))
            let made = try openStore(path, [KeyNoting.self]).bind(KeyNoting(name: "first").durable)
            try backUp(path, to: copy)
            var keys: [[String]] = []
            for path in [path, copy, path, copy] {
                let store = try openStore(path, [KeyNoting.self])
                let runner = try HandlerRunner(store)
                defer { runner.close() }
                let second = try store.bind(KeyNoting(name: "second").durable)
                for id in [made, second] where try store.keptEnding(of: id) == nil {
                    _ = try store.step { try $0.end(id, .result, with: Job()) }
                }
                let isDrained = try await runner.drain(for: .seconds(60))
                #expect(isDrained)
                keys.append(try store.notes())
            }
            let first = keys[0].filter { $0.hasPrefix("first") }
            #expect(first.count == 1 && keys[1].filter { $0.hasPrefix("first") } == first)
            // Opened again, neither changes.
            let (original, other) = (Set(keys[2]), Set(keys[3]))
            #expect(original.count == 3 && other.count == 3)
            #expect(original.intersection(other) == Set(first))
            // In whatever order the handlers ended.
            let names = Set(other.subtracting(first).map { $0.split(separator: "-").first ?? "" })
            #expect(names.count == 1)
        }
    }

    @Test(
        "S7 a database that is moved, deleted or replaced while it is open is not written to any more, with a sentence"
    )
    func taken() throws {
        try withFolder { folder in
            for way in ["moved", "deleted", "replaced"] {
                let path = folder.file("\(way).db")
                let store = try openStore(path)
                let id = try store.bind(Greet(name: "Juliet").durable)
                try backUp(path, to: folder.file("\(way)-backup.db"))
                switch way {
                case "moved": #expect(rename(path, folder.file("elsewhere.db")) == 0)
                case "deleted": #expect(unlink(path) == 0)
                default: #expect(rename(folder.file("\(way)-backup.db"), path) == 0)
                }
                let refusal = error { try store.end(id) }
                #expect(refusal?.code == .databaseUnavailable)
                for words in [path, "moved, deleted or replaced", "start again"] {
                    #expect(refusal?.message.contains(words) == true, "\(refusal?.message ?? "")")
                }
                // Back under its name it goes on.
                if way == "moved" {
                    #expect(rename(folder.file("elsewhere.db"), path) == 0)
                    #expect(try store.end(id) == .ended)
                }
            }
        }
    }

    @Test("H14 a process that has a database open under any name knows of all the others")
    func names() async throws {
        try await withFolder { folder in
            let path = folder.file()
            let store = try openStore(path)
            #expect(symlink(path, folder.file("link.db")) == 0)
            let other = try openStore(folder.file("link.db"))
            #expect(StoreProcess.all(of: path).count == 2)
            #expect(StoreProcess.all(of: folder.file("link.db")).count == 2)
            #expect(mode(of: folder.file("link.db-processes")) == nil)
            try other.bind(Greet(name: "Juliet").durable)
            #expect(try store.waiting().count == 1)
            await #expect(processExitsWith: .success) { [folder = folder.path as String] in
                #expect(chdir(folder) == 0)
                let store = try openStore("store.db")
                #expect(chdir("/") == 0)
                #expect(StoreProcess.all(of: folder + "/store.db").count == 3)
                try store.bind(Greet(name: "Romeo").durable)
            }
            #expect(try store.waiting().count == 2)
        }
    }

    @Test("S7 a long reader makes the log grow; afterwards it gives the disk back")
    func longReader() throws {
        try withFolder { folder in
            let store = try openStore(
                folder.file(),
                schemas: [Schema(module: "fill", migrations: ["CREATE TABLE fill(bytes BLOB)"])])
            let size = { Int(bytes(of: folder.file() + "-wal").count) }
            let reader = try RawConnection(folder.file())
            try reader.run("BEGIN; SELECT count(*) FROM fill")
            for _ in 0..<24 {
                try store.step { _ = try $0.execute("INSERT INTO fill VALUES (zeroblob(1000000))") }
            }
            #expect(size() > 20 << 20)
            try reader.run("COMMIT")
            // The first one empties the log into the database, the next one starts it again.
            for _ in 0..<2 { try store.bind(Greet(name: "Juliet").durable) }
            #expect(size() <= 16 << 20)
        }
    }

    @Test("H13 a retry that was put off while the clock was ahead by a year does not wait for a year")
    func clockAhead() throws {
        let clock = VirtualClock()
        let year: Int64 = 365 * 86_400_000
        try withFolder { folder in
            let right = clock.wall.milliseconds
            var (id, timer) = (HandlerID<Job>(rawValue: 0), HandlerID<TimerFired>(rawValue: 0))
            clock.setWall(Timestamp(milliseconds: right + year))
            try withRig(folder.file(), [Flaky<Thrice>.self, FlakyTimer.self], clock: clock) { rig in
                id = try rig.store.bind(Flaky<Thrice>(name: "f", until: 2).durable)
                #expect(try rig.end(id) != .ended)
                timer = try rig.store.step {
                    try $0.schedule(FlakyTimer(name: "t").durable, after: .seconds(86_400))
                }
            }
            clock.setWall(Timestamp(milliseconds: right))
            try withRig(folder.file(), [Flaky<Thrice>.self, FlakyTimer.self], clock: clock) { rig in
                try rig.runner.runDue()
                #expect(try rig.store.keptEnding(of: id)?.outcome == .result)
                // A timer goes by the wall.
                #expect(try rig.status(of: timer)?.dueAt?.milliseconds == right + year + 86_400_000)
            }
        }
    }

    /// Opens a store on a machine whose boot has the id `boot`.
    private func open(
        _ path: String, _ synchronous: HandlerStore.Synchronous, boot: String?
    ) throws -> HandlerStore {
        try HandlerStore(
            path: path, registry: HandlerRegistry([]), schemas: [], role: .main, synchronous: synchronous,
            busyTimeout: .seconds(5), time: .system, log: nil, system: SystemServices(boot: { boot }))
    }

    @Test("S7 a NORMAL store counts as a copy once after each boot, and then gives its handlers other keys")
    func bootOfNormal() throws {
        try withFolder { folder in
            let path = folder.file()
            var names: Set<String> = []
            for (boot, copies) in [("a", 0), ("a", 0), ("b", 1), ("b", 1), ("a", 2)] as [(String, Int64)] {
                let store = try open(path, .normal, boot: boot)
                #expect(try store.integer("SELECT copies FROM place") == copies)
                names.formUnion(try store.step { try $0.all("SELECT name FROM identity") { $0.text(0) } })
                _ = try store.bind(KeyNoting(name: "k").durable)
            }
            #expect(names.count == 3)
        }
    }

    @Test("S7 a FULL store is no copy after a boot, unless commits without a sync came before")
    func bootOfFull() throws {
        try withFolder { folder in
            let path = folder.file()
            let openings: [(HandlerStore.Synchronous, String?, Int64, String)] = [
                (.full, "a", 0, "-"), (.full, "b", 0, "-"),
                // Once in the boot: the newest commits may have no sync, in whichever process opens it next.
                (.normal, "b", 0, "b"), (.full, "b", 0, "b"), (.full, "c", 1, "-"), (.full, "d", 1, "-"),
                // Nothing is forgotten while the boot is unknown.
                (.normal, "d", 1, "d"), (.full, nil, 1, "d"), (.normal, nil, 1, "d"), (.normal, "e", 2, "e"),
            ]
            for (index, opening) in openings.enumerated() {
                let store = try open(path, opening.0, boot: opening.1)
                let found = try store.step {
                    try $0.first("SELECT copies, coalesce(boot, '-') FROM place") {
                        ($0.integer(0), $0.text(1))
                    }
                }
                #expect(found?.0 == opening.2 && found?.1 == opening.3, "opening \(index)")
            }
        }
    }
}
