import Handlers
@testable import Omemo
import XMPPAccount
import XMPPCore
import XMPPModules

/// Two accounts on stores of their own, with a session that both have used.
final class Pair {
    /// Stores what was said.
    struct Heard: Handler {
        static let id = "bench.heard"

        func run(_ call: borrowing Call<OmemoReceived>) throws {
            guard case .content(let content) = call.outcome, let sender = call.sender,
                let device = call.device
            else { return }
            try call.step.execute(
                "INSERT INTO heard(sender, device, trust, body, at) VALUES (?, ?, ?, ?, ?)",
                sender.description, device.rawValue, call.trust.rawValue, content.body, call.step.now)
        }

        static let schema = Schema(
            module: "bench",
            migrations: [
                """
                CREATE TABLE heard(
                    id INTEGER PRIMARY KEY, sender TEXT NOT NULL, device INTEGER NOT NULL, trust INTEGER NOT NULL,
                    body TEXT NOT NULL, at INTEGER NOT NULL);
                """
            ])
    }

    final class Side {
        let path: String
        let store: HandlerStore
        let account: Account
        /// The stream that carries what arrives.
        private let stream: StreamParser

        init(_ jid: String, _ folder: String) throws {
            path = "\(folder)/\(jid).db"
            store = try HandlerStore(
                path: path, registry: HandlerRegistry([Heard.self]),
                schemas: Account.schemas + OmemoService.schemas + [Heard.schema])
            account = try Account(AccountConfiguration(jid: JID(jid), password: "none"), store: store)
            stream = try StreamParser()
            _ = try stream.parse(Serializer.streamHeader(to: nil))
            try store.step { step in
                try account.omemo.start(in: step)
                try account.omemo.listen(as: "heard", Heard().durable, in: step)
            }
            try clear()
        }

        var omemo: OmemoService { account.omemo }

        func clear() throws {
            try store.step { step in
                _ = try step.execute("DELETE FROM outbox WHERE kind = 0")
                _ = try step.execute("DELETE FROM heard")
            }
        }

        /// What it sent, as a stream carries it to the other side, and then forgotten.
        func sent() throws -> [[UInt8]] {
            let rows = try store.step { step in
                try step.all("SELECT xml FROM outbox WHERE kind = 0 ORDER BY seq") {
                    (row) throws(HandlerError) in row.blob(0)
                }
            }
            try clear()
            return try rows.map(stamped)
        }

        /// A stanza with the sender that servers write into it.
        func stamped(_ xml: [UInt8]) throws -> [UInt8] {
            var element = try Element(
                parsing: String(decoding: xml, as: UTF8.self), defaultNamespace: Namespaces.client)
            element["from"] = "\(account.configuration.jid)/x"
            return Serializer().bytes(element)
        }

        /// Reads stanzas out of the stream, decrypts them and stores what they say: one step.
        func take(_ stanzas: [[UInt8]]) throws {
            try store.step { step in
                for stanza in stanzas {
                    for case .element(let element) in try stream.parse(stanza) {
                        let received = MessageReceived(
                            account: account, message: try Message(element: element))
                        try OmemoArrival(service: omemo, received: received).handle(in: step)
                    }
                }
            }
        }

        /// What it heard, a line for each message.
        func heard() throws -> String {
            try store.step { step in
                try step.first(Pair.heard) { (row) throws(HandlerError) in row.text(0) } ?? ""
            }
        }
    }

    static let heard =
        "SELECT group_concat(line, char(10)) FROM (SELECT sender || ' ' || device || ' ' || trust || ' ' || body AS line FROM heard ORDER BY id)"

    let a, b: Side

    init(_ folder: String) throws {
        a = try Side("a@bench.example", folder)
        b = try Side("b@bench.example", folder)
        for (one, other) in [(a, b), (b, a)] {
            let own = try other.store.step { try other.omemo.ownDevice.own(in: $0) }!
            for (side, jid, devices) in [
                (one, other.account.configuration.jid, [own.device]),
                (one, one.account.configuration.jid, []),
            ] {
                for version in OmemoVersion.allCases {
                    let list = OmemoDeviceList(
                        version, devices: version == .omemo2 ? devices.map { .init($0) } : [])
                    try side.store.step { _ = try side.omemo.learn(list, of: jid, in: $0) }
                }
            }
        }
        let own = try b.store.step { try b.omemo.ownDevice.own(in: $0) }!
        let bundle = try b.store.step { try b.omemo.ownDevice.bundle(own, .omemo2, in: $0) }
        let peer = OmemoAddress(jid: b.account.configuration.jid, device: own.device, version: .omemo2)
        try a.store.step { try a.omemo.learn(bundle, of: peer, in: $0) }
        try a.store.step { _ = try a.omemo.send(OmemoContent(body: "one"), to: peer.jid, in: $0) }
        try b.take(a.sent())
        try b.store.step {
            _ = try b.omemo.send(OmemoContent(body: "two"), to: a.account.configuration.jid, in: $0)
        }
        try a.take(b.sent())
    }

    /// What the store holds of a side's one session.
    func memory(_ side: Side, in step: borrowing Step) throws -> SignalMemory {
        let record = try step.first("SELECT record FROM omemo_session") { (row) throws(HandlerError) in
            row.blob(0)
        }
        return SignalMemory(own: try side.omemo.ownDevice.own(in: step)!, session: record)
    }
}
