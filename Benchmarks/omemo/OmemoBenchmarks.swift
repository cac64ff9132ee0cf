// Measures OMEMO beside a loop over libomemo-c alone, and decides nothing. A program of its own, because it links
// libomemo-c, which is under the GPL.
//
//     omemo-benchmarks [prefix]

import COmemo
import FoundationEssentials
import Glibc
import Handlers
@testable import Omemo
import XMPPAccount
import XMPPCore

/// Two accounts on stores of their own, with a session that both have used.
private final class Pair {
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
                element["from"] = account.configuration.jid.description + "/x"
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
            for message in messages { try OmemoArrival(service: side.omemo, message: message).take(in: step) }
        }
    }

    /// What the store holds of a side's one session.
    func memory(_ side: Side) throws -> SignalMemory {
        try side.store.step { step in
            let record = try step.first("SELECT record FROM omemo_session") { (row) throws(HandlerError) in
                row.blob(0)
            }
            return SignalMemory(own: try side.omemo.ownDevice.own(in: step)!, session: record)
        }
    }
}

/// A loop over the library alone: one context, one cipher, a store in memory.
private struct Loop {
    let context: SignalContext
    private let address: UnsafeMutablePointer<signal_protocol_address>
    private let cipher: OpaquePointer

    init(_ memory: SignalMemory) throws {
        context = try SignalContext(memory)
        address = .allocate(capacity: 1)
        address.initialize(to: signal_protocol_address(name: strdup("peer"), name_len: 4, device_id: 1))
        let (stores, global, place) = (context.stores, context.global, address)
        cipher = try makeSignal { session_cipher_create($0, stores, place, global) }
        session_cipher_set_version(cipher, 4)
    }

    func encrypt(_ count: Int) {
        let plaintext = [UInt8](repeating: 7, count: 48)
        for _ in 0..<count {
            var message: OpaquePointer?
            precondition(session_cipher_encrypt(cipher, plaintext, plaintext.count, &message) == 0)
            signal_type_unref(message)
        }
    }

    func decrypt(_ keys: [[UInt8]]) {
        for key in keys {
            var message: OpaquePointer?
            var plaintext: OpaquePointer?
            precondition(signal_message_deserialize_omemo(&message, key, key.count, context.global) == 0)
            precondition(session_cipher_decrypt_signal_message(cipher, message, nil, &plaintext) == 0)
            signal_buffer_bzero_free(plaintext)
            signal_type_unref(message)
        }
    }
}

@main
private enum OmemoBenchmarks {
    static let group = 64
    static let rounds = 101

    static func main() throws {
        let prefix = CommandLine.arguments.dropFirst().first ?? ""
        let folder = ".build/omemo-bench-\(getpid())"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let body = String(repeating: "x", count: 100)
        for (name, run) in [("omemo/encrypt-64", encrypting), ("omemo/decrypt-64", decrypting)]
        where name.hasPrefix(prefix) {
            let (ours, floor) = try run(Pair((folder + "/" + UUID().uuidString).made()), body)
            print(
                "\(name)  ours \(Int(ours))/s  C loop \(Int(floor))/s  ratio \((ours / floor * 100).rounded() / 100)  goal 0.7"
            )
        }
    }

    private static func encrypting(_ pair: Pair, _ body: String) throws -> (Double, Double) {
        let loop = try Loop(pair.memory(pair.a))
        let to = pair.b.account.configuration.jid
        return try compare(prepare: { try pair.a.clear() }) {
            try pair.a.store.step { step in
                for _ in 0..<group { _ = try pair.a.omemo.send(OmemoContent(body: body), to: to, in: step) }
            }
        } floor: {
            loop.encrypt(group)
        }
    }

    private static func decrypting(_ pair: Pair, _ body: String) throws -> (Double, Double) {
        let loop = try Loop(pair.memory(pair.b))
        let to = pair.b.account.configuration.jid
        let own = try pair.b.store.step { try pair.b.omemo.ownDevice.own(in: $0) }!
        var messages: [Message] = []
        var keys: [[UInt8]] = []
        return try compare(prepare: {
            try pair.a.store.step { step in
                for _ in 0..<group { _ = try pair.a.omemo.send(OmemoContent(body: body), to: to, in: step) }
            }
            messages = try pair.a.sent(pair.b)
            keys = try messages.map { message in
                try OmemoEncrypted.read(
                    message.element.child("encrypted", "urn:xmpp:omemo:2")!, for: own.device, of: to)!.keys[0]
                    .bytes
            }
        }) {
            try pair.take(messages, pair.b)
        } floor: {
            loop.decrypt(keys)
        }
    }

    /// The median rates of both sides, in turns.
    private static func compare(
        prepare: () throws -> Void, _ ours: () throws -> Void, floor: () throws -> Void
    ) throws -> (Double, Double) {
        var rates: ([Double], [Double]) = ([], [])
        for _ in 0..<rounds {
            try prepare()
            rates.0.append(Double(group) / seconds(try ContinuousClock().measure(ours)))
            rates.1.append(Double(group) / seconds(try ContinuousClock().measure(floor)))
        }
        return (rates.0.sorted()[rounds / 2], rates.1.sorted()[rounds / 2])
    }

    private static func seconds(_ duration: Duration) -> Double {
        Double(duration.components.seconds) + Double(duration.components.attoseconds) / 1e18
    }
}

extension String {
    /// The folder of that name, made.
    fileprivate func made() throws -> String {
        try FileManager.default.createDirectory(atPath: self, withIntermediateDirectories: true)
        return self
    }
}
