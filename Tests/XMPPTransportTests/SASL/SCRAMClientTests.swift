import TestThreads
import Testing
import XMPPTransport
import XMPPCore

@Suite(.ownThread) struct SCRAMClientTests {
    struct Vector: Sendable, CustomTestStringConvertible {
        let hash: Crypto.Hash
        let clientNonce: String
        let serverFirst: String
        let proof: String
        let signature: String
        var testDescription: String { hash.rawValue }

        var clientFirst: String { "n,,n=user,r=\(clientNonce)" }
        var serverNonce: Substring { serverFirst.dropFirst(2).prefix { $0 != "," } }
        var clientFinal: String { "c=biws,r=\(serverNonce),p=\(proof)" }
    }

    /// RFC 5802 section 5, RFC 7677 section 3; the last is RFC 7677's exchange computed for SHA-512 with
    /// Python's hashlib.
    static let vectors = [
        Vector(
            hash: .sha1, clientNonce: "fyko+d2lbbFgONRv9qkxdawL",
            serverFirst: "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
            proof: "v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=", signature: "rmF9pqV8S7suAoZWja4dJRkFsKQ="),
        Vector(
            hash: .sha256, clientNonce: "rOprNGfwEbeRWgbNEkqO",
            serverFirst:
                "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            proof: "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            signature: "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="),
        Vector(
            hash: .sha512, clientNonce: "rOprNGfwEbeRWgbNEkqO",
            serverFirst:
                "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            proof:
                "gMGXRcevScNtxZ6/8lQYpGtnsNAc3mGcmNomv+xnoOMw+3R2xNJdMNnzMlTN8PPC6wdp6dybEmDYXYTxwnYPJQ==",
            signature:
                "ZQnYEgWQMFmmsM8aQMF0nDDCy/AgCzkwk8CmMZYcMg0vSVlKDanekLtifDSeVGT4+5ZxXnJq199RVG2rR7N7Zw=="),
    ]

    static let good = vectors[1]

    private func makeClient(_ vector: Vector = good, user: String = "user", password: String = "pencil")
        throws -> SCRAMClient
    {
        try SCRAMClient(
            SCRAMChoice(vector.hash), user: user, password: password, nonce: vector.clientNonce)
    }

    /// The code of the error with which a client answers this server-first message.
    private func refusal(of serverFirst: String) throws -> ErrorCode<SASLError>? {
        var client = try makeClient()
        return saslError { try client.received(Array(serverFirst.utf8)) }?.code
    }

    @Test("X6 the published exchanges come out byte for byte", arguments: vectors)
    func publishedVector(vector: Vector) throws {
        var client = try makeClient(vector)
        #expect(String(decoding: client.initialResponse, as: UTF8.self) == vector.clientFirst)
        let final = try client.received(Array(vector.serverFirst.utf8))
        #expect(String(decoding: final, as: UTF8.self) == vector.clientFinal)
        try client.finish(Array("v=\(vector.signature)".utf8))
    }

    @Test(
        "X6 the server's signature may come in a last challenge, before an empty success", arguments: vectors)
    func signatureInChallenge(vector: Vector) throws {
        var client = try makeClient(vector)
        _ = try client.received(Array(vector.serverFirst.utf8))
        #expect(try client.received(Array("v=\(vector.signature)".utf8)).isEmpty)
        try client.finish()
    }

    @Test("X6 a wrong server signature is refused, and success afterwards too")
    func wrongSignature() throws {
        var client = try makeClient()
        _ = try client.received(Array(Self.good.serverFirst.utf8))
        let wrong = Array("v=AAAATRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=".utf8)
        #expect(saslError { try client.finish(wrong) }?.code == .serverNotAuthenticated)
        #expect(saslError { try client.finish() }?.code == .serverNotAuthenticated)
        let right = Array("v=\(Self.good.signature)".utf8)
        #expect(saslError { try client.finish(right) }?.code == .serverNotAuthenticated)
    }

    @Test("X6 success without the server's signature is refused, at every point of the exchange")
    func missingSignature() throws {
        var early = try makeClient()
        #expect(saslError { try early.finish() }?.code == .serverNotAuthenticated)
        let signature = Array("v=\(Self.good.signature)".utf8)
        #expect(saslError { try early.finish(signature) }?.code == .serverNotAuthenticated)
        var late = try makeClient()
        _ = try late.received(Array(Self.good.serverFirst.utf8))
        #expect(saslError { try late.finish([] as [UInt8]) }?.code == .serverNotAuthenticated)
    }

