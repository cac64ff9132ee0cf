import AccountTestSupport
import Foundation
import Glibc
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import TestServers

/// Databases that were put back from a backup, or copied, while the server remembers how the session went on.
@Suite(.ownThread, .realDisk, .timeLimit(.minutes(2))) struct AccountCopyTests {
    enum Restoring: CaseIterable {
        /// As a file of its own takes the place of the old one.
        case renaming
        /// As the content of the old one is written over.
        case writing
        /// As Litestream restores what it has replicated.
        case litestream
    }

    /// Copies a database that nobody writes to at the moment; by another program, so that no lock of this one is dropped.
    private func copy(_ path: String, to copy: String, replacing: Bool = false) async throws {
        for suffix in ["", "-wal"] {
            if replacing { unlink(copy + suffix) }
            let process = try ChildProcess("/bin/cp", [path + suffix, copy + suffix], input: .pipe)
            let ending = try await onThread { try process.waitUntilExit(deadline: .now + .seconds(30)) }
            try #require(ending.status == 0)
        }
    }

    /// A second account in the database of the first one.
    private func beside(_ account: Account, on rig: AccountRig) async throws -> Account {
        try await rig.connected(store: account.store) {
            $0.jid = AccountRig.peer.bare
            $0.password = "hidden"
        }
    }

    /// Has an account send `then` behind a backup that is made while it is connected, and puts that back.
    private func backInTime(
        _ rig: AccountRig, by way: Restoring, beside: Bool = false, then: (Account) async throws -> Void
    ) async throws {
        let backup = rig.folder.path + "/backup.db"
        do {
            let account = try await rig.connected()
            let litestream = way == .litestream ? try LitestreamStandIn(rig.databasePath) : nil
            let other = beside ? try await self.beside(account, on: rig) : nil
            try await other?.caughtUp()
            try await account.listen()
            try await account.tell("m0")
            try await account.caughtUp()
            try await eventually { try account.store.outboxCount == 0 }
            if let litestream {
                try litestream.restore(to: backup)
            } else {
                try await copy(rig.databasePath, to: backup)
            }
            try await then(account)
            try await other?.tell("p1")
            try await other?.caughtUp()
            try await account.caughtUp()
            try await eventually { try account.store.outboxCount == 0 }
            await rig.closeAccounts()
        }
        // Litestream keeps the log, and removes it before it restores; otherwise the last one to close the database has removed it.
        if way == .litestream {
            for suffix in ["", "-wal", "-shm"] { unlink(rig.databasePath + suffix) }
            try #require(rename(backup, rig.databasePath) == 0)
        } else {
            try await copy(backup, to: rig.databasePath, replacing: way == .renaming)
        }
    }

    @Test(
        "S8 a database that was put back does not go on with its session: what is sent before connecting is not taken for what the server had",
        arguments: Restoring.allCases)
    func sentBeforeConnecting(_ way: Restoring) async throws {
        try await withRig(reconnects: false) { rig in
            try await backInTime(rig, by: way) { account in
                for number in 1...3 { try await account.tell("m\(number)") }
            }
            let mark = rig.server.log.count
            let account = try rig.account()
            let events = EventReader(account)
            // The database says that its stream is open, and the server counts three more than it knows of.
            for number in 4...8 { try await account.tell("m\(number)") }
            try await account.connect()
            await events.until("bound")
            try await account.tell("m9")
            try await account.caughtUp()
            try await eventually { try account.store.outboxCount == 0 }
            #expect(
                rig.sent(from: mark).filter { $0.hasPrefix("message") } == (4...9).map { "message m\($0)" })
            #expect(try account.store.notes("acknowledged").suffix(6) == (4...9).map { "m\($0): m\($0)" })
            #expect(try account.store.waitingHandlers == 0)
        }
    }

    @Test(
        "S8 a database that was put back starts another session, as the server has forgotten what came since",
        arguments: Restoring.allCases)
    func missedSince(_ way: Restoring) async throws {
        try await withRig(reconnects: false) { rig in
            try await backInTime(rig, by: way) { account in
                for number in 1...3 { rig.bot.send(rig.messageToAlice("n\(number)", "hello")) }
                try await eventually { try account.store.notes("message").count == 3 }
            }
            let mark = rig.server.log.count
            let account = try rig.account()
            let events = EventReader(account)
            try await account.connect()
            // Not every server refuses a count that it has been told more than.
            #expect(!rig.server.log.entries(from: mark).contains { $0.xml?.contains("<resume ") == true })
            guard case .bound(let own)? = await events.until("bound") else {
                Issue.record("no bound")
                return
            }
            // The server may still keep the session of before, and what is for the account as a whole there.
            rig.bot.send(Message(to: own, id: "n4", body: "hello").element)
            try await eventually { try account.store.notes("message") == ["n4: hello"] }
            // From here on it is a database like any other.
            await account.close()
            rig.forgetAccounts()
            #expect(try rig.store().number("SELECT resumed_count FROM session") == 0)
            let next = try rig.account()
            let others = EventReader(next)
            try await next.connect()
            await others.until("resumed")
        }
    }

    @Test(
        "S8 of two accounts in a database that was put back neither loses the other's new session",
        arguments: Restoring.allCases)
    func twoAccounts(_ way: Restoring) async throws {
        try await withRig(reconnects: false) { rig in
            try await backInTime(rig, by: way, beside: true) { account in
                for number in 1...3 { try await account.tell("m\(number)") }
            }
            let account = try await rig.connected()
            try await beside(account, on: rig).caughtUp()
            // As a push wakes it while the program runs.
            let worker = try rig.account { $0.role = .worker }
            let error = await errorOf { try await worker.connect() } as? AccountError
            #expect(error?.code == .ownershipHeld)
            try await account.tell("m4")
            try await account.caughtUp()
            try await eventually { try account.store.outboxCount == 0 }
        }
    }

    @Test("S8 a process that takes the database of a live owner for a copy leaves the session to the owner")
    func besideOwner() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            // As it is where the owner opened it beside one that saw the file under another number.
            try account.store.step { _ = try $0.execute("UPDATE place SET inode = inode + 1") }
            let worker = try rig.account { $0.role = .worker }
            let error = await errorOf { try await worker.connect() } as? AccountError
            #expect(error?.code == .ownershipHeld)
            try await account.tell("m1")
            try await account.caughtUp()
            try await eventually { try account.store.outboxCount == 0 }
        }
    }

    @Test("S8 a copy beside its original has a session and a name of its own, and takes nothing from it")
    func beside() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await account.tell("m0")
            try await account.caughtUp()
            let path = rig.folder.path + "/other.db"
            try await copy(rig.databasePath, to: path)
            let store = try HandlerStore(
                path: path, registry: TestApp.registry, schemas: Account.coreSchemas + [TestApp.schema],
                synchronous: .normal)
            let other = try await rig.connected(store: store)
            try await account.tell("m1")
            try await other.tell("m2")
            for account in [account, other] {
                try await account.caughtUp()
                try await eventually { try account.store.outboxCount == 0 }
            }
            #expect(Set(rig.server.boundAddresses).count == 2)
            let names = try [account, other].map { account in
                try account.store.step { step in
                    try step.first("SELECT agent FROM login") { (row) throws(HandlerError) in row.text(0) }
                }
            }
            #expect(names[0] != nil && names[0] != names[1])
            await account.close()
            #expect(events.seen.isEmpty)
        }
    }

    @Test("W4 the account goes on when the database lies behind a link or was opened by a relative path")
    func names() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            let link = rig.folder.path + "/link.db"
            #expect(symlink(rig.databasePath, link) == 0)
            let store = try HandlerStore(
                path: link, registry: TestApp.registry, schemas: Account.coreSchemas + [TestApp.schema],
                synchronous: .normal)
            let other = try rig.account(store: store) { $0.role = .worker }
            let error = await errorOf { try await other.connect() } as? AccountError
            #expect(error?.code == .ownershipHeld)
            try await account.caughtUp()
        }
    }

    @Test("S5 what arrives for a database that was moved away is not acknowledged, and comes again")
    func movedAway() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await account.listen()
            #expect(rename(rig.databasePath, rig.databasePath + "-away") == 0)
            rig.bot.send(rig.messageToAlice("n1", "hello"))
            let suspended = await events.until("suspended")
            #expect("\(suspended as Any)".contains("moved, deleted or replaced"))
            #expect(rename(rig.databasePath + "-away", rig.databasePath) == 0)
            try await account.connect()
            try await account.caughtUp()
            #expect(try account.store.notes("message") == ["n1: hello"])
        }
    }
}
