import TestThreads
import Testing
@testable import XMPPTransport

/// Which mechanism is chosen, and which offers are refused.
@Suite(.ownThread) struct LoginChoiceTests {
    private static let all = ChannelBindings([.tlsExporter: [1], .tlsServerEndPoint: [2]])

    private func choose(
        _ mechanisms: [String], _ policy: LoginPolicy = .init(), types: [String] = [],
        bindings: ChannelBindings = .init()
    ) throws(SASLError) -> LoginChoice {
        try LoginChoice.best(
            LoginOffer(mechanisms: mechanisms, bindingTypes: types), policy, bindings: bindings)
    }

    @Test("X6 the best binding that both sides have is used: exporter before certificate")
    func bindings() throws {
        let plus = ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"]
        let mechanism = SCRAMMechanism(.sha256, isPlus: true)
        let both = try choose(plus, types: ["tls-server-end-point", "tls-exporter"], bindings: Self.all)
        #expect(both == .scram(.init(mechanism: mechanism, binding: .used(.tlsExporter, [1]))))
        let one = try choose(plus, types: ["tls-server-end-point"], bindings: Self.all)
        #expect(one == .scram(.init(mechanism: mechanism, binding: .used(.tlsServerEndPoint, [2]))))
    }

    @Test(
        "X6 PLAIN is chosen only when it is allowed, nothing better is offered and nothing better was before")
    func plain() throws {
        let error = saslError { try choose(["PLAIN"]) }
        #expect(error?.code == .noCommonMechanism)
        #expect(error?.message.contains("allowsPlain") == true)
        #expect(try choose(["PLAIN"], .init(allowsPlain: true)) == .plain)
        guard case .scram = try choose(["PLAIN", "SCRAM-SHA-1"], .init(allowsPlain: true)) else {
            Issue.record("PLAIN was chosen although SCRAM is there")
            return
        }
        let pinned = LoginPolicy(allowsPlain: true, pinned: SCRAMMechanism(.sha1))
        #expect(saslError { try choose(["PLAIN"], pinned) }?.code == .downgradeSuspected)
    }

    @Test("X6 a pinned mechanism refuses what is weaker in hash or binding and takes what is stronger")
    func pinning() throws {
        let pinned = LoginPolicy(pinned: SCRAMMechanism(.sha256, isPlus: true))
        let types = ["tls-exporter"]
        for weaker in [["SCRAM-SHA-256"], ["SCRAM-SHA-512"], ["SCRAM-SHA-1-PLUS", "SCRAM-SHA-1"], []] {
            #expect(saslError { try choose(weaker, pinned, bindings: Self.all) }?.code == .downgradeSuspected)
        }
        for equal in ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-512-PLUS"] {
            guard case .scram(let choice) = try choose([equal], pinned, types: types, bindings: Self.all)
            else {
                Issue.record("\(equal) was not chosen")
                continue
            }
            #expect(choice.mechanism.name == equal)
        }
        // The list of binding types is gone: the default type is used.
        let both = ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"]
        #expect(
            try choose(both, pinned, bindings: Self.all)
                == .scram(
                    .init(mechanism: SCRAMMechanism(.sha256, isPlus: true), binding: .used(.tlsExporter, [1]))
                ))
        #expect(
            saslError { try choose(both, pinned) }?.code == .downgradeSuspected, "a session without bindings")
    }

    @Test("X6 EXTERNAL and ANONYMOUS are used when asked for, and nothing takes their place")
    func others() throws {
        let offered = ["SCRAM-SHA-256", "PLAIN", "EXTERNAL", "ANONYMOUS"]
        #expect(try choose(offered, .init(credentials: .certificate)) == .external)
        #expect(try choose(offered, .init(credentials: .anonymous)) == .anonymous)
        for credentials in [LoginPolicy.Credentials.certificate, .anonymous] {
            let error = saslError { try choose(["SCRAM-SHA-256", "PLAIN"], .init(credentials: credentials)) }
            #expect(error?.code == .noCommonMechanism)
        }
        #expect(ExternalClient(identity: "a@b").initialResponse == Array("a@b".utf8))
        #expect(AnonymousClient().initialResponse.isEmpty)
        #expect(
            try PlainClient(user: "tim", password: "tanstaaftanstaaf").initialResponse
                == Array("\0tim\0tanstaaftanstaaf".utf8), "the example of RFC 4616 section 4")
        var plain = try PlainClient(user: "tim", password: "x")
        #expect(saslError { _ = try plain.received(challenge: [1]) }?.code == .malformedMessage)
    }

    @Test(
        "X6 the hash over what the server offers is that of the example in XEP-0474, and any change is noticed"
    )
    func signedOffer() throws {
        let offer = LoginOffer(
            mechanisms: ["SCRAM-SHA-1-PLUS", "SCRAM-SHA-1"],
            bindingTypes: ["tls-server-end-point", "tls-exporter"])
        let first =
            "r=12C4CD5C-E38E-4A98-8F6D-15C38F51CCC6a09117a6-ac50-4f2f-93f1-93799c2bddf6,"
            + "s=QSXCR+Q6sek8bf92,i=4096,h=G6k/rBLDqgOhRRaCuuatSDFkJ08="
        func answer(_ offer: LoginOffer?) throws(SASLError) {
            var client = try SCRAMClient(
                SCRAMChoice(mechanism: SCRAMMechanism(.sha1)), user: "user", password: "pencil",
                nonce: "12C4CD5C-E38E-4A98-8F6D-15C38F51CCC6")
            client.offer = offer
            _ = try client.received(first.utf8)
        }
        try answer(offer)
        try answer(nil)
        for change in [
            LoginOffer(mechanisms: ["SCRAM-SHA-1"], bindingTypes: offer.bindingTypes),
            LoginOffer(mechanisms: offer.mechanisms, bindingTypes: ["tls-exporter"]),
            LoginOffer(mechanisms: offer.mechanisms),
        ] {
            #expect(saslError { try answer(change) }?.code == .downgradeSuspected)
        }
    }

    @Test("X6 fewer iterations than before are refused, as many or more are not")
    func iterations() throws {
        func answer(least: Int) throws(SASLError) {
            var client = try SCRAMClient(
                SCRAMChoice(mechanism: SCRAMMechanism(.sha256)), user: "user", password: "pencil",
                nonce: "abc")
            client.leastIterations = least
            _ = try client.received("r=abcdef,s=QSXCR+Q6sek8bf92,i=5000".utf8)
        }
        try answer(least: 5000)
        try answer(least: 4096)
        let error = saslError { try answer(least: 5001) }
        #expect(error?.code == .tooFewIterations)
        #expect(error?.message.contains("5001") == true)
    }
}