    @Test(
        "X6 a server nonce that does not continue ours is refused",
        arguments: [
            "r=other,s=QSXC,i=4096", "r=rOprNGfwEbeRWgbNEkqO,s=QSXC,i=4096", "r=,s=QSXC,i=4096",
            "r=ROPRNGFWEBERWGBNEKQOx,s=QSXC,i=4096", "r=rOprNGfwEbeRWgbNEkqO\u{7},s=QSXC,i=4096",
        ])
    func nonce(serverFirst: String) throws {
        #expect(try refusal(of: serverFirst) == .nonceMismatch)
    }

    @Test(
        "X6 an iteration count outside the safe range is refused",
        arguments: [
            ("1", ErrorCode<SASLError>.tooFewIterations), ("4095", .tooFewIterations),
            ("1000001", .tooManyIterations),
            ("99999999999999999999999999", .tooManyIterations), ("0", .malformedMessage),
            ("04096", .malformedMessage),
            ("-4096", .malformedMessage), ("+4096", .malformedMessage), ("", .malformedMessage),
            ("4096 ", .malformedMessage),
            ("٤٠٩٦", .malformedMessage),
        ])
    func iterations(text: String, code: ErrorCode<SASLError>) throws {
        #expect(try refusal(of: "r=rOprNGfwEbeRWgbNEkqOx,s=QSXC,i=\(text)") == code)
    }

    @Test(
        "X6 a million iterations are done, or ten times as many as before, ten million at most",
        arguments: [
            (0, 1_000_000), (4096, 1_000_000), (100_000, 1_000_000), (150_000, 1_500_000),
            (5_000_000, 10_000_000), (Int.max, 10_000_000),
        ])
    func mostIterations(before: Int, most: Int) throws {
        var client = try makeClient()
        client.leastIterations = min(before, most)
        func isDerived(_ count: Int) -> Bool {
            client.derivation(for: Array("r=rOprNGfwEbeRWgbNEkqOx,s=QSXC,i=\(count)".utf8)) != nil
        }
        #expect(isDerived(most) && !isDerived(most + 1))
    }

    @Test("X6 the refusal of an iteration count says the numbers")
    func iterationsMessage() throws {
        var client = try makeClient()
        let error = saslError { try client.received(Array("r=rOprNGfwEbeRWgbNEkqOx,s=QSXC,i=1000".utf8)) }
        #expect(error?.description.contains("1000") == true)
        #expect(error?.description.contains("4096") == true)
    }

    @Test(
        "X6 a server-first message that breaks the grammar is refused",
        arguments: [
            "", "r", "r=", "hello", "s=QSXC,i=4096", "r=rOprNGfwEbeRWgbNEkqOx,i=4096,s=QSXC",
            "r=rOprNGfwEbeRWgbNEkqOx,s=QSXC", "r=rOprNGfwEbeRWgbNEkqOx,s=,i=4096",
            "r=rOprNGfwEbeRWgbNEkqOx,s=Q,i=4096",
            "r=rOprNGfwEbeRWgbNEkqOx,s=QS C,i=4096", "r=rOprNGfwEbeRWgbNEkqOx,,s=QSXC,i=4096",
            "x=1,r=rOprNGfwEbeRWgbNEkqOx,s=QSXC,i=4096", "v=\(good.signature)", ",\u{301}r=a",
        ])
    func malformed(serverFirst: String) throws {
        #expect(try refusal(of: serverFirst) == .malformedMessage)
    }

    @Test("X6 bytes that are not UTF-8, and messages without end, are refused")
    func hostileBytes() throws {
        var client = try makeClient()
        #expect(saslError { try client.received([0x72, 0x3D, 0xFF]) }?.code == .malformedMessage)
        var other = try makeClient()
        let endless = Array((Self.good.serverFirst + ",x=" + String(repeating: "x", count: 20_000)).utf8)
        #expect(saslError { try other.received(endless) }?.code == .malformedMessage)
    }

    @Test("X6 the mandatory extension m= is refused wherever it stands; optional ones are ignored")
    func extensions() throws {
        #expect(try refusal(of: "m=x," + Self.good.serverFirst) == .unsupportedExtension)
        #expect(try refusal(of: Self.good.serverFirst + ",m=x") == .unsupportedExtension)
        #expect(try refusal(of: Self.good.serverFirst + ",x=y") == nil)
    }

    @Test(
        "X6 a server error is reported by its code",
        arguments: [
            ("invalid-proof", ErrorCode<SASLError>.notAuthorized), ("unknown-user", .notAuthorized),
            ("channel-bindings-dont-match", .channelBindingFailed), ("other-error", .refused),
            ("something new", .refused),
        ])
    func serverError(value: String, code: ErrorCode<SASLError>) throws {
        #expect(try refusal(of: "e=\(value)") == code)
        var client = try makeClient()
        _ = try client.received(Array(Self.good.serverFirst.utf8))
        let error = saslError { try client.finish(Array("e=\(value)".utf8)) }
        #expect(error?.code == code)
        #expect(error?.words?.description == value)
    }

