import XMPPCore

/// The client's side of one SCRAM login (RFC 5802, RFC 7677).
///
/// ```text
/// client-first ─▶                       initialResponse
///               ◀─ server-first         received(_:) ─▶ client-final
///               ◀─ server-final         received(_:) or finish(_:)
/// ```
///
/// It knows neither XML nor base64 around the messages. A login is good only when ``finish(_:)`` has
/// returned: only then has the server proved that it knows the password.
package struct SCRAMClient: Sendable {
    /// The range of iteration counts accepted from a server at a first login. RFC 7677 section 4 gives the minimum; the
    /// maximum keeps a hostile server from burning more than about a second of CPU.
    package static let acceptedIterations = 4096...1_000_000
    /// A server that has logged in with more may demand ten times as many, up to this count.
    package static let mostIterations = 10_000_000

    private enum State {
        case waitingForServerFirst
        case waitingForServerFinal(signature: [UInt8])
        case verified
        case failed
    }

    package let mechanism: SCRAMMechanism
    /// The first message, for the `<auth/>` element.
    package let initialResponse: [UInt8]
    /// The keys that were used, once known. After ``finish(_:)`` they may be kept and given to the next
    /// login.
    package var keys: SCRAMKeys?
    /// The server's offer, to compare with the one inside the exchange, which an attacker cannot change (XEP-0474); nil
    /// skips the comparison.
    package var offer: LoginOffer?
    /// The iteration count of the best login so far: a lower one is refused, and one that is much higher.
    package var leastIterations = 0

    private let password: SecretBytes
    private let gs2Header: String
    private let bindingData: [UInt8]
    private let clientFirstBare: String
    private let nonce: String
    private var state = State.waitingForServerFirst

    /// - Parameters:
    ///   - choice: Mechanism and channel binding, see ``LoginChoice``.
    ///   - user: The account's local part.
    ///   - password: The password; see ``SASLprep`` for what is done with it.
    ///   - cachedKeys: Keys of an earlier login, used when hash, salt and iteration count are the same.
    ///   - nonce: Printable ASCII without comma; random unless a test gives it.
    /// - Throws: `ErrorCode<SASLError>.forbiddenCredentials`.
    package init(
        _ choice: SCRAMChoice, user: String, password: String, cachedKeys: SCRAMKeys? = nil,
        nonce: String? = nil
    ) throws(SASLError) {
        mechanism = choice.mechanism
        self.password = SecretBytes(try SASLprep.prepared(password, what: "password"))
        keys = cachedKeys
        self.nonce = nonce ?? SCRAMMessage.makeNonce()
        let (flag, data) = choice.binding.flagAndData
        gs2Header = flag + ",,"
        bindingData = data
        let name = SCRAMMessage.escaped(try SASLprep.prepared(user, what: "user name"))
        clientFirstBare = "n=\(name),r=\(self.nonce)"
        initialResponse = Array((gs2Header + clientFirstBare).utf8)
    }

    /// Takes a `<challenge/>` and gives the `<response/>`.
    ///
    /// A server may send its last message as a challenge too; the answer to it is empty.
    ///
    /// - Throws: `SASLError` with `malformedMessage`, `nonceMismatch`, `tooFewIterations`,
    ///   `tooManyIterations`, `unsupportedExtension`, `serverNotAuthenticated`, `notAuthorized` or another
    ///   that the server's `e=` names.
    package mutating func received(_ challenge: some Collection<UInt8>) throws(SASLError) -> [UInt8] {
        switch state {
        case .waitingForServerFirst:
            state = .failed  // Until the message has been found good.
            return try answer(SCRAMMessage(challenge))
        case .waitingForServerFinal(let signature):
            state = .failed
            try verify(SCRAMMessage(challenge), signature)
            state = .verified
            return []
        case .verified, .failed:
            throw SCRAMMessage.malformed("a challenge after the end of the exchange")
        }
    }

    /// Takes the data of `<success/>`, nil or empty when it has none.
    ///
    /// - Throws: `serverNotAuthenticated` when the server has not proved that it knows the password.
    package mutating func finish(_ data: (some Collection<UInt8>)?) throws(SASLError) {
        if let data, !data.isEmpty, case .waitingForServerFinal = state { _ = try received(data) }
        guard case .verified = state else {
            state = .failed
            throw SCRAMClient.impostor("success without the server's signature")
        }
    }

    /// Finishes the exchange after a `<success/>` without data.
    package mutating func finish() throws(SASLError) { try finish(nil as [UInt8]?) }

    /// The computation of keys, which takes as long as the server wants.
    package struct Derivation: Sendable {
        /// The number of iterations.
        package let iterations: Int
        package let run: @Sendable () -> SCRAMKeys
    }

    /// Returns the computation of the keys for a challenge; nil if the answer needs none.
    ///
    /// A caller that sets ``keys`` to its result before ``received(_:)`` may run it elsewhere.
    package func derivation(for challenge: some Collection<UInt8>) -> Derivation? {
        guard case .waitingForServerFirst = state, let first = try? parse(SCRAMMessage(challenge)),
            !hasKeys(salt: first.salt, iterations: first.iterations)
        else { return nil }
        return Derivation(iterations: first.iterations) { [mechanism, password] in
            SCRAMKeys(
                hash: mechanism.hash, password: password, salt: first.salt, iterations: first.iterations)
        }
    }

    /// Checks the server's first message.
    private func parse(
        _ message: SCRAMMessage
    ) throws(SASLError) -> (nonce: ArraySlice<UInt8>, salt: [UInt8], iterations: Int) {
        try SCRAMClient.checkForError(message)
        let values = try message.values("r", "s", "i")
        let serverNonce = values[0]
        guard SCRAMMessage.isNonce(serverNonce), serverNonce.starts(with: nonce.utf8),
            serverNonce.count > nonce.utf8.count
        else {
            throw SASLError(
                .nonceMismatch,
                "The server's answer does not belong to this login; somebody may be replaying an old one. "
                    + "Try again on another network.")
        }
        guard let salt = Crypto.bytes(base64: values[1]), !salt.isEmpty else {
            throw SCRAMMessage.malformed("a salt that is not base64")
        }
        try check(offerHash: message)
        return (serverNonce, salt, try iterations(values[2]))
    }

    private mutating func answer(_ message: SCRAMMessage) throws(SASLError) -> [UInt8] {
        let (serverNonce, salt, iterations) = try parse(message)
        let keys = derivedKeys(salt: salt, iterations: iterations)
        self.keys = keys
        let binding = Crypto.base64(Array(gs2Header.utf8) + bindingData)
        let withoutProof = Array("c=\(binding),r=".utf8) + serverNonce
        let authMessage = Array("\(clientFirstBare),".utf8) + message.bytes + Array(",".utf8) + withoutProof
        state = .waitingForServerFinal(signature: keys.serverSignature(for: authMessage))
        return withoutProof + Array(",p=\(Crypto.base64(keys.proof(for: authMessage)))".utf8)
    }

    private func hasKeys(salt: [UInt8], iterations: Int) -> Bool {
        keys?.hash == mechanism.hash && keys?.salt == salt && keys?.iterations == iterations
    }

    private func derivedKeys(salt: [UInt8], iterations: Int) -> SCRAMKeys {
        if let keys, hasKeys(salt: salt, iterations: iterations) { return keys }
        return SCRAMKeys(hash: mechanism.hash, password: password, salt: salt, iterations: iterations)
    }

    private func verify(_ message: SCRAMMessage, _ expected: [UInt8]) throws(SASLError) {
        try SCRAMClient.checkForError(message)
        guard let signature = try Crypto.bytes(base64: message.values("v")[0]) else {
            throw SCRAMMessage.malformed("a signature that is not base64")
        }
        guard Crypto.isEqual(signature, expected) else {
            throw SCRAMClient.impostor("wrong server signature")
        }
    }

    /// XEP-0474: `h` is the hash of what the server offers, as it was before anybody could tamper with it.
    private func check(offerHash message: SCRAMMessage) throws(SASLError) {
        guard let offer, let hash = message.attributes.first(where: { $0.name == UInt8(ascii: "h") })?.value
        else { return }
        let lists = [offer.mechanisms] + (offer.bindingTypes.isEmpty ? [] : [offer.bindingTypes])
        let text = lists.map { list in
            list.map { Array($0.utf8) }.sorted { $0.lexicographicallyPrecedes($1) }
                .joined(separator: [0x1E])
        }.joined(separator: [0x1F])
        let expected = Crypto.base64(Crypto.digest(mechanism.hash, text))
        guard hash.elementsEqual(expected.utf8) else {
            throw SASLError(
                .downgradeSuspected,
                "What the server offers is not what arrived here; somebody is tampering with the connection. "
                    + "Try another network.", cause: offer.text)
        }
    }

    /// A posit-number (RFC 5802 section 7) in the accepted range.
    private func iterations(_ digits: ArraySlice<UInt8>) throws(SASLError) -> Int {
        guard digits.allSatisfy({ (0x30...0x39).contains($0) }), let first = digits.first, first != 0x30
        else { throw SCRAMMessage.malformed("an iteration count that is not a number") }
        let text = String(decoding: digits, as: UTF8.self)
        let count = Int(text) ?? .max
        let accepted = SCRAMClient.acceptedIterations
        if count < accepted.lowerBound {
            throw SASLError(
                .tooFewIterations,
                "The server hashes passwords only \(count) times, fewer than the "
                    + "\(accepted.lowerBound) that are safe; its operator must raise it.")
        }
        if count < leastIterations {
            throw SASLError(
                .tooFewIterations,
                "The server hashes passwords only \(count) times and did so \(leastIterations) times before; "
                    + "somebody may want the password to be easier to guess. If the server's operator confirms "
                    + "the change, forget what was learned about the server with forgetLogin().")
        }
        let most = max(accepted.upperBound, 10 * min(leastIterations, SCRAMClient.mostIterations / 10))
        if count > most {
            throw SASLError(
                .tooManyIterations,
                "The server demands \(text) hash iterations, more than the \(most) "
                    + "that are done here; its operator must lower the iteration count.")
        }
        return count
    }

    /// Throws what an `e=` message says (RFC 5802 section 7, server-error-value).
    private static func checkForError(_ message: SCRAMMessage) throws(SASLError) {
        guard let first = message.attributes.first, first.name == UInt8(ascii: "e") else { return }
        let value = ForeignText(decoding: first.value)
        switch value {
        case "invalid-proof", "unknown-user", "invalid-username-encoding":
            throw SASLError(
                .notAuthorized, "The server does not accept the user name or the password; check both.",
                cause: value)
        case "channel-bindings-dont-match", "server-does-support-channel-binding",
            "channel-binding-not-supported", "unsupported-channel-binding-type":
            throw SASLError(
                .channelBindingFailed,
                "The server sees another TLS session than this machine does; somebody may sit between them. "
                    + "Try another network.", cause: value)
        default:
            throw SASLError(
                .refused, "The server refused the login; show the reason to its operator.", cause: value)
        }
    }

    private static func impostor(_ cause: String) -> SASLError {
        SASLError(
            .serverNotAuthenticated,
            "The server did not prove that it knows the password, so it may be an "
                + "impostor; do not trust this connection.",
            cause: cause)
    }
}
