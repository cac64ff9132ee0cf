import Foundation
import Simulation
import TestThreads
import Testing
import XMPPCore

/// Whom a publication wakes, and what a stranger is told.
@Suite(.ownThread) struct PushDeskTests {
    private let desk = PushDesk([
        .init(account: "alice@localhost", node: "phone-1", secret: "s1"),
        .init(account: "bob@elsewhere", node: "phone-2", secret: "s2"),
    ])

    private func publication(
        from: String = "localhost", node: String? = "phone-1", secret: String? = "s1",
        payload: String = "<notification xmlns='urn:xmpp:push:0'/>", type: String = "set"
    ) throws -> Element {
        let options = secret.map {
            """
            <publish-options><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
            <value>http://jabber.org/protocol/pubsub#publish-options</value></field>\
            <field var='secret'><value>\($0)</value></field></x></publish-options>
            """
        }
        return try Element(
            parsing: """
                <iq xmlns='jabber:component:accept' type='\(type)' id='7' from='\(from)' to='push.localhost'>\
                <pubsub xmlns='http://jabber.org/protocol/pubsub'><publish\(node.map { " node='\($0)'" } ?? "")>\
                <item>\(payload)</item></publish>\(options ?? "")</pubsub></iq>
                """)
    }

    @Test(
        "W2 the account's server wakes the device that it names with the right secret, for itself or for the account",
        arguments: ["localhost", "alice@localhost"])
    func push(from: String) throws {
        let decision = desk.decide(try publication(from: from))
        #expect(decision.event == .push(.init(account: "alice@localhost", node: "phone-1", secret: "s1")))
        let reply = try #require(decision.reply)
        #expect(reply["type"] == "result" && reply["id"] == "7")
        #expect(reply["to"] == from && reply["from"] == "push.localhost")
        #expect(reply.namespace == "jabber:component:accept")
    }

    struct Stranger: Sendable, CustomTestStringConvertible {
        var from = "localhost"
        var node: String? = "phone-1"
        var secret: String? = "s1"
        var reason: String
        var testDescription: String { reason + " from " + from }
    }

    static let strangers: [Stranger] = [
        .init(node: "phone-3", reason: "unknown node"), .init(node: nil, reason: "unknown node"),
        .init(secret: "s2", reason: "wrong secret"), .init(secret: "", reason: "wrong secret"),
        .init(secret: nil, reason: "no secret"),
        // A client that has learned both is still no server.
        .init(from: "alice@localhost/phone", reason: "not from the account's server"),
        .init(from: "eve@localhost", reason: "not from the account's server"),
        .init(from: "elsewhere", reason: "not from the account's server"),
        .init(from: "localhost/resource", reason: "not from the account's server"),
        .init(node: "phone-2", secret: "s2", reason: "not from the account's server"),
    ]

    @Test("W2 a stranger wakes nobody, and does not learn which part was wrong", arguments: strangers)
    func refused(_ stranger: Stranger) throws {
        let decision = desk.decide(
            try publication(from: stranger.from, node: stranger.node, secret: stranger.secret))
        #expect(decision.event == .refused(from: stranger.from, reason: stranger.reason))
        let reply = try #require(decision.reply)
        let error = try #require(IQ(element: reply).error)
        #expect(error.condition == .itemNotFound && error.text == "no such node, or not for you")
    }

    @Test("W2 what is no notification wakes nobody: another payload, a get, an answer, a message")
    func others() throws {
        let other = desk.decide(try publication(payload: "<entry xmlns='http://www.w3.org/2005/Atom'/>"))
        #expect(other.event == nil && other.reply?["type"] == "error")
        let get = desk.decide(try publication(type: "get"))
        #expect(get.event == nil && get.reply?["type"] == "error")
        for text in [
            "<iq xmlns='jabber:component:accept' type='result' id='1' from='localhost'/>",
            "<iq xmlns='jabber:component:accept' type='error' id='1' from='localhost'/>",
            "<message xmlns='jabber:component:accept' from='eve@localhost/x'><body>hello</body></message>",
            "<iq xmlns='jabber:component:accept' type='set' from='localhost'/>",
        ] {
            let decision = desk.decide(try Element(parsing: text))
            #expect(decision.event == nil && decision.reply == nil, "\(text)")
        }
    }

    @Test("W2 the service says that it is a push service, answers pings, and refuses the rest")
    func information() throws {
        func ask(_ payload: String) throws -> IQ {
            let request = try Element(
                parsing:
                    "<iq xmlns='jabber:component:accept' type='get' id='1' from='a@b/c' to='push.b'>\(payload)</iq>"
            )
            return try IQ(element: #require(desk.decide(request).reply))
        }
        let information = try ask("<query xmlns='http://jabber.org/protocol/disco#info'/>").payload
        let identity = information?.child("identity", Namespaces.discoInfo)
        #expect(identity?["category"] == "pubsub" && identity?["type"] == "push")
        #expect(try ask("<ping xmlns='urn:xmpp:ping'/>").type == .result)
        #expect(try ask("<query xmlns='jabber:iq:version'/>").error?.condition == .serviceUnavailable)
    }
}
