import AccountTestSupport
import FoundationEssentials
import Glibc
import Handlers
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import TestServers

extension RealServerTests {
    /// A database that is put back from a backup while a real server, and an independent client, remember how it went on.
    @Suite struct RestoringOnServersTests {
        /// Makes a backup of a database that is in use, the way docs/reference/backups.md says.
        private func backUp(_ path: String, to backup: String) throws {
            let script =
                "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('VACUUM INTO ?', sys.argv[2:])"
            let process = try ChildProcess("/usr/bin/python3", ["-c", script, path, backup])
            try #require(try process.waitUntilExit(deadline: .now + .seconds(60)).succeeded)
        }

        /// Puts it back; nobody has the database open.
        private func putBack(_ backup: String, to path: String) throws {
            for suffix in ["-wal", "-shm"] { unlink(path + suffix) }
            try #require(rename(backup, path) == 0)
        }

        @Test(
            "S8 X13 after a backup was put back, what was sent and received since is there once, on both sides",
            arguments: ServerKind.allCases)
        func puttingBack(kind: ServerKind) async throws {
            try await withModulesHome(kind) { home in
                let (path, backup) = (home.folder.path + "/client.db", home.folder.path + "/backup.db")
                let peer = try home.messenger()
                defer { peer.close() }

                /// What a process does with the database: opens it, works, closes it.
                func process(
                    sendingFirst early: String? = nil, until event: String,
                    _ work: (Account, HandlerStore) async throws -> Void
                ) async throws {
                    let store = try HandlerStore(
                        path: path, registry: ModulesApp.registry,
                        schemas: Account.schemas + [TestApp.schema],
                        synchronous: .normal)
                    var configuration = home.scene.configuration(of: home.jid)
                    configuration.modules = .standard
                    let account = try Account(configuration, store: store)
                    let events = EventReader(account)
                    do {
                        try await account.listen()
                        if let early { try await send(account, early) }
                        try await account.connect()
                        await events.until(event)
                        try await account.caughtUp()
                        try await work(account, store)
                        try await account.caughtUp()
                        try await eventually("an empty outbox") { try store.outboxCount == 0 }
                    } catch {
                        await account.close()
                        throw error
                    }
                    await account.close()
                }
                func send(_ account: Account, _ id: String) async throws {
                    try await account.perform {
                        try account.chat.send(
                            Message(to: peer.account, id: id, body: "\(id) from us"), in: $0)
                    }
                }
                func say(_ ids: String...) throws {
                    for id in ids {
                        try peer.tell("send", ["to": home.jid.description, "body": "said", "id": id])
                    }
                }
                func heard(_ store: HandlerStore, _ notes: String...) async throws {
                    try await eventually("\(notes) instead of \(try store.notes("message").sorted())") {
                        try store.notes("message").sorted() == notes
                    }
                }

                try await process(until: "bound") { account, store in
                    try say("p1")
                    try await send(account, "m1")
                    try await heard(store, "p1: said")
                    // A receipt that comes behind the backup would be asked for again, with another copy of m1.
                    try await eventually("the receipt") {
                        try store.number("SELECT count(delivered_at) FROM delivery") == 1
                    }
                    try backUp(path, to: backup)
                    // What the backup will know nothing of.
                    try say("p2", "p3")
                    try await send(account, "m2")
                    try await send(account, "m3")
                    try await heard(store, "p1: said", "p2: said", "p3: said")
                }
                // The session can still be resumed, and this waits in it.
                try say("p4")
                try putBack(backup, to: path)
                try await process(sendingFirst: "m4", until: "bound") { account, store in
                    try await send(account, "m5")
                    // Its own messages that it does not know of come out of the archive, too.
                    try await heard(
                        store, "m2: m2 from us", "m3: m3 from us", "p1: said", "p2: said", "p3: said",
                        "p4: said")
                    try say("p5")
                    try await eventually { try store.notes("message").count == 7 }
                }
                // From here on it is a database like any other.
                try await process(until: "resumed") { account, store in
                    try await send(account, "m6")
                    try say("p6")
                    try await heard(
                        store, "m2: m2 from us", "m3: m3 from us", "p1: said", "p2: said", "p3: said",
                        "p4: said", "p5: said", "p6: said")
                    // The receipts are on their way.
                    try await eventually("no handler to wait") { try store.waitingHandlers == 0 }
                }
                let expected = (1...6).map { "m\($0) from us" }
                try await eventually("all messages") { try peer.bodies("message").count >= expected.count }
                #expect(try peer.bodies("message") == expected)
            }
        }
    }
}
