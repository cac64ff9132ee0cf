import Handlers
@testable import Omemo
import XMPPAccount
import XMPPCore
import XMPPModules

/// Two accounts on stores of their own, with a session that both have used.
final class Pair {
    final class Side {
        let store: HandlerStore
        let account: Account

        init(_ jid: String, _ folder: String) throws {
            store = try HandlerStore(
                path: "\(folder)/\(jid).db", registry: HandlerRegistry(),
                schemas: Account.schemas + OmemoService.schemas)
            account = try Account(AccountConfiguration(jid: JID(jid), password: "none"), store: store)
            try store.step { try account.omemo.start(in: $0) }
            try clear()
        }

        var omemo: OmemoService { account.omemo }

        func clear() throws { try store.step { _ = try $0.execute("DELETE FROM outbox WHERE kind = 0") } }

        /// What it sent, and then forgotten.
        func sent(_ other: Side) throws -> [Message] {
            let rows = try store.step { step in
                try step.all("SELECT xml FROM outbox WHERE kind = 0 ORDER BY seq") {
                    (row) throws(HandlerError) in row.blob(0)
                }
            }
            try clear()
            return try rows.map { xml in
                var element = try Element(
                    parsing: String(decoding: xml, as: UTF8.self), defaultNamespace: Namespaces.client)
                element["from"] = "\(account.configuration.jid)/x"
                return try Message(element: element)
            }
        }
    }

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
        try take(a.sent(b), b)
        try b.store.step {
            _ = try b.omemo.send(OmemoContent(body: "two"), to: a.account.configuration.jid, in: $0)
        }
        try take(b.sent(a), a)
    }

    func take(_ messages: [Message], _ side: Side) throws {
        try side.store.step { step in
            for message in messages {
                let received = MessageReceived(account: side.account, message: message)
                try OmemoArrival(service: side.omemo, received: received).take(in: step)
            }
        }
    }

    /// What the store holds of a side's one session.
    func memory(_ side: Side) throws -> SignalMemory {
        try side.store.step { step in try memory(side, in: step) }
    }

    func memory(_ side: Side, in step: borrowing Step) throws -> SignalMemory {
        let record = try step.first("SELECT record FROM omemo_session") { (row) throws(HandlerError) in
            row.blob(0)
        }
        return SignalMemory(own: try side.omemo.ownDevice.own(in: step)!, session: record)
    }
}
