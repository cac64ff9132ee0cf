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

/// Catching up with archives: each message once, in order, from where it was left.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct ArchiveTests {
    private func archive(_ count: Int, pageLimit: Int = 250) -> ArchiveService {
        ArchiveService(count: count, pageLimit: pageLimit) { number in
            Message(to: AccountRig.alice, from: AccountRig.peer, id: "a\(number)", body: "message \(number)")
                .element
        }
    }

    private func connected(
        _ rig: AccountRig, pageSize: Int = 10, _ change: (inout AccountConfiguration) -> Void = { _ in }
    ) async throws -> Account {
        let account = try rig.account { configuration in
            configuration.modules = [ArchiveModule(pageSize: pageSize, history: nil)]
            change(&configuration)
        }
        try await account.listen()
        try await account.connect()
        return account
    }

    /// An account that has everything of an archive.
    private func caughtUp(
        _ rig: AccountRig, _ count: Int
    ) async throws -> (ArchiveService, Account, EventReader) {
        let archive = archive(count)
        archive.serve(at: AccountRig.alice, on: rig.server)
        let account = try await connected(rig)
        let events = EventReader(account)
        try await eventually { try account.store.notes("message").count == count }
        try await account.caughtUp()
        return (archive, account, events)
    }

    /// Has the server forget the session, and waits until the next one has brought so many messages in all.
    private func newSession(
        _ rig: AccountRig, _ account: Account, _ events: EventReader, messages: Int
    ) async throws {
        rig.server.expireSessions()
        await events.until("bound")
        try await eventually { try account.store.notes("message").count == messages }
    }

    private func bodies(_ range: Range<Int>) -> [String] { range.map { "a\($0): message \($0)" } }

    private func progress(_ account: Account) async throws -> ArchiveProgress? {
        try await account.perform { try account.archive.progress(in: $0).first }
    }

    @Test("X13 everything in the archive comes once and in order, page by page, and then is complete")
    func pages() async throws {
        try await withModulesRig { rig in
            let archive = archive(95)
            archive.serve(at: AccountRig.alice, on: rig.server)
            let account = try await connected(rig)
            try await eventually { try account.store.notes("message").count == 95 }
            #expect(try account.store.notes("message") == bodies(0..<95))
            try await account.caughtUp()
            let done = try await progress(account)
            #expect(
                done == ArchiveProgress(archive: AccountRig.alice, state: .complete, received: 95, total: 95))
            #expect(archive.queries.map(\.after) == [nil, 9, 19, 29, 39, 49, 59, 69, 79, 89])
        }
    }

    @Test("X13 the next session asks only for what came since, and a resumed one asks for nothing")
    func fromStoredID() async throws {
        try await withModulesRig { rig in
            let (archive, account, events) = try await caughtUp(rig, 20)
            let asked = archive.queries.count
            rig.server.dropConnections()
            await events.until("resumed")
            try await account.caughtUp()
            #expect(archive.queries.count == asked, "a resumed session misses nothing")
            archive.grow(by: 5)
            try await newSession(rig, account, events, messages: 25)
            #expect(try account.store.notes("message") == bodies(0..<25))
            #expect(archive.queries[asked].after == 19)
        }
    }

    @Test(
        "X29 a bot with an archive and no history gets nothing old at first, and later what came since, as history"
    )
    func botWithoutHistory() async throws {
        try await withModulesRig { rig in
            let archive = archive(20)
            archive.serve(at: AccountRig.alice, on: rig.server)
            let account = try rig.account { $0.modules = .bot + [ArchiveModule(history: .zero)] }
            try await account.listen()
            let events = EventReader(account)
            try await account.connect()
            try await eventually { try await progress(account)?.state == .complete }
            try await account.caughtUp()
            #expect(try account.store.notes("message") == [])
            let started = try #require(archive.queries.last?.start)
            #expect(started > ArchiveService.time(of: 19) && archive.queries.last?.count == 0)
            // The place: the last message that came live, as the archive names it.
            let live = ForeignText("19")
            let id = Element(
                "stanza-id", namespace: Namespaces.sid, attributes: ["id": live, "by": "alice@localhost"])
            rig.server.send(
                Message(
                    to: AccountRig.alice, from: AccountRig.peer, id: "a19", body: "message 19", children: [id]
                )
                .element, from: AccountRig.peer)
            try await account.caughtUp()
            archive.grow(by: 3)
            try await newSession(rig, account, events, messages: 4)
            #expect(try account.store.notes("message") == bodies(19..<23))
            #expect(archive.queries.last?.after == 19)
        }
    }

    @Test(
        "X13 a message that came live and stands in the archive too comes once, and the place moves on with it"
    )
    func liveToo() async throws {
        try await withModulesRig { rig in
            let (archive, account, events) = try await caughtUp(rig, 10)
            // Number 10 comes live, with the id that the archive gave it.
            archive.grow(by: 2)
            let stamp = Element(
                "stanza-id", namespace: Namespaces.sid, attributes: ["by": "alice@localhost", "id": "10"])
            rig.bot.send(
                Message(to: AccountRig.alice, id: "a10", body: "message 10", children: [stamp]).element)
            try await eventually { try account.store.notes("message").count == 11 }
            let asked = archive.queries.count
            try await newSession(rig, account, events, messages: 12)
            #expect(try account.store.notes("message") == bodies(0..<12))
            #expect(archive.queries[asked].after == 10)
        }
    }

    @Test("X13 a lost session in the middle of a page starts again behind the last message that was stored")
    func lostInTheMiddle() async throws {
        try await withModulesRig { rig in
            let archive = archive(40)
            let held = Kept<[(Element, ScriptedServer.Bot)]>([])
            let isHolding = Kept(true)
            rig.server.addService(at: AccountRig.alice, for: [Namespaces.mam]) { stanza, service in
                guard isHolding.withLock({ $0 }) else { return archive.handle(stanza, service) }
                // Half a page, and no end of it.
                let query = stanza.firstElement?["queryid"]
                for number in 0..<5 { service.send(archive.result(number, query, to: stanza["from"])) }
                held.withLock { $0.append((stanza, service)) }
            }
            let account = try await connected(rig)
            let events = EventReader(account)
            try await eventually { try account.store.notes("message").count == 5 }
            isHolding.withLock { $0 = false }
            try await newSession(rig, account, events, messages: 40)
            #expect(try account.store.notes("message") == bodies(0..<40))
            #expect(archive.queries.first?.after == 4)
        }
    }

    @Test(
        "X13 an archive that has forgotten the place is asked by time, and what is known already is not reported again"
    )
    func forgottenPlace() async throws {
        try await withModulesRig { rig in
            let (archive, account, events) = try await caughtUp(rig, 20)
            archive.grow(by: 10)
            archive.drop(first: 25)
            try await newSession(rig, account, events, messages: 25)
            try await account.caughtUp()
            #expect(try account.store.notes("message") == bodies(0..<20) + bodies(25..<30))
            // A minute before, for the archive's clock may be behind ours.
            #expect(archive.queries.last?.start == ArchiveService.time(of: 19) - .seconds(60))
        }
    }

    @Test("X13 a stranger's results, results nobody asked for, and results of another archive change nothing")
    func strangers() async throws {
        try await withModulesRig { rig in
            let archive = archive(3)
            let asked = Kept<ForeignText?>(nil)
            rig.server.addService(at: AccountRig.alice, for: [Namespaces.mam]) { stanza, service in
                asked.withLock { $0 = stanza.firstElement?["queryid"] }
                // A stranger learned the id of the query.
                let query = stanza.firstElement?["queryid"]
                rig.bot.send(archive.result(0, query, to: stanza["from"]))
                service.send(archive.result(1, "another", to: stanza["from"]))
                service.send(archive.result(2, nil, to: stanza["from"]))
                archive.handle(stanza, service)
            }
            archive.drop(first: 3)
            let account = try rig.account {
                $0.modules = [ArchiveModule(pageSize: 10, history: nil)]
            }
            // Before it connects: the first results come at once.
            let events = EventReader(account)
            try await account.listen()
            try await account.connect()
            try await eventually { asked.withLock { $0 != nil } }
            try await account.caughtUp()
            #expect(try account.store.notes("message").isEmpty)
            #expect(try await progress(account)?.received == 0)
            #expect(try await progress(account)?.state == .complete)
            await account.close()
            await events.untilClosed()
            #expect(events.seen.count { $0.hasPrefix("ignored") } == 3, "\(events.seen)")
        }
    }

    @Test("X13 an archive that refuses is left alone until the next session, and says why")
    func refused() async throws {
        try await withModulesRig { rig in
            let asked = Kept(0)
            rig.server.addService(at: AccountRig.alice, for: [Namespaces.mam]) { stanza, service in
                asked.withLock { $0 += 1 }
                service.refuse(stanza, StanzaError(.forbidden))
            }
            let account = try await connected(rig)
            let events = EventReader(account)
            try await eventually { asked.withLock { $0 } == 1 }
            try await account.caughtUp()
            let failed = try await progress(account)
            #expect(failed?.state == .failed)
            #expect(failed?.failure == "forbidden")
            rig.server.expireSessions()
            await events.until("bound")
            try await eventually { asked.withLock { $0 } == 2 }
        }
    }

    @Test("X13 an archive that is busy is asked again later, and one that says nothing too")
    func busy() async throws {
        let clock = VirtualClock()
        try await withModulesRig(clock: clock) { rig in
            let asked = Kept(0)
            let archive = archive(3)
            rig.server.addService(at: AccountRig.alice, for: [Namespaces.mam]) { stanza, service in
                switch asked.withLock({ count in
                    count += 1; return count
                }) {
                case 1: service.refuse(stanza, StanzaError(.resourceConstraint, kind: .wait))
                default: archive.handle(stanza, service)
                }
            }
            let account = try await connected(rig)
            try await eventually { asked.withLock { $0 } == 1 }
            try await account.caughtUp()
            #expect(try await progress(account)?.state == .waiting)
            // The wait is by the wall clock, in a timer of the store.
            _ = try await account.perform { step in
                try step.execute("UPDATE handler SET due = 1 WHERE name = 'archive.retry'")
            }
            _ = try account.runner.runDue()
            try await eventually { try account.store.notes("message").count == 3 }
            #expect(try await progress(account)?.state == .complete)
        }
    }

    @Test("X13 a room's archive speaks of what was said in that room, and of nothing else")
    func messagesFromElsewhere() async throws {
        try await withModulesRig { rig in
            let room = try JID("room@rooms.localhost")
            let senders = ["\(room)/nick", "\(AccountRig.peer.bare)", "other@rooms.localhost/nick"]
            let archive = ArchiveService(count: senders.count) { number in
                let from = try! JID(senders[number])  // Addresses of the test's own.
                return Message(to: nil, from: from, type: .groupchat, id: "m\(number)", body: "x").element
            }
            rig.server.addService(at: room) { stanza, service in archive.handle(stanza, service) }
            let account = try await connected(rig) { $0.modules = [ArchiveModule(history: nil)] }
            let events = EventReader(account)
            try await account.caughtUp()
            try await account.perform { step in try account.archive.catchUp(room, in: step) }
            try await eventually {
                let all = try await account.perform { try account.archive.progress(in: $0) }
                return all.contains { $0.archive == room && $0.state == .complete }
            }
            #expect(try account.store.notes("message") == ["m0: x"])
            await account.close()
            await events.untilClosed()
            #expect(events.seen.count { $0.hasPrefix("ignored") } == 2, "\(events.seen)")
        }
    }

    @Test("X13 rooms are caught up with at most so many at a time, each with its own place")
    func rooms() async throws {
        try await withModulesRig { rig in
            let rooms = try (0..<5).map { try JID("room\($0)@rooms.localhost") }
            let running = Kept<Set<JID>>([])
            let most = Kept(0)
            let archives = rooms.map { room in
                ArchiveService(count: 12) { number in
                    Message(
                        to: nil, from: try! JID("\(room)/nick"), type: .groupchat,
                        id: "\(room.local!)-\(number)",
                        body: "x"
                    ).element  // Addresses of the test's own.
                }
            }
            for (room, archive) in zip(rooms, archives) {
                rig.server.addService(at: room) { stanza, service in
                    let count = running.withLock {
                        $0.insert(room); return $0.count
                    }
                    most.withLock { $0 = max($0, count) }
                    archive.handle(stanza, service)
                    if archive.queries.last?.count == 2 { running.withLock { _ = $0.remove(room) } }
                }
            }
            let account = try await connected(rig) {
                $0.modules = [ArchiveModule(pageSize: 5, history: nil, concurrency: 2)]
            }
            try await account.caughtUp()
            try await account.perform { step in
                for room in rooms { try account.archive.catchUp(room, in: step) }
            }
            try await eventually { try account.store.notes("message").count == 60 }
            for room in rooms {
                let own = try account.store.notes("message").filter { $0.hasPrefix("\(room.local!)-") }
                #expect(own == (0..<12).map { "\(room.local!)-\($0): x" })
            }
            #expect(most.withLock { $0 } <= 2)
            // The account's own archive refuses: nobody serves it here.
            let states = try await account.perform { try account.archive.progress(in: $0).map(\.state) }
            #expect(states.filter { $0 == .complete }.count == 5)
        }
    }

    @Test("X13 looking back brings a page to listeners and does not move the place")
    func lookingBack() async throws {
        try await withModulesRig { rig in
            let archive = archive(30)
            archive.serve(at: AccountRig.alice, on: rig.server)
            let account = try rig.account {
                $0.modules = [ArchiveModule(history: .seconds(0))]
            }
            try await account.listen()
            try await account.connect()
            try await account.caughtUp()
            #expect(try account.store.notes("message").isEmpty, "nothing is as new as that")
            try await account.perform { step in
                try account.archive.fetch(
                    .after("9"), limit: 5, then: ModulesApp.PageSeen().durable, in: step)
            }
            try await eventually { try account.store.notes("page").count == 1 }
            #expect(try account.store.notes("message") == bodies(10..<15))
            #expect(try account.store.notes("page") == ["alice@localhost: last 14 isLast false"])
            #expect(try await progress(account)?.received == 0)
        }
    }
}
