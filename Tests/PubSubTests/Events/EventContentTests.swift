import Handlers
import TestThreads
import Testing
import XMPPCore

@testable import PubSub

private let juliet = "juliet@capulet.example"

/// Events that leave out what an item holds: a handler that takes values gets it all the same.
@Suite(.ownThread) struct EventContentTests {
    private static func items(_ content: String) -> String {
        "<items node='\(EventAccount.node)'>\(content)</items>"
    }
    private static func nick(_ name: String, id: String) -> String {
        "<item id='\(id)'><nick xmlns='\(Namespaces.nick)'>\(name)</nick></item>"
    }

    private func listening() throws -> EventAccount {
        let account = try EventAccount()
        try account.step { step in
            try account.pubsub.listen(
                to: UserNick.self, as: "typed", EventApp.NickSeen(tag: "t").durable, in: step)
        }
        try account.listen()
        return account
    }

    /// The requests that were sent since.
    private func requests(_ account: EventAccount) throws -> [Element] {
        let sent = try account.offline.sent.filter { $0.name == "iq" }
        _ = try account.step { try $0.execute("DELETE FROM outbox") }
        return sent
    }

    private func answer(_ account: EventAccount, _ request: Element, _ content: String) throws {
        try account.offline.receive(
            """
            <iq type='result' id='\(request["id"] ?? "")' from='\(juliet)'><pubsub xmlns='\(Namespaces.pubsub)'>\
            \(Self.items(content))</pubsub></iq>
            """)
    }

    @Test(
        "X34 an item without its content is fetched for a handler that takes values, by its id or as the newest",
        arguments: ["<item id='current'/>", "<item/>", ""])
    func fetched(content: String) async throws {
        let account = try listening()
        try account.receive(event: Self.items(content))
        #expect(try account.notes.filter { $0.hasPrefix("t ") }.isEmpty)
        let request = try #require(try requests(account).first)
        #expect(request["to"] == ForeignText(juliet))
        let asked = request.firstElement?.firstElement
        #expect(asked?.elements.compactMap { $0["id"] } == (content.contains("current") ? ["current"] : []))
        try answer(account, request, Self.nick("Jule", id: "current"))
        #expect(
            try account.notes.filter { $0.hasPrefix("t ") } == [
                "t \(juliet): nicks [\"Jule\"], unreadable []"
            ])
        // A handler that takes events as they are got this one, once.
        #expect(try account.notes.count { $0.hasPrefix("a ") } == 1)
        await account.close()
    }

    @Test(
        "X34 what came with its content is not waited for, and nothing is fetched where nobody takes values")
    func mixed() async throws {
        let account = try listening()
        try account.receive(event: Self.items(Self.nick("Jule", id: "1") + "<item id='2'/>"))
        #expect(
            try account.notes.filter { $0.hasPrefix("t ") } == [
                "t \(juliet): nicks [\"Jule\"], unreadable [\"2\"]"
            ])
        #expect(try requests(account).count == 1)
        await account.close()
        let untyped = try EventAccount()
        try untyped.listen()
        try untyped.receive(event: Self.items("<item id='2'/>"))
        #expect(try requests(untyped).isEmpty)
        await untyped.close()
    }

    @Test(
        "X34 a fetch that fails is made again after minutes, four times at most; one that finds nothing is not"
    )
    func failed() async throws {
        let account = try listening()
        try account.receive(event: Self.items("<item id='current'/>"))
        for round in 0..<4 {
            let request = try #require(try requests(account).first)
            try account.offline.receive(
                """
                <iq type='error' id='\(request["id"] ?? "")' from='\(juliet)'><error type='wait'>\
                <resource-constraint xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
                """)
            let due = "FROM handler WHERE name = 'pubsub.event-items-due'"
            guard round < 3 else {
                #expect(try account.number("SELECT count(*) \(due)") == 0)
                break
            }
            #expect(try account.number("SELECT (due - bound_at) / 1000 \(due)") == 120 << Int64(round))
            try account.store.change("UPDATE handler SET due = 1 WHERE name = 'pubsub.event-items-due'")
            _ = try account.account.runner.runDue()
        }
        try account.receive(event: Self.items("<item id='other'/>"))
        let request = try #require(try requests(account).first)
        try account.offline.receive(
            """
            <iq type='error' id='\(request["id"] ?? "")' from='\(juliet)'><error type='cancel'>\
            <item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
            """)
        #expect(try account.number("SELECT count(*) FROM handler WHERE name LIKE 'pubsub.event-items%'") == 0)
        await account.close()
    }

    @Test("X34 a node that is emptied or deleted is said to handlers that take values, as PubSub says it")
    func gone() async throws {
        let account = try listening()
        try account.receive(event: EventAccount.nick("Jule"))
        try account.receive(event: Self.items("<retract id='current'/>"))
        try account.receive(event: "<purge node='\(EventAccount.node)'/>")
        try account.receive(event: "<delete node='\(EventAccount.node)'/>")
        #expect(
            try account.notes.filter { $0.hasPrefix("t ") }.map {
                $0.split(separator: ": ").last.map(String.init)
            }
                == ["nicks [\"Jule\"], unreadable []", "retracted [\"current\"]", "purged", "deleted -"])
        await account.close()
    }
}
