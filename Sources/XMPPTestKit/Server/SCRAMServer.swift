package import XMPPTransport

/// The stored form of a password at a server (RFC 5802 section 3): it can check a login, but not make one.
package struct SCRAMVerifier: Hashable, Sendable {
    package let hash: Crypto.Hash
    package let salt: [UInt8]
    package let iterations: Int
    package let storedKey: [UInt8]
    package let serverKey: [UInt8]

    /// - Parameters:
    ///   - salt: Random unless a test gives it.
    ///   - iterations: 1 or more; clients refuse fewer than 4096.
    package init(
        hash: Crypto.Hash, password: String, salt: [UInt8] = Crypto.randomBytes(16), iterations: Int = 4096
    ) throws(SASLError) {
        let secret = SecretBytes(try SASLprep.prepared(password, what: "password"))
        let keys = SCRAMKeys(hash: hash, password: secret, salt: salt, iterations: iterations)
        self.hash = hash
        self.salt = salt
        self.iterations = iterations
        storedKey = keys.storedKey
        serverKey = keys.serverKey.withBytes { Array($0) }
    }
}

/// The server's side of one SCRAM login, for test servers.
///
/// It keeps to the protocol; a test that needs a server that does not writes the messages itself.
package struct SCRAMServer: Sendable {
    private enum State {
        case waitingForClientFirst
        case waitingForClientFinal(SCRAMVerifier, expected: [UInt8], authPrefix: [UInt8])
        case ended
    }

    package let mechanism: SCRAMMechanism
    /// The name the client gave, known after its first message.
    package private(set) var user: String?

    /// The identity that the client wants to act as, if it named one; the server's owner decides whether it may.
    package private(set) var authorizationIdentity: String?

    private let bindings: ChannelBindings
    private let offersPlus: Bool
    private let nonceSuffix: String
    private var state = State.waitingForClientFirst

    /// - Parameters:
    ///   - bindings: What the session can be bound to, needed for a `-PLUS` mechanism.
    ///   - offersPlus: Whether the server offered `-PLUS` mechanisms; a client that says `y` is then refused.
    ///   - nonce: The server's part of the nonce; random unless a test gives it.
    package init(
        _ mechanism: SCRAMMechanism, bindings: ChannelBindings = .init(), offersPlus: Bool = false,
        nonce: String? = nil
    ) {
        self.mechanism = mechanism
        self.bindings = bindings
        self.offersPlus = offersPlus
        nonceSuffix = nonce ?? SCRAMMessage.makeNonce()
    }

    /// Takes the client's first message and gives the server's first.
    ///
    /// - Parameter lookup: The verifier of a user for ``mechanism``'s hash; nil when there is no such user.
    /// - Throws: `SASLError` with `notAuthorized`, `malformedMessage`, `channelBindingFailed`,
    ///   `unsupportedExtension`.
    package mutating func receivedFirst(
        _ message: some Collection<UInt8>, lookup: (String) -> SCRAMVerifier?
    ) throws(SASLError) -> [UInt8] {
        guard case .waitingForClientFirst = state else {
            throw SCRAMMessage.malformed("a second first message")
        }
        state = .ended
        let comma = UInt8(ascii: ",")
        let parts = Array(message).split(separator: comma, maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, parts[1].isEmpty || parts[1].starts(with: "a=".utf8) else {
            throw SCRAMMessage.malformed("no gs2 header")
        }
        let data = try bindingData(flag: parts[0])
        let values = try SCRAMMessage(parts[2]).values("n", "r")
        guard let user = SCRAMMessage.unescaped(values[0]), !user.isEmpty, SCRAMMessage.isNonce(values[1])
        else { throw SCRAMMessage.malformed("a user name or nonce that breaks the grammar") }
        self.user = user
        authorizationIdentity = parts[1].isEmpty ? nil : SCRAMMessage.unescaped(parts[1].dropFirst(2))
        guard let verifier = lookup(user), verifier.hash == mechanism.hash else {
            throw SASLError(.notAuthorized, "There is no user \(user).", cause: "unknown-user")
        }
        let nonce = Array(values[1]) + nonceSuffix.utf8
        let serverFirst =
            Array("r=".utf8) + nonce + ",s=\(Crypto.base64(verifier.salt)),i=\(verifier.iterations)".utf8
        let header = Array(parts[0]) + [comma] + parts[1] + [comma]
        let binding = Crypto.base64(header + data)
        state = .waitingForClientFinal(
            verifier, expected: Array("c=\(binding),r=".utf8) + nonce,
            authPrefix: Array(parts[2]) + [comma] + serverFirst + [comma])
        return serverFirst
    }

    /// Takes the client's last message and gives the server's signature, for `<success/>`.
    ///
    /// - Throws: `SASLError` with `notAuthorized` for a wrong password, `channelBindingFailed`,
    ///   `malformedMessage`.
    package mutating func receivedFinal(_ message: some Collection<UInt8>) throws(SASLError) -> [UInt8] {
        guard case .waitingForClientFinal(let verifier, let expected, let authPrefix) = state else {
            throw SCRAMMessage.malformed("a last message at the wrong time")
        }
        state = .ended
        let final = try SCRAMMessage(message)
        guard let last = final.attributes.last, last.name == UInt8(ascii: "p"),
            let proof = Crypto.bytes(base64: last.value), proof.count == verifier.storedKey.count
        else { throw SCRAMMessage.malformed("no proof") }
        let withoutProof = final.bytes.dropLast(last.value.count + ",p=".utf8.count)
        guard withoutProof.elementsEqual(expected) else { throw mismatch(final) }
        let authMessage = authPrefix + withoutProof
        let signature = Crypto.hmac(verifier.hash, key: SecretBytes(verifier.storedKey), authMessage)
        let clientKey = zip(proof, signature).map { $0 ^ $1 }
        guard Crypto.isEqual(Crypto.digest(verifier.hash, clientKey), verifier.storedKey) else {
            throw SASLError(.notAuthorized, "The password is wrong.", cause: "invalid-proof")
        }
        let serverSignature = Crypto.hmac(verifier.hash, key: SecretBytes(verifier.serverKey), authMessage)
        return Array("v=\(Crypto.base64(serverSignature))".utf8)
    }

    /// Returns the client's channel binding.
    private func bindingData(flag bytes: ArraySlice<UInt8>) throws(SASLError) -> [UInt8] {
        let flag = String(decoding: bytes, as: UTF8.self)
        if mechanism.isPlus, flag.hasPrefix("p="),
            let data = ChannelBindingType(rawValue: String(flag.dropFirst(2))).flatMap({ bindings[$0] })
        {
            return data
        }
        switch flag {
        case "n" where !mechanism.isPlus: return []
        case "y" where !mechanism.isPlus && !offersPlus: return []
        default:
            throw SASLError(
                .channelBindingFailed, "The client's channel binding \(flag) does not fit \(mechanism.name).",
                cause: flag == "y"
                    ? "server-does-support-channel-binding" : "unsupported-channel-binding-type")
        }
    }

    private func mismatch(_ message: SCRAMMessage) -> SASLError {
        guard let names = try? message.values("c", "r"), !names.isEmpty else {
            return SCRAMMessage.malformed("attributes are missing or out of order")
        }
        return SASLError(
            .channelBindingFailed, "The client sees another channel binding or nonce than this server.",
            cause: "channel-bindings-dont-match")
    }
}
