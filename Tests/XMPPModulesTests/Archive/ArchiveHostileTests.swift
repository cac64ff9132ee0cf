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

/// Archives that lie, stand still or are busy: catching up ends, says why, and loses nothing.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct ArchiveHostileTests {
    private func connected(
        _ rig: AccountRig, _ change: (inout AccountConfiguration) -> Void = { _ in }
    ) async throws -> Account {
        let account = try rig.account { configuration in
            configuration.modules = [ArchiveModule(pageSize: 10, history: nil)]
            change(&configuration)
        }
        try await account.listen()
        try await account.connect()
        return account
    }

    private func progress(_ account: Account) async throws -> ArchiveProgress? {
        try await account.perform { try account.archive.progress(in: $0).first }
    }

    private let archive = ArchiveService(count: 1000) { number in
        Message(to: AccountRig.alice, from: AccountRig.peer, id: "a\(number)", body: "message \(number)")
            .element
    }

    private func next(_ count: inout Int) -> Int {
        count += 1
        return count
    }

    /// The end of a page that is never the last one.
    private func fin(_ last: String) -> Element {
        Element(
            "fin", namespace: Namespaces.mam,
            children: [
                Element(
                    "set", namespace: Namespaces.rsm,
                    children: [Element("last", namespace: Namespaces.rsm, text: last)])
            ])
    }

    @Test(
        "X13 an archive that sends the same pages for ever, or none, is given up with an error that says so",
        arguments: [[], [[7]], [[1, 2], [3], [4, 5]]] as [[[Int]]])
    func standingStill(pages: [[Int]]) async throws {
        try await withModulesRig { rig in
            let asked = Kept(0)
            rig.server.addService(at: AccountRig.alice, for: [Namespaces.mam]) { stanza, service in
                let turn = asked.withLock { next(&$0) - 1 }
                let page = pages.isEmpty ? [] : pages[turn % pages.count]
                for number in page {
                    service.send(
                        self.archive.result(number, stanza.firstElement?["queryid"], to: stanza["from"]))
                }
                // No test needs so many: the account must have given up long before.
                guard turn < 100 else { return }
                service.answer(stanza, payload: self.fin("\(page.last ?? 0)"))
            }
            let account = try await connected(rig)
            try await eventually { try account.store.number("SELECT state FROM archive") == 3 }
            #expect(try await progress(account)?.failure == ArchiveProgress.standsStill)
            #expect(asked.withLock { $0 } < 20)
            #expect(try account.store.notes("message").count == pages.joined().count, "each once")
        }
    }

    @Test("X13 an archive that does not know the place it has just named is given up")
    func deniesItsOwnPlace() async throws {
        try await withModulesRig { rig in
            let asked = Kept(0)
            rig.server.addService(at: AccountRig.alice, for: [Namespaces.mam]) { stanza, service in
                let turn = asked.withLock { next(&$0) }
                guard turn < 100 else { return }
                let query = stanza.firstElement
                guard query?.child("set", Namespaces.rsm)?.child("after", Namespaces.rsm) == nil else {
                    return service.refuse(stanza, StanzaError(.itemNotFound))
                }
                service.send(self.archive.result(1, query?["queryid"], to: stanza["from"]))
                service.answer(stanza, payload: self.fin("1"))
            }
            let account = try await connected(rig)
            try await eventually { try account.store.number("SELECT state FROM archive") == 3 }
            #expect(try await progress(account)?.failure == "item-not-found")
            #expect(asked.withLock { $0 } < 10)
            #expect(try account.store.notes("message") == ["a1: message 1"])
            let isInUse = try await account.perform { step in
                try ArchiveModule().reset(.session, of: account, in: step)
                return try account.archive.isInUse(AccountRig.alice, in: step)
            }
            #expect(!isInUse, "a room that does so is asked for its history in the next session")
        }
    }

    @Test("X13 a busy archive is left alone twice as long each time")
    func backingOff() async throws {
        try await withModulesRig { rig in
            let asked = Kept(0)
            rig.server.addService(at: AccountRig.alice, for: [Namespaces.mam]) { stanza, service in
                asked.withLock { $0 += 1 }
                service.refuse(stanza, StanzaError(.resourceConstraint, kind: .wait))
            }
            let account = try await connected(rig)
            var waits: [Int64] = []
            for round in 1...4 {
                try await eventually { asked.withLock { $0 } == round }
                try await eventually {
                    try account.store.number(
                        "SELECT count(*) FROM handler WHERE name = 'archive.retry' AND due > 1") == 1
                }
                let now = TimeSource.systemWall().milliseconds
                let due = try account.store.number("SELECT due FROM handler WHERE name = 'archive.retry'")
                // In whole 15 s, with room for what the test itself takes.
                waits.append((due - now + 7000) / 15_000)
                try account.store.change("UPDATE handler SET due = 1 WHERE name = 'archive.retry'")
                _ = try account.runner.runDue()
            }
            #expect(waits == [1, 2, 4, 8])
        }
    }

    @Test("X13 a stored time that has not come yet does not hide what comes after the place was forgotten")
    func future() async throws {
        try await withModulesRig { rig in
            let isLying = Kept(true)
            let start = Kept<[ForeignText?]>([])
            rig.server.addService(at: AccountRig.alice, for: [Namespaces.mam]) { stanza, service in
                let query = stanza.firstElement
                let form = query?.child("x", Namespaces.dataForms).flatMap { DataForm($0) }
                start.withLock { $0.append(form?["start"]) }
                guard isLying.withLock({ $0 }) else {
                    if query?.child("set", Namespaces.rsm)?.child("after", Namespaces.rsm) != nil {
                        return service.refuse(stanza, StanzaError(.itemNotFound))
                    }
                    return service.answer(stanza, payload: Element("fin", namespace: Namespaces.mam))
                }
                var result = self.archive.result(1, query?["queryid"], to: stanza["from"])
                let text = String(decoding: Serializer().bytes(result), as: UTF8.self)
                    .replacing(ArchiveService.time(of: 1).description, with: "9998-01-01T00:00:00Z")
                result = try! Element(parsing: text, defaultNamespace: Namespaces.client)  // Made here.
                service.send(result)
                service.answer(
                    stanza,
                    payload: Element("fin", namespace: Namespaces.mam, attributes: ["complete": "true"]))
            }
            let account = try await connected(rig)
            let events = EventReader(account)
            try await eventually { try account.store.notes("message").count == 1 }
            try await account.caughtUp()
            isLying.withLock { $0 = false }
            rig.server.expireSessions()
            await events.until("bound")
            try await eventually { start.withLock { $0.count } == 3 }
            let asked = try #require(start.withLock { $0.last } ?? nil)
            let now = TimeSource.systemWall().milliseconds
            #expect(try #require(Timestamp(asked)).milliseconds <= now)
        }
    }

    @Test(
        "X13 a history longer than time is everything",
        arguments: [Duration.seconds(Int64.max), .seconds(-5)])
    func longHistory(history: Duration) async throws {
        try await withModulesRig { rig in
            rig.server.addService(at: AccountRig.alice, for: [Namespaces.mam]) { stanza, service in
                service.answer(
                    stanza,
                    payload: Element("fin", namespace: Namespaces.mam, attributes: ["complete": "true"]))
            }
            let account = try await connected(rig) { $0.modules = [ArchiveModule(history: history)] }
            try await eventually {
                try account.store.number("SELECT count(*) FROM archive WHERE state = 0") == 1
            }
        }
    }

    @Test("X13 a form as deep and a page as odd as they may be change nothing but the place")
    func oddResults() async throws {
        try await withModulesRig { rig in
            let longest = String(repeating: "x", count: ForeignBounds.token)
            let ids = ["<&'\">", " ", longest, "\u{10FFFF}é", "'; DROP TABLE archive; --"]
            let turn = Kept(0)
            let after = Kept<[ForeignText]>([])
            rig.server.addService(at: AccountRig.alice, for: [Namespaces.mam]) { stanza, service in
                let number = turn.withLock { next(&$0) - 1 }
                let query = stanza.firstElement
                if let place = query?.child("set", Namespaces.rsm)?.child("after", Namespaces.rsm) {
                    after.withLock { $0.append(place.text) }
                }
                guard number < ids.count else {
                    return service.answer(
                        stanza,
                        payload: Element("fin", namespace: Namespaces.mam, attributes: ["complete": "true"]))
                }
                var nested = Message(to: AccountRig.alice, from: AccountRig.peer, id: "n", body: "x").element
                for _ in 0..<20 {
                    nested = Element("forwarded", namespace: "urn:xmpp:forward:1", children: [nested])
                }
                // Without a message that can be read, and once without an id.
                for id in [ids[number], ""] {
                    let result = Element(
                        "result", namespace: Namespaces.mam,
                        attributes: ["queryid": query?["queryid"], "id": id], children: [nested])
                    service.send(
                        Element(
                            "message", namespace: Namespaces.client, attributes: ["to": stanza["from"]],
                            children: [result]))
                }
                service.answer(stanza, payload: self.fin(ids[number]))
            }
            let account = try await connected(rig)
            try await eventually {
                try account.store.number("SELECT count(*) FROM archive WHERE state = 0") == 1
            }
            #expect(after.withLock { $0 } == ids.map { ForeignText($0) })
            #expect(try account.store.notes("message").isEmpty)
        }
    }
}
