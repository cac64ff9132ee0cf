import TestThreads
import Testing
import XMPPCore
import XMPPTestKit
import XMPPTransport

@Suite(.ownThread) struct SCRAMServerTests {
    static let exporter = [UInt8](repeating: 7, count: 32)
    static let bindings = ChannelBindings([.tlsExporter: exporter])

    /// Lets the client log in at a server that knows `user` with the password "pencil".
    private func logIn(
        _ client: inout SCRAMClient, _ server: inout SCRAMServer, user: String = "user",
        iterations: Int = 4096
    ) throws {
        let verifier = try SCRAMVerifier(
            hash: server.mechanism.hash, password: "pencil", iterations: iterations)
        let challenge = try server.receivedFirst(client.initialResponse) { $0 == user ? verifier : nil }
        let final = try client.received(challenge)
        try client.finish(try server.receivedFinal(final))
    }

    @Test("X6 client and server agree for every mechanism", arguments: SCRAMMechanism.byPreference)
    func roundTrip(mechanism: SCRAMMechanism) throws {
        let binding = mechanism.isPlus ? ChannelBinding.used(.tlsExporter, Self.exporter) : .unsupported
        var client = try SCRAMClient(
            SCRAMChoice(mechanism: mechanism, binding: binding), user: "user", password: "pencil")
        var server = SCRAMServer(mechanism, bindings: mechanism.isPlus ? Self.bindings : ChannelBindings())
        try logIn(&client, &server, iterations: 5000)
        #expect(server.user == "user")
        #expect(SCRAMMechanism(name: mechanism.name) == mechanism)
    }

    @Test(
        "X6 a user name with comma, equals sign and accents arrives as it was",
        arguments: ["a,b=c", "=2C", "é\u{301},"])
    func userNames(user: String) throws {
        var client = try SCRAMClient(SCRAMChoice(.sha256), user: user, password: "pencil")
        var server = SCRAMServer(SCRAMMechanism(.sha256))
        try logIn(&client, &server, user: user)
        #expect(server.user.map { Array($0.unicodeScalars) } == Array(user.unicodeScalars))
    }

    @Test("X6 a wrong password and an unknown user are refused by the server")
    func refusals() throws {
        var client = try SCRAMClient(SCRAMChoice(.sha1), user: "user", password: "pencils")
        var server = SCRAMServer(SCRAMMechanism(.sha1))
        #expect(saslError { try logIn(&client, &server) }?.code == .notAuthorized)
        var stranger = try SCRAMClient(SCRAMChoice(.sha1), user: "stranger", password: "pencil")
        var second = SCRAMServer(SCRAMMechanism(.sha1))
        #expect(saslError { try logIn(&stranger, &second) }?.code == .notAuthorized)
    }

    @Test("X6 channel binding to another TLS session is refused")
    func foreignBinding() throws {
        let plus = SCRAMMechanism(.sha256, isPlus: true)
        let choice = SCRAMChoice(
            mechanism: plus, binding: .used(.tlsExporter, [UInt8](repeating: 8, count: 32)))
        var client = try SCRAMClient(choice, user: "user", password: "pencil")
        var server = SCRAMServer(plus, bindings: Self.bindings)
        #expect(saslError { try logIn(&client, &server) }?.code == .channelBindingFailed)
    }

    @Test("X6 a client that believes the server cannot bind is refused by one that can")
    func strippedPlus() throws {
        let choice = SCRAMChoice(mechanism: SCRAMMechanism(.sha256), binding: .notOffered)
        var client = try SCRAMClient(choice, user: "user", password: "pencil")
        #expect(client.initialResponse.starts(with: "y,,".utf8))
        var honest = SCRAMServer(SCRAMMechanism(.sha256), bindings: Self.bindings, offersPlus: true)
        #expect(saslError { try logIn(&client, &honest) }?.code == .channelBindingFailed)
        var without = SCRAMServer(SCRAMMechanism(.sha256))
        var again = try SCRAMClient(choice, user: "user", password: "pencil")
        try logIn(&again, &without)
    }

    @Test(
        "X6 a client's first message that breaks the grammar is refused",
        arguments: [
            "", "n", "n,,", "n,,n=user", "n,,r=abc,n=user", "n,,n=us=er,r=abc", "n,,n=,r=abc",
            "n,,n=user,r=",
            "n,x,n=user,r=abc", "n=user,r=abc", "n,,n=user,r=a\u{7F}b",
        ])
    func malformedFirst(message: String) {
        var server = SCRAMServer(SCRAMMechanism(.sha256))
        #expect(
            saslError { try server.receivedFirst(Array(message.utf8)) { _ in nil } }?.code
                == .malformedMessage)
    }

    @Test("X6 a changed nonce or a missing proof in the client's last message is refused")
    func malformedFinal() throws {
        let verifier = try SCRAMVerifier(hash: .sha256, password: "pencil")
        for (final, code) in [
            (
                "c=biws,r=other,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
                ErrorCode<SASLError>.channelBindingFailed
            ),
            ("c=biws,r=abcdef", .malformedMessage), ("p=AAAA", .malformedMessage), ("", .malformedMessage),
        ] {
            var server = SCRAMServer(SCRAMMechanism(.sha256), nonce: "def")
            _ = try server.receivedFirst(Array("n,,n=user,r=abc".utf8)) { _ in verifier }
            #expect(saslError { try server.receivedFinal(Array(final.utf8)) }?.code == code)
            #expect(saslError { try server.receivedFinal(Array(final.utf8)) }?.code == .malformedMessage)
        }
    }
}
