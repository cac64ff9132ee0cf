import Testing
import XMPPAccount

@Suite struct SCRAMChoiceTests {
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
        for name in offered { #expect(error?.cause?.contains(name) == true) }
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

    @Test("X6 y is said only when the server announces neither a -PLUS mechanism nor a binding type")
    func notOffered() throws {
        let plain = ["SCRAM-SHA-256"]
        #expect(try best(plain, exporter: Self.exporter).binding == .notOffered)
        #expect(try best(plain).binding == .unsupported)
        #expect(try best(plain, types: ["tls-unique"], exporter: Self.exporter).binding == .unsupported)
        let both = ["SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"]
        #expect(try best(both, exporter: Self.exporter).binding == .unsupported)
        #expect(try best(both, types: ["tls-unique"], exporter: Self.exporter).mechanism.isPlus == false)
    }

    @Test("X6 a binding type without a mechanism for it looks like a downgrade and is refused")
    func contradiction() {
        let error = saslError {
            try best(["SCRAM-SHA-256"], types: ["tls-exporter"], exporter: Self.exporter)
        }
        #expect(error?.code == .downgradeSuspected)
    }

    @Test("X6 a server with only -PLUS mechanisms and no usable type leaves no mechanism")
    func onlyPlus() {
        let error = saslError { try best(["SCRAM-SHA-256-PLUS"], exporter: Self.exporter) }
        #expect(error?.code == .noCommonMechanism)
    }
}