    @Test("X6 a challenge after the end is refused")
    func challengeAfterEnd() throws {
        var client = try makeClient()
        _ = try client.received(Array(Self.good.serverFirst.utf8))
        try client.finish(Array("v=\(Self.good.signature)".utf8))
        #expect(
            saslError { try client.received(Array(Self.good.serverFirst.utf8)) }?.code == .malformedMessage)
    }

    @Test("X6 comma and equals sign in a user name are escaped")
    func escaping() throws {
        let client = try makeClient(user: "a,b=c=2C")
        #expect(String(decoding: client.initialResponse, as: UTF8.self).hasPrefix("n,,n=a=2Cb=3Dc=3D2C,r="))
    }

    @Test("X6 each login has its own nonce")
    func nonces() throws {
        let first = try SCRAMClient(SCRAMChoice(.sha256), user: "user", password: "pencil")
        let second = try SCRAMClient(SCRAMChoice(.sha256), user: "user", password: "pencil")
        #expect(first.initialResponse != second.initialResponse)
    }

    @Test("X6 kept keys replace the derivation, and only for the same salt and count")
    func cachedKeys() throws {
        var first = try makeClient()
        _ = try first.received(Array(Self.good.serverFirst.utf8))
        let keys = try #require(first.keys)
        // With the wrong password, so that only the kept keys can give the right proof.
        var second = try SCRAMClient(
            SCRAMChoice(.sha256), user: "user", password: "wrong", cachedKeys: keys,
            nonce: Self.good.clientNonce)
        let final = try second.received(Array(Self.good.serverFirst.utf8))
        #expect(String(decoding: final, as: UTF8.self) == Self.good.clientFinal)
        var third = try SCRAMClient(
            SCRAMChoice(.sha256), user: "user", password: "pencil", cachedKeys: keys,
            nonce: Self.good.clientNonce)
        let other = Self.good.serverFirst.replacing("i=4096", with: "i=5000")
        _ = try third.received(Array(other.utf8))
        #expect(third.keys?.iterations == 5000)
    }

    @Test(
        "A2 keys that were derived elsewhere are used, and nothing is derived for a challenge that is refused"
    )
    func derivedElsewhere() throws {
        var client = try makeClient()
        let challenge = Array(Self.good.serverFirst.utf8)
        let derivation = try #require(client.derivation(for: challenge))
        #expect(derivation.iterations == 4096)
        client.keys = derivation.run()
        #expect(client.derivation(for: challenge) == nil)
        #expect(try String(decoding: client.received(challenge), as: UTF8.self) == Self.good.clientFinal)
        #expect(client.derivation(for: challenge) == nil, "it is answered")
        let other = try makeClient()
        for bad in ["i=1", "i=2000000000", "x"] {
            let text = Self.good.serverFirst.replacing("i=4096", with: bad)
            #expect(other.derivation(for: Array(text.utf8)) == nil)
        }
        #expect(other.derivation(for: Array("r=another,s=QSXCR+Q6sek8bf92,i=4096".utf8)) == nil)
    }

    @Test(
        "X6 a user name or password that SASL forbids is refused with its reason",
        arguments: ["", "\u{AD}", "a\u{0}b", "a\nb", "a\u{7F}", "\u{E000}", "\u{FFFE}", "\u{202E}x"])
    func forbidden(text: String) {
        let asPassword = saslError { _ = try makeClient(password: text) }
        #expect(asPassword?.code == .forbiddenCredentials)
        #expect(asPassword?.message.contains("password") == true)
        let asUser = saslError { _ = try makeClient(user: text) }
        #expect(asUser?.code == .forbiddenCredentials)
        #expect(asUser?.message.contains("user name") == true)
    }

    /// RFC 4013 section 3, as far as the documented subset goes.
    @Test("X6 SASLprep maps spaces and leaves out what maps to nothing")
    func preparation() throws {
        #expect(try SASLprep.prepared("I\u{AD}X", what: "password") == "IX")
        #expect(try SASLprep.prepared("USER", what: "password") == "USER")
        #expect(try SASLprep.prepared("a\u{A0}b\u{3000}c", what: "password") == "a b c")
        #expect(try SASLprep.prepared("pässwörd", what: "password") == "pässwörd")
    }
}

/// The `SASLError` that `body` throws; nil when it throws none.
func saslError(_ body: () throws -> Void) -> SASLError? {
    do {
        try body()
        return nil
    } catch {
        return error as? SASLError
    }
}

/// As above, for calls that give something.
func saslError<Ignored>(_ body: () throws -> Ignored) -> SASLError? { saslError { _ = try body() } }

extension SCRAMChoice {
    /// Without channel binding.
    init(_ hash: Crypto.Hash) {
        self.init(mechanism: SCRAMMechanism(hash))
    }
}
