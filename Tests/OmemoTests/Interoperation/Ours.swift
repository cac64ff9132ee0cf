import Handlers
@testable import Omemo
import PubSub
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules

/// A device of ours on a server.
final class Ours: Sendable {
    let store: HandlerStore
    let account: Account
    /// Where the store is.
    let file: String

    /// - Parameter makeAccount: Makes the account on that store.
    init(file: String, makeAccount: (HandlerStore) throws -> Account) throws {
        self.file = file
        store = try HandlerStore(
            path: file,
            registry: HandlerRegistry([
                World.Heard.self, World.Reported.self, Published.self, Configured.self,
            ]), schemas: Account.schemas + OmemoService.schemas + [RefreshAccount.notes])
        account = try makeAccount(store)
        try store.step { step in try account.omemo.listen(as: "test", World.Heard().durable, in: step) }
    }

    // MARK: What it knows

    func texts(_ sql: String) throws -> [String] {
        try store.texts(sql)
    }

    func number(_ sql: String) throws -> Int64 {
        try store.number(sql)
    }

    var notes: [String] { get throws { try texts("SELECT text FROM note ORDER BY row") } }

    /// Once that many messages were heard.
    func heard(_ count: Int) async throws -> [String] {
        try await eventually("\(count) messages are heard, after \(try notes)") {
            try self.notes.count >= count
        }
        return try notes
    }

    /// The own device's number.
    func own() throws -> OmemoDeviceID? { try store.step { try account.omemo.own(in: $0)?.device } }

    /// Once every session that this device started was answered: nothing of it is on its way any more.
    func answered() async throws {
        try await eventually("the sessions are answered") {
            try self.number("SELECT count(*) FROM omemo_session WHERE started_at IS NOT NULL") == 0
        }
    }

    /// Once the own keys are on the server.
    func published() async throws {
        try await eventually("the own keys are published") {
            try self.number("SELECT count(*) FROM omemo_publication WHERE listed = 0") == 0
        }
    }

    /// Once nothing is to be sent any more, nor to be fetched.
    func quiet() async throws {
        try await eventually("nothing is left to be sent") {
            try self.number(
                """
                SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM omemo_waiting)
                    + (SELECT count(*) FROM room_message)
                    + (SELECT count(*) FROM archive WHERE state IN (1, 2))
                    + (SELECT count(*) FROM omemo_duty WHERE done_at IS NULL)
                """) == 0
        }
    }

    // MARK: What it does

    func send(_ text: String, to jid: String) async throws {
        try await account.perform { [account] step in
            try account.omemo.send(
                OmemoContent(body: text), to: JID(jid), then: World.Reported().durable, in: step)
        }
    }

    func send(_ text: String, toRoom room: JID) async throws {
        _ = try await account.perform { step in
            try self.account.omemo.send(
                OmemoContent(body: text), toRoom: room, then: World.Reported().durable, in: step)
        }
    }

    /// Ends the session: what comes from now on is the server's to keep.
    func leave() async throws {
        try await quiet()
        try await account.logOut()
        await account.close()
    }

    /// Makes a room for members only, which shows their addresses, and stays in it.
    func makeRoom(_ room: JID, members: [String]) async throws {
        let joined = try await account.rooms.join(room, as: "romeo", configures: true)
        guard case .joined = joined.outcome else { throw Refused(what: "joining") }
        let form = DataForm(
            .submit,
            [
                .init("muc#roomconfig_membersonly", "1"), .init("muc#roomconfig_whois", "anyone"),
                // ejabberd's name for the archive, which Prosody's rooms have by themselves.
                .init("mam", "1"),
            ])
        try await ask(.room(room).configure(form))
        // The founder is the owner already. Prosody looks at the first item of a request only.
        for member in members.dropFirst() {
            try await ask(.room(room).setAffiliation(.member, of: [JID(member)]))
        }
        try await account.omemo.updateMembers(of: room)
        let known = try await account.perform { step in
            try self.account.omemo.rooms.members(of: room, in: step)
        }
        #expect(known.map(\.description) == members.sorted())
    }

    struct Refused: Error { let what: String }

    private func ask(_ operation: AccountOperation<IQReply, Void>) async throws {
        let before = try notes.count
        try await account.send(operation, then: Configured().durable)
        try await eventually("the room answers") { try self.notes.count > before }
        #expect(try notes.last == "configured")
        try store.step { _ = try $0.execute("DELETE FROM note") }
    }

    /// Notes whether a room did what was asked of it.
    struct Configured: Handler {
        static let id = "test.configured"
        func run(_ call: borrowing Call<IQReply>) throws {
            let words = if case .result = call.outcome { "configured" } else { "refused \(call.outcome)" }
            try call.step.execute("INSERT INTO note(text) VALUES (?)", words)
        }
    }

    /// Notes whether something was published.
    struct Published: Handler {
        static let id = "test.list-published"
        func run(_ call: borrowing Call<PubSubPublication>) throws {
            let words = if case .success = call.outcome { "published" } else { "refused \(call.outcome)" }
            try call.step.execute("INSERT INTO note(text) VALUES (?)", words)
        }
    }
}
