import Handlers
@testable import Omemo
import XMPPAccount
import XMPPCore

/// Where the time of one message goes: each part of encrypting alone, in microseconds.
struct Parts {
    let pair: Pair
    let body: String
    /// How many runs are timed together; of the rounds the quickest counts, for the machine does other things, too.
    private let count = 64
    private let rounds = 25

    init(_ pair: Pair, _ body: String) {
        (self.pair, self.body) = (pair, body)
    }

    func run() throws {
        let (side, account) = (pair.a, pair.a.account)
        let omemo = side.omemo
        let to = pair.b.account.configuration.jid
        let content = OmemoContent(body: body)
        try side.store.step { step in
            let own = try omemo.ownDevice.own(in: step)!
            let device = try pair.b.store.step { try pair.b.omemo.ownDevice.own(in: $0) }!.device
            let peer = OmemoAddress(jid: to, device: device, version: .omemo2)
            try measure("own device") { _ = try omemo.ownDevice.own(in: step) }
            try measure("plan, a user") { _ = try omemo.user(to, session: 0, in: step) }
            try measure("session read") { _ = try omemo.sessions.session(with: peer, in: step) }
            let memory = try pair.memory(side, in: step)
            try measure("context") { _ = try SignalContext(memory) }
            let material = [UInt8](repeating: 7, count: 48)
            try measure("ratchet") { _ = try SignalSession(.omemo2, memory).encrypt(material) }
            try measure("session written") {
                try omemo.sessions.advance(memory.session ?? [], with: peer, in: step)
            }
            try measure("envelope") {
                _ = OmemoEnvelope.bytes(content, from: side.account.configuration.jid, room: nil)
            }
            let plaintext = OmemoEnvelope.bytes(content, from: side.account.configuration.jid, room: nil)
            try measure("payload") { _ = try OmemoPayload.encrypt(plaintext, .omemo2) }
            let payload = try OmemoPayload.encrypt(plaintext, .omemo2)
            let key = OmemoEncrypted.Key(
                jid: to, device: device, isKeyExchange: false, bytes: [UInt8](repeating: 7, count: 130))
            let message = OmemoEncrypted(
                version: .omemo2, sender: own.device, keys: [key], iv: nil, payload: payload.ciphertext)
            try measure("stanza") { _ = OmemoService.stanza([message], to: to, id: "id", type: .chat) }
            let stanza = OmemoService.stanza([message], to: to, id: "id", type: .chat)
            try measure("serialized") { _ = Serializer().bytes(stanza.element) }
            try measure("sent") { try account.send(stanza, in: step) }
        }
        try side.clear()
    }

    private func measure(_ name: String, _ body: () throws -> Void) throws {
        let times = try (0..<rounds).map { _ in
            try ContinuousClock().measure { for _ in 0..<count { try body() } }
        }
        let microseconds = Double(times.min()?.components.attoseconds ?? 0) / 1e12 / Double(count)
        print("omemo/parts  \(name)  \((microseconds * 10).rounded() / 10) µs")
    }
}
