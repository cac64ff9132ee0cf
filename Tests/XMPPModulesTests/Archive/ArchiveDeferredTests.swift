import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

@testable import XMPPAccount
@testable import XMPPModules

/// Messages that are handled later and stand in an archive: until they are marked, they come again.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct ArchiveDeferredTests {
    /// Number 2 is to be handled later.
    private let archive = ArchiveService(count: 5) { number in
        Message(
            to: AccountRig.alice, from: AccountRig.peer, id: "a\(number)", body: number == 2 ? "later" : "now"
        ).element
    }

    private func account(_ rig: AccountRig) async throws -> Account {
        let account = try rig.account { $0.modules = [ArchiveModule(pageSize: 10, history: nil)] }
        try await account.listen(as: "test", TestApp.Deferring().durable)
        return account
    }

    /// An account that has the whole archive.
    private func caughtUp(_ rig: AccountRig) async throws -> (Account, EventReader) {
        archive.serve(at: AccountRig.alice, on: rig.server)
        let account = try await account(rig)
        let events = EventReader(account)
        try await account.connect()
        try await eventually { try account.store.notes("message").count == 5 }
        try await account.caughtUp()
        return (account, events)
    }

    private func mark(_ id: String, _ account: Account) async throws -> Bool {
        let text = try account.store.step { step in
            try step.first(
                "SELECT value FROM note WHERE what = 'receipt' AND name = ? ORDER BY row DESC", id
            ) { (row) throws(HandlerError) in row.text(0) }
        }
        let receipt = try JSONDecoder().decode(DeferredStanza.self, from: Data((text ?? "").utf8))
        return try await account.acknowledge(receipt)
    }

    @Test("X13 a message out of an archive that is to be handled later comes again with a resumed stream")
    func resumed() async throws {
        try await withModulesRig(reconnects: false) { rig in
            archive.serve(at: AccountRig.alice, on: rig.server)
            let account = try await account(rig)
            let events = EventReader(account)
            try await account.connect()
            try await eventually { try account.store.number("SELECT state FROM archive") == 0 }
            try await eventually { try account.store.notes("message").count == 5 }
            rig.server.dropConnections()
            await events.until("suspended")
            try await account.connect()
            await events.until("resumed")
            try await eventually { try account.store.notes("message").count == 6 }
            try await account.caughtUp()
            let all = ["a0: now", "a1: now", "a2: later", "a3: now", "a4: now", "a2: later"]
            #expect(try account.store.notes("message") == all)
            #expect(try account.store.number("SELECT CAST(last_id AS INTEGER) FROM archive") == 4)
            #expect(try await mark("a2", account))
            rig.server.dropConnections()
            await events.until("suspended")
            try await account.connect()
            try await account.caughtUp()
            #expect(try account.store.notes("message") == all)
        }
    }

    @Test(
        "X13 a message out of an archive that is not handled when the session is lost comes out of it again")
    func lost() async throws {
        try await withModulesRig(reconnects: false) { rig in
            let (account, events) = try await caughtUp(rig)
            try await rig.loseSession(of: account, events)
            try await eventually { try account.store.notes("message").count == 6 }
            try await account.caughtUp()
            #expect(try account.store.notes("message").last == "a2: later")
            #expect(try await mark("a2", account))
            let asked = archive.queries.count
            try await rig.loseSession(of: account, events)
            try await eventually { archive.queries.count > asked }
            try await account.caughtUp()
            #expect(try account.store.notes("message").count == 6)
            #expect(archive.queries.last?.after == 4, "what is handled is not asked for again")
        }
    }

    @Test("X13 what is not handled comes again also when the archive has forgotten the message before it")
    func forgottenPlace() async throws {
        try await withModulesRig(reconnects: false) { rig in
            let (account, events) = try await caughtUp(rig)
            archive.drop(first: 2)
            // The time of what came last lies far behind the message.
            try account.store.change("UPDATE archive SET last_at = last_at + 600000")
            try await rig.loseSession(of: account, events)
            try await eventually { try account.store.notes("message").count == 6 }
            #expect(try account.store.notes("message").last == "a2: later")
            #expect(archive.queries.last?.start == ArchiveService.time(of: 2) - .seconds(60))
        }
    }

    @Test("X13 what came live and is not handled when the session is lost comes out of the archive")
    func live() async throws {
        try await withModulesRig(reconnects: false) { rig in
            let archive = ArchiveService(count: 1) { number in
                Message(
                    to: AccountRig.alice, from: AccountRig.peer, id: "a\(number)",
                    body: number == 1 ? "later" : "now"
                ).element
            }
            archive.serve(at: AccountRig.alice, on: rig.server)
            let account = try await account(rig)
            let events = EventReader(account)
            try await account.connect()
            try await eventually { try account.store.number("SELECT state FROM archive") == 0 }
            archive.grow(by: 2)
            for (number, body) in [(1, "later"), (2, "now")] {
                let stamp = Element(
                    "stanza-id", namespace: Namespaces.sid,
                    attributes: ["by": "alice@localhost", "id": String(number)])
                rig.bot.send(
                    Message(to: AccountRig.alice, id: "a\(number)", body: body, children: [stamp]).element)
            }
            try await eventually { try account.store.notes("message").count == 3 }
            try await rig.loseSession(of: account, events)
            try await eventually { try account.store.notes("message").count == 4 }
            try await account.caughtUp()
            #expect(
                try account.store.notes("message") == ["a0: now", "a1: later", "a2: now", "a1: later"])
        }
    }
}
