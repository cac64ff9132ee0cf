import Glibc
import Handlers
import TestSupport
import TestThreads
import Testing

@Suite(.serialized, .ownThread) struct LockedTests {
    @Test(
        "S7 a database locked for longer than the wait is a sentence that says what to do; the step never ran"
    )
    func locked() throws {
        try withFolder { folder in
            let holder = try openStore(folder.file())
            let store = try openStore(folder.file(), busyTimeout: .milliseconds(20))
            let id = try store.bind(Greet(name: "Juliet").durable)
            try holder.step { _ in
                let error = error {
                    try store.step { _ in Issue.record("the step ran beside another one") }
                }
                #expect(error?.code == .databaseLocked)
                #expect(error?.message.contains(folder.file()) == true)
                #expect(
                    error?.message.contains("locked by another process; wait for it, or stop the process")
                        == true)
            }
            // And afterwards it works as if nothing had been.
            #expect(try store.end(id) == .ended)
            #expect(try store.notes() == ["Hello, Juliet"])
        }
    }

    @Test("S7 a step waits for the lock as long as it may")
    func waits() throws {
        try withFolder { folder in
            let holder = try openStore(folder.file())
            let store = try openStore(folder.file(), busyTimeout: .seconds(60))
            let started = Gate()
            let thread = try holder.step { step in
                let thread = Thread {
                    started.open()
                    _ = try? store.step { try $0.execute("INSERT INTO note(text) VALUES ('second')") }
                }
                started.wait()
                try step.execute("INSERT INTO note(text) VALUES ('first')")
                return thread
            }
            thread.join()
            #expect(try store.notes() == ["first", "second"])
        }
    }

    @Test("S7 an up-to-date database opens beside a writer, without waiting for it")
    func opensBesideWriter() throws {
        try withFolder { folder in
            let holder = try openStore(folder.file())
            try holder.step { _ in
                _ = try openStore(folder.file(), busyTimeout: .zero)
                // One that would have to be migrated must wait, and says so.
                let more = Schema(module: "more", migrations: ["CREATE TABLE more(id INTEGER PRIMARY KEY)"])
                #expect(
                    code { _ = try openStore(folder.file(), schemas: [notes, more], busyTimeout: .zero) }
                        == .databaseLocked)
            }
        }
    }

    @Test("S7 a database that is still in rollback-journal mode opens once another program's write is over")
    func waitsForTheSwitch() throws {
        // SQLite answers "busy" at once here, without waiting, whatever its timeout says.
        try withFolder { folder in
            try openStore(folder.file()).bind(Greet(name: "Juliet").durable)
            let other = try RawConnection(folder.file())
            try other.run("PRAGMA journal_mode = DELETE")
            try other.run("BEGIN IMMEDIATE")
            #expect(code { try openStore(folder.file(), busyTimeout: .milliseconds(20)) } == .databaseLocked)
            let opened = Sink<Int>()
            let started = Gate()
            let thread = Thread {
                started.open()
                if let store = try? openStore(folder.file(), busyTimeout: .seconds(60)) {
                    opened.append((try? store.waiting().count) ?? -1)
                }
            }
            started.wait()
            try other.run("COMMIT")
            thread.join()
            #expect(opened.values == [1])
        }
    }
}
