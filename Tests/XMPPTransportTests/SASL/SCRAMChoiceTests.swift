import TestThreads
import Testing
import XMPPTestKit
import XMPPTransport

@Suite(.ownThread) struct SCRAMChoiceTests {
    static let exporter = [UInt8](repeating: 7, count: 32)

    private func best(_ offered: [String], types: [String] = [], exporter: [UInt8]? = nil) throws
        -> SCRAMChoice
    {
        let choice = try LoginChoice.best(
            LoginOffer(mechanisms: offered, bindingTypes: types), LoginPolicy(),
            bindings: ChannelBindings(exporter.map { [.tlsExporter: $0] } ?? [:]))
        guard case .scram(let scram) = choice else { throw SASLError(.noCommonMechanism, "not SCRAM") }
        return scram
    }

    @Test("X6 the strongest hash is chosen, in whatever order they are offered")
    func strongest() throws {
        #expect(try best(["SCRAM-SHA-1", "PLAIN"]).mechanism.name == "SCRAM-SHA-1")
        #expect(try best(["SCRAM-SHA-1", "SCRAM-SHA-256"]).mechanism.name == "SCRAM-SHA-256")
        #expect(
            try best(["SCRAM-SHA-512", "SCRAM-SHA-1", "SCRAM-SHA-256"]).mechanism.name == "SCRAM-SHA-512")
    }

    @Test(
        "X6 PLAIN and other mechanisms are never chosen",
        arguments: [
            [], ["PLAIN"], ["PLAIN", "DIGEST-MD5", "EXTERNAL", "ANONYMOUS", "X-OAUTH2"], ["scram-sha-1"],
        ])
    func neverPlain(offered: [String]) {
        let error = saslError { try best(offered) }
        #expect(error?.code == .noCommonMechanism)
        for name in offered { #expect(error?.words?.description.contains(name) == true) }
    }

    @Test("X6 channel binding is used when the server announces tls-exporter and the session has it")
    func plus() throws {
        let offered = ["SCRAM-SHA-1", "SCRAM-SHA-1-PLUS", "SCRAM-SHA-512"]
        let choice = try best(
            offered, types: ["tls-server-end-point", "tls-exporter"], exporter: Self.exporter)
        #expect(choice.mechanism.name == "SCRAM-SHA-1-PLUS")
        #expect(choice.binding == .used(.tlsExporter, Self.exporter))
        #expect(try best(offered, types: ["tls-exporter"]).mechanism.name == "SCRAM-SHA-512")
    }

    @Test("X22 y is said whenever the session could be bound and no known -PLUS mechanism is offered")
    func notOffered() throws {
        let plain = ["SCRAM-SHA-256"]
        #expect(try best(plain, exporter: Self.exporter).binding == .notOffered)
        #expect(try best(plain).binding == .unsupported)
        #expect(try best(plain, types: ["tls-unique"], exporter: Self.exporter).binding == .notOffered)
        let foreign = ["SCRAM-SHA-256", "SCRAM-SHA3-512-PLUS"]
        for types in [[], ["tls-unique"], ["tls-exporter"]] {
            #expect(try best(foreign, types: types, exporter: Self.exporter).binding == .notOffered)
        }
    }

    @Test("X22 with -PLUS offered and no usable list of types the default type is used (RFC 9266)")
    func defaultType() throws {
        let both = ["SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"]
        for types in [[], ["tls-unique"], ["tls-bogus", ""]] {
            let choice = try best(both, types: types, exporter: Self.exporter)
            #expect(choice.mechanism.isPlus && choice.binding == .used(.tlsExporter, Self.exporter))
        }
        let older = ChannelBindings([.tlsUnique: [1], .tlsServerEndPoint: [2]])
        #expect(older.defaultType == .tlsUnique)
        #expect(ChannelBindings([.tlsServerEndPoint: [2]]).defaultType == .tlsServerEndPoint)
        #expect(ChannelBindings().defaultType == nil)
    }

    @Test("X6 a binding type without a mechanism for it looks like a downgrade and is refused")
    func contradiction() {
        let error = saslError {
            try best(["SCRAM-SHA-256"], types: ["tls-exporter"], exporter: Self.exporter)
        }
        #expect(error?.code == .downgradeSuspected)
    }

    @Test("X6 a server with only -PLUS mechanisms and a session without bindings leaves no mechanism")
    func onlyPlus() {
        let error = saslError { try best(["SCRAM-SHA-256-PLUS"]) }
        #expect(error?.code == .noCommonMechanism)
    }

    /// What somebody between the two may make of the offer; the last two remove nothing that the client knows.
    static let alterations: [(names: [String], types: [String])] = [
        (["SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"], []),
        (["SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"], ["tls-unique"]),
        (["SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"], ["tls-bogus"]),
        (["SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"], ["tls-server-end-point"]),
        (["SCRAM-SHA-256"], []), (["SCRAM-SHA-256"], ["tls-unique"]), (["SCRAM-SHA-256"], ["tls-exporter"]),
        (["SCRAM-SHA-256", "SCRAM-SHA3-512-PLUS"], []),
        (["SCRAM-SHA-256", "SCRAM-SHA3-512-PLUS"], ["tls-exporter"]),
    ]

    @Test(
        "X22 whatever is removed from the offer or replaced on the way, the first login fails at the server",
        arguments: alterations.indices)
    func alteredOffer(index: Int) throws {
        let (names, types) = Self.alterations[index]
        // Two sessions with two certificates: somebody sits between.
        let seen = ChannelBindings([.tlsExporter: [1], .tlsServerEndPoint: [2]])
        let own = ChannelBindings([.tlsExporter: [3], .tlsServerEndPoint: [4]])
        let hasPlus = names.contains("SCRAM-SHA-256-PLUS")
        #expect(try logIn(names, types, client: own, server: own) == hasPlus)
        #expect(try logIn(names, types, client: seen, server: own) == false)
    }

    /// - Returns: Whether the server, which offers -PLUS, lets the client in.
    private func logIn(
        _ names: [String], _ types: [String], client seen: ChannelBindings, server own: ChannelBindings
    ) throws -> Bool {
        let offer = LoginOffer(mechanisms: names, bindingTypes: types)
        let choice: LoginChoice
        do throws(SASLError) {
            choice = try LoginChoice.best(offer, LoginPolicy(), bindings: seen)
        } catch {
            #expect(error.code == .downgradeSuspected)
            return false
        }
        guard case .scram(let scram) = choice else { throw SASLError(.noCommonMechanism, "not SCRAM") }
        var client = try SCRAMClient(scram, user: "user", password: "pencil")
        let server = SCRAMServer(scram.mechanism, bindings: own, offersPlus: true)
        let error = try refusal(of: &client, by: server)
        if let error { #expect(error.code == .channelBindingFailed) }
        return error == nil
    }

    private func refusal(of client: inout SCRAMClient, by server: SCRAMServer) throws -> SASLError? {
        var server = server
        let verifier = try SCRAMVerifier(hash: server.mechanism.hash, password: "pencil")
        do throws(SASLError) {
            let first = try server.receivedFirst(client.initialResponse) { _ in verifier }
            let last = try client.received(first)
            _ = try server.receivedFinal(last)
            return nil
        } catch {
            return error
        }
    }
}
