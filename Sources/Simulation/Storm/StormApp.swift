package import Handlers
package import XMPPAccount
package import XMPPCore
package import XMPPModules

/// The program that receives the storm. It stores every message, and the outcomes of its own messages.
///
/// There are no unique keys: a message that is stored twice leaves two rows.
package enum StormApp {
    package static let schema = Schema(
        module: "storm",
        migrations: [
            """
            CREATE TABLE stormed(row INTEGER PRIMARY KEY, place TEXT NOT NULL, number INTEGER NOT NULL);
            CREATE TABLE storm_sent(number INTEGER PRIMARY KEY, stanza_id TEXT NOT NULL);
            CREATE TABLE storm_ended(row INTEGER PRIMARY KEY, stanza_id TEXT NOT NULL, delivered INTEGER NOT NULL);
            """,
            // The number of messages stored by then. It measures latency independently of how busy the machine is.
            """
            ALTER TABLE storm_sent ADD COLUMN stormed INTEGER NOT NULL DEFAULT 0;
            ALTER TABLE storm_ended ADD COLUMN stormed INTEGER NOT NULL DEFAULT 0;
            """,
        ], handlers: [Received.self, Ended.self])

    /// Stores the place and the number of a message.
    package struct Received: Handler {
        package static let id = "storm.received"

        package init() {}

        package func run(_ call: borrowing Call<MessageReceived>) throws {
            guard let id = call.message.id?.string, let dash = id.lastIndex(of: "-"),
                let number = Int64(id[id.index(after: dash)...])
            else { return }
            try call.step.execute(
                "INSERT INTO stormed(place, number) VALUES (?, ?)", String(id[..<dash]), number)
        }
    }

    /// Stores the end of a delivery of the program's own message.
    package struct Ended: Handler {
        package static let id = "storm.ended"

        package func run(_ call: borrowing Call<DeliveryEnded>) throws {
            let delivery = call.context.delivery
            try call.step.execute(
                """
                INSERT INTO storm_ended(stanza_id, delivered, stormed)
                VALUES (?, ?, (SELECT coalesce(max(row), 0) FROM stormed))
                """, delivery.id, delivery.deliveredAt != nil)
        }
    }

    /// Sends the program's next message.
    package static func send(_ account: Account, to peer: JID, in step: borrowing Step) throws {
        let id = StanzaID.random()
        try step.execute(
            """
            INSERT INTO storm_sent(stanza_id, stormed) VALUES (?, (SELECT coalesce(max(row), 0) FROM stormed))
            """, id)
        try account.chat.send(
            Message(to: peer, id: id, body: "said during the storm"), then: Ended().durable, in: step)
    }

    /// Returns the number of unfinished deliveries.
    package static func underWay(in step: borrowing Step) throws -> Int64 {
        try step.first(
            "SELECT (SELECT count(*) FROM storm_sent) - (SELECT count(DISTINCT stanza_id) FROM storm_ended)"
        ) { $0.integer(0) } ?? 0
    }
}
