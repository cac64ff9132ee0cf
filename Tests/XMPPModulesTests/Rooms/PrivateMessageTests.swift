import AccountTestSupport
import Handlers
import TestThreads
import Testing
import XMPPCore

@testable import XMPPAccount
@testable import XMPPModules

/// Private messages of occupants: marked when they are sent, recognized when they come, copies included.
@Suite(.ownThread) struct PrivateMessageTests {
    private static let council = "council@rooms.localhost"

    private func withRoom(_ body: (FedAccount) throws -> Void) async throws {
        try await withFed(RoomsModule(), ChatModule(receipts: .everyone), CarbonsModule()) { fed in
            _ = try fed.step { try fed.account.rooms.join(JID(Self.council), as: "alice", in: $0) }
            _ = try fed.takeSent()
            try body(fed)
        }
    }

    private func isMarked(_ element: Element) -> Bool {
        element.children("x", Namespaces.mucUser).count == 1
    }

    @Test("X37 whatever is sent to an occupant of a room is marked, once, and nothing else is")
    func sent() async throws {
        try await withRoom { fed in
            let chat = fed.account.chat
            func sent(_ to: String, type: Message.Kind = .chat, _ children: [Element] = []) throws -> Bool {
                let message = Message(to: try JID(to), type: type, body: "hush", children: children)
                _ = try fed.step { try fed.account.send(message, in: $0) }
                return try isMarked(#require(fed.takeSent().first))
            }
            #expect(try sent(Self.council + "/romeo"))
            #expect(try sent(Self.council + "/romeo", [Element("x", namespace: Namespaces.mucUser)]))
            #expect(try !sent(Self.council, type: .groupchat))
            #expect(try !sent("romeo@localhost/phone"))
            #expect(try !sent("romeo@localhost"))
            let romeo = try JID(Self.council + "/romeo")
            _ = try fed.step { try chat.send(Message(to: romeo, body: "hush"), in: $0) }
            _ = try fed.step { try chat.send(.composing, to: romeo, in: $0) }
            try fed.receive(
                """
                <message from='\(romeo)' to='\(FedAccount.full)' id='p1' type='chat'><body>hush</body>\
                <request xmlns='urn:xmpp:receipts'/></message>
                """)
            let all = try fed.takeSent()
            #expect(all.count == 3 && all.allSatisfy(isMarked), "\(all)")
        }
    }

    @Test("X37 the other party of a private message is known with the nickname, by the mark or by the room")
    func received() async throws {
        try await withRoom { fed in
            let (own, romeo) = (FedAccount.own + "/other", Self.council + "/romeo")
            let mark = Element("x", namespace: Namespaces.mucUser)
            let invitation = Element(
                "x", namespace: Namespaces.mucUser,
                children: [Element("invite", namespace: Namespaces.mucUser)])
            typealias Row = (from: String, to: String, type: Message.Kind, children: [Element], peer: String?)
            let rows: [Row] = [
                (romeo, FedAccount.full, .chat, [], romeo), (romeo, FedAccount.full, .normal, [mark], romeo),
                (own, romeo, .chat, [], romeo),
                (own, "unknown@rooms.localhost/x", .chat, [mark], "unknown@rooms.localhost/x"),
                (romeo, FedAccount.full, .groupchat, [mark], nil),
                (romeo, FedAccount.full, .error, [mark], nil),
                (Self.council, FedAccount.full, .normal, [invitation], nil),
                ("romeo@localhost/phone", FedAccount.full, .chat, [], nil),
                ("romeo@localhost/phone", FedAccount.full, .chat, [invitation], nil),
            ]
            for row in rows {
                let message = Message(
                    to: try JID(row.to), from: try JID(row.from), type: row.type, children: row.children)
                let received = MessageReceived(
                    account: fed.account, message: message, source: row.from == own ? .carbonSent : .direct)
                let peer = try fed.step { try received.privatePeer(in: $0) }
                #expect(peer?.description == row.peer, "\(row)")
            }
        }
    }
}
