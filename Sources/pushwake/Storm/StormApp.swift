import HandlerMacrosSupport
import Handlers
import XMPPAccount
import XMPPCore

/// The program that stands the storm: it writes down every message that comes, and when the server took its own.
///
/// No unique keys: a message that came twice leaves two rows.
enum StormApp {
    static let schema = Schema(
        module: "storm",
        migrations: [
            """
            CREATE TABLE stormed(row INTEGER PRIMARY KEY, place TEXT NOT NULL, number INTEGER NOT NULL);
            CREATE TABLE storm_sent(number INTEGER PRIMARY KEY, sent_at INTEGER NOT NULL, taken_at INTEGER);
            """
        ], handlers: [Received.self, Taken.self])

    /// Writes a message down: where it was said and its number.
    struct Received: Handler {
        static let id = "storm.received"

        func run(_ call: borrowing Call<MessageReceived>) throws {
            guard let id = call.message.id, let dash = id.lastIndex(of: "-"),
                let number = Int64(id[id.index(after: dash)...])
            else { return }
            try call.step.execute(
                "INSERT INTO stormed(place, number) VALUES (?, ?)", String(id[..<dash]), number)
        }
    }

    /// The server took a message of the program's own.
    struct Taken: Handler {
        static let id = "storm.taken"
        var number: Int64

        func run(_ call: borrowing Call<StanzaAcknowledged>) throws {
            try call.step.execute(
                "UPDATE storm_sent SET taken_at = ? WHERE number = ?", call.step.now, number)
        }
    }

    /// Sends the next message of the program's own.
    static func send(_ account: Account, to peer: JID, in step: borrowing Step) throws {
        let number =
            try step.first(
                "INSERT INTO storm_sent(sent_at) VALUES (?) RETURNING number", step.now
            ) { (row) throws(HandlerError) in row.integer(0) } ?? 0
        try account.send(
            Message(to: peer, id: "own-\(number)", body: "said during the storm"),
            acknowledged: Taken(number: number).durable, in: step)
    }
}
