import AccountTestKit
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
@testable import XMPPModules

/// Operations as values: what each asks, and how its answer is read in a stored handler.
@Suite(.ownThread) struct OperationTests {
    /// Notes what the answer to a question to a room says.
    struct Read: Handler {
        static let id = "test.operation-read"
        static let retry = RetryPolicy.never
        var room: JID

        func run(_ call: borrowing Call<IQReply>) throws {
            let words: String
            do {
                let form = try call.context.value(of: .room(room).configuration)
                words = form["name"]?.string ?? "-"
            } catch let error as StanzaError {
                words = error.condition.rawValue.string
            } catch let error as AccountError {
                words = error.code.rawValue
            }
            try call.step.execute("INSERT INTO heard(words) VALUES (?)", words)
        }
    }

    private static let table = Schema(
        module: "test-operations", migrations: ["CREATE TABLE heard(words TEXT NOT NULL)"])
    private static let owner = "http://jabber.org/protocol/muc#owner"

    private func withOffline(_ body: (OfflineAccount) throws -> Void) async throws {
        let folder = try TemporaryFolder()
        let store = try HandlerStore(
            path: folder.path + "/app.db", registry: HandlerRegistry([Read.self]),
            schemas: Account.schemas + [Self.table])
        let offline = try OfflineAccount(store: store)
        try body(offline)
        await offline.close()
    }

    @Test("X14 an operation asks its room what its name says")
    func room() async throws {
        try await withOffline { offline in
            let (room, user) = (try JID("council@rooms.example"), try JID("tybalt@example.org"))
            let form = DataForm(.submit, [.init("name", "Hall")])
            let changes: [(AccountOperation<IQReply, Void>, RoomRequest)] = [
                (.room(room).configure(form), .configure(form)),
                (
                    .room(room).setAffiliation(.outcast, of: [user], reason: "Brawling"),
                    .setAffiliation(.outcast, of: [user], reason: "Brawling")
                ),
                (
                    .room(room).setRole(.visitor, of: "Tybalt", reason: "Noise"),
                    .setRole(.visitor, of: "Tybalt", reason: "Noise")
                ),
                (
                    .room(room).destroy(alternative: user, reason: "Over"),
                    .destroy(alternative: user, reason: "Over")
                ),
            ]
            let lists: [(AccountOperation<IQReply, [RoomEntry]>, RoomRequest)] = [
                (.room(room).users(with: .member), .affiliations(.member)),
                (.room(room).occupants(with: .moderator), .roles(.moderator)),
            ]
            try offline.store.step { step in
                for (change, _) in changes { try send(change) }
                for (list, _) in lists { try send(list) }
                try send(.room(room).configuration)

                func send<Value>(_ operation: AccountOperation<IQReply, Value>) throws {
                    try offline.account.send(operation, then: Durable(Read(room: room)), in: step)
                }
            }
            let expected = (changes.map(\.1) + lists.map(\.1) + [.configuration]).map { $0.iq(to: room) }
            let sent = try offline.sent.map { try IQ(element: $0) }
            #expect(sent.map(\.payload) == expected.map(\.payload))
            #expect(sent.map(\.type) == expected.map(\.type))
            #expect(sent.allSatisfy { $0.to == room })
        }
    }

    @Test(
        "X14 a stored handler reads an operation's value from the answer, or why there is none",
        arguments: [
            (
                "<query xmlns='OWNER'><x xmlns='jabber:x:data' type='form'><field var='name'><value>Hall</value></field></x></query>",
                "result", "Hall"
            ),
            ("<query xmlns='OWNER'/>", "result", "undefined-condition"),
            (
                "<error type='auth'><forbidden xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>",
                "error", "forbidden"
            ),
            ("", "timeout", "timed-out"),
        ])
    func value(answer: String, type: String, words: String) async throws {
        try await withOffline { offline in
            let room = try JID("council@rooms.example")
            let id = try offline.store.step { step in
                try offline.account.send(.room(room).configuration, then: Durable(Read(room: room)), in: step)
            }
            if type == "timeout" {
                _ = try offline.expire(requestID: id)
            } else {
                let payload = answer.replacing("OWNER", with: Self.owner)
                try offline.receive("<iq type='\(type)' id='\(id)' from='\(room)'>\(payload)</iq>")
            }
            let heard = try offline.store.read { snapshot in
                try snapshot.all("SELECT words FROM heard") { (row) throws(HandlerError) in row.text(0) }
            }
            #expect(heard == [words])
        }
    }
}
