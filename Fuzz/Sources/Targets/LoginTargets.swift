@testable import XMPPAccount
@testable import XMPPTransport
import XMPPCore

extension FuzzTarget {
    /// The server's messages of a login by password, one a line. Nobody is believed who has not proved by a signature to
    /// know the password.
    static let scram = FuzzTarget("scram", dictionary: "scram") { bytes in
        let messages = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        guard iterations(in: bytes) <= iterationsAtMost else { return }
        var login = try SCRAMLogin()
        for message in messages.dropLast() { try login.challenge(Array(message)) }
        try login.finish(Array(messages.last ?? []))
    }

    /// The client accepts ten million, which cost seconds by design; here they would hide what else is slow.
    private static let iterationsAtMost = 5000

    private static func iterations(in bytes: [UInt8]) -> Int {
        var largest = 0
        for part in bytes.split(whereSeparator: { $0 == UInt8(ascii: ",") || $0 == UInt8(ascii: "\n") })
        where part.starts(with: "i=".utf8) {
            largest = max(largest, Int(String(decoding: part.dropFirst(2), as: UTF8.self)) ?? 0)
        }
        return largest
    }

    /// The server's last word in a login by token: only one is good.
    static let token = FuzzTarget("token", .short, maximumLength: 256) { bytes in
        var rest = Bytes(bytes)
        let hashes = ["SHA-256", "SHA-512"], bindings = ["NONE", "EXPR", "UNIQ", "ENDP"]
        let name = "HT-\(hashes[rest.number(below: 2)])-\(bindings[rest.number(below: 4)])"
        guard let mechanism = HashedTokenMechanism(name: name) else {
            throw Finding("the mechanism \(name) is not known")
        }
        let data = ChannelBindings([
            .tlsExporter: [1, 2, 3], .tlsUnique: [4, 5, 6], .tlsServerEndPoint: [7, 8, 9],
        ])
        guard
            var client = HashedTokenClient(
                mechanism, user: "user", token: SecretBytes("token"), bindings: data)
        else { throw Finding("\(name) finds nothing to bind to") }
        let word = Array(rest.rest)
        let bound = mechanism.binding.flatMap { data[$0] } ?? []
        let expected = Crypto.hmac(mechanism.hash, key: SecretBytes("token"), Array("Responder".utf8) + bound)
        do throws(SASLError) {
            try client.finish(success: word)
        } catch {
            return try require(word != expected, "the server's proof is refused")
        }
        try require(word == expected, "a server is believed that does not know the token")
    }

    /// What a server offers before the login: an offer that is remembered is the one that was read, and the choice never
    /// uses what was not offered.
    static let features = FuzzTarget("features", dictionary: "xml") { bytes in
        // A server offers once or twice; each offer costs dozens of choices here.
        for element in try Element.all(in: bytes, of: Namespaces.stream).prefix(100) {
            let offer = ServerOffer(element)
            if let stored = ServerOffer.stored(element) {
                try require(
                    ServerOffer(stored: stored).map { "\($0.classic)" } == "\(offer.classic)",
                    "a remembered offer is another one")
            }
            _ = StanzaLimit.announced(in: element)
            for login in [offer.classic, offer.extensible?.login].compactMap(\.self) { try choose(login) }
        }
    }

    private static func choose(_ offer: LoginOffer) throws {
        let bindings = ChannelBindings([.tlsExporter: [1], .tlsServerEndPoint: [2]])
        let pins: [SCRAMMechanism?] = [nil] + SCRAMMechanism.byPreference
        for pinned in pins {
            for bindings in [bindings, ChannelBindings()] {
                let policy = LoginPolicy(allowsPlain: true, pinned: pinned)
                guard let choice = try? LoginChoice.best(offer, policy, bindings: bindings) else { continue }
                try check(choice, offer, pinned)
            }
        }
        _ = HashedTokenMechanism.best(offer.mechanisms.map { "\($0)" }, bindings: bindings)
    }

    private static func check(_ choice: LoginChoice, _ offer: LoginOffer, _ pinned: SCRAMMechanism?) throws {
        let names = offer.mechanisms.map { Array("\($0)".utf8) }
        switch choice {
        case .scram(let scram):
            try require(names.contains(Array(scram.mechanism.name.utf8)), "what is chosen was not offered")
            try require(pinned.map(scram.mechanism.isAtLeast) ?? true, "the login is weaker than before")
        case .plain:
            try require(names.contains(Array("PLAIN".utf8)), "PLAIN was not offered")
            try require(pinned == nil, "the password is sent although a better login is known")
        default: throw Finding("a password was to be used, and \(choice) is chosen")
        }
    }

    /// The end of a login in the newer profile, with what was done in the same round trip.
    static let sasl2 = FuzzTarget("sasl2", dictionary: "xml") { bytes in
        for element in try Element.all(in: bytes, of: Namespaces.sasl2) {
            let success = try SASL2Success(element)
            if let answer = success.resumption {
                _ = (HandledCount(answer["h"]), StreamOpener.FailedResumption(answer).error)
            }
            if let token = success.token {
                _ = FastToken.isOver(token.expiry, now: "2026-01-31T12:00:00.000Z")
            }
        }
    }
}

/// A login by password with nonce, salt and count of RFC 5802 section 5, and the rule beside it.
private struct SCRAMLogin {
    private var client: SCRAMClient
    private var challenges: [[UInt8]] = []
    private var responses: [[UInt8]] = []
    private static let nonce = "fyko+d2lbbFgONRv9qkxdawL"

    /// Derived once: that takes some milliseconds.
    private static let keys = SCRAMKeys(
        hash: .sha1, password: SecretBytes("pencil"),
        salt: Crypto.bytes(base64: Array("QSXCR+Q6sek8bf92".utf8)) ?? [], iterations: 4096)

    init() throws {
        client = try SCRAMClient(
            SCRAMChoice(mechanism: SCRAMMechanism(.sha1)), user: "user", password: "pencil",
            cachedKeys: Self.keys, nonce: Self.nonce)
    }

    mutating func challenge(_ message: [UInt8]) throws {
        challenges.append(message)
        responses.append(try client.received(message))
    }

    mutating func finish(_ message: [UInt8]) throws {
        challenges.append(message)
        try client.finish(message)
        try require(isProved, "a server is believed that does not know the password")
    }

    /// RFC 5802 section 3: the signature is that of the exchange, by the key that the password gives.
    private var isProved: Bool {
        guard let keys = client.keys, let first = challenges.first,
            let final = responses.first, let comma = final.lastIndex(of: UInt8(ascii: ","))
        else { return false }
        let bare = client.initialResponse.dropFirst("n,,".utf8.count)
        let exchange = Array(bare) + [0x2C] + first + [0x2C] + Array(final[..<comma])
        let fresh = SCRAMKeys(
            hash: .sha1, password: SecretBytes("pencil"), salt: keys.salt, iterations: keys.iterations)
        let signature = Crypto.base64(fresh.serverSignature(for: exchange))
        return challenges.dropFirst().contains { message in
            message.split(separator: 0x2C).first.map { $0.elementsEqual("v=\(signature)".utf8) } ?? false
        }
    }
}
