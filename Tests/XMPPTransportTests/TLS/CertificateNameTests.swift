import TestSupport
import TestThreads
import Testing
import XMPPTestKit
import XMPPTransport

/// The names in a certificate that are for an account's domain, and those that are not (RFC 6120 section 13.7.1.2, RFC 9525).
@Suite(.ownThread) struct CertificateNameTests {
    private let folder: TemporaryFolder
    private let certificates: TestCertificates

    init() throws {
        folder = try TemporaryFolder()
        certificates = try TestCertificates(in: folder.path)
    }

    private static func srv(_ name: String) -> String { "otherName:1.3.6.1.5.5.7.8.7;IA5:\(name)" }
    private static func xmpp(_ name: String) -> String { "otherName:1.3.6.1.5.5.7.8.5;UTF8:\(name)" }

    /// - Returns: The error of a client that wants that domain.
    private func refusal(
        _ names: [String], of domain: String = "example.org", permitting permitted: String? = nil
    ) throws -> TransportError? {
        let (files, authority) = try certificates.makeServerCertificate(
            alternatives: names, permitting: permitted)
        let context = try TLSContext.server(certificateFile: files.certificateFile, keyFile: files.keyFile)
        let (client, server) = try makeConnectedPair()
        try client.startClientHandshake(.client(trust: .file(authority)), domain: domain)
        try server.startServerHandshake(context)
        return transportError { try handshake(client: client, server: server) }
    }

    @Test(
        "X36 a certificate names the domain as DNS-ID, SRV-ID, XmppAddr, in either form of an international name",
        arguments: [
            ("example.org", "DNS:example.org"), ("example.org", "DNS:EXAMPLE.org"),
            ("chat.example.org", "DNS:*.example.org"), ("münchen.example", "DNS:xn--mnchen-3ya.example"),
            ("example.org", srv("_xmpp-client.example.org")),
            ("example.org", srv("_XMPP-Client.Example.ORG")),
            ("chat.example.org", srv("_xmpp-client.*.example.org")),
            ("münchen.example", srv("_xmpp-client.xn--mnchen-3ya.example")),
            ("example.org", xmpp("example.org")), ("example.org.", xmpp("Example.org")),
            ("münchen.example", xmpp("xn--mnchen-3ya.example")),
            ("127.0.0.1", "IP:127.0.0.1"), ("[::1]", "IP:::1"),
        ])
    func accepted(domain: String, name: String) throws {
        #expect(try refusal([name], of: domain) == nil)
        #expect(try refusal(["DNS:wrong.invalid", name], of: domain) == nil, "whatever else is there")
    }

    @Test(
        "X36 no other name counts: another service, an account, a wildcard in another place, another domain",
        arguments: [
            ("example.org", srv("_xmpp-server.example.org")), ("example.org", srv("_imaps.example.org")),
            ("example.org", srv("example.org")), ("example.org", srv("_xmpp-client.www.example.org")),
            ("example.org", srv("_xmpp-client.*.example.org")),
            ("chat.example.org", srv("_xmpp-client.ch*.example.org")),
            ("a.chat.example.org", srv("_xmpp-client.*.example.org")),
            ("example.org", srv("_xmpp-client.*.org")),
            ("example.org", srv("_xmpp-client.*")), ("example.org", srv("*.example.org")),
            ("example.org", xmpp("juliet@example.org")), ("example.org", xmpp("example.org/server")),
            ("chat.example.org", xmpp("*.example.org")), ("example.org", xmpp("example.com")),
            ("example.org", "URI:xmpp:example.org"), ("example.org", "email:example.org"),
            ("example.org", "otherName:1.3.6.1.5.5.7.8.7;UTF8:_xmpp-client.example.org"),
            ("example.org", "otherName:1.3.6.1.5.5.7.8.5;IA5:example.org"),
            ("127.0.0.1", "DNS:127.0.0.1"), ("127.0.0.1", srv("_xmpp-client.127.0.0.1")),
            ("127.0.0.1", xmpp("127.0.0.1")), ("example.org", "DNS:example.org."),
        ])
    func refused(domain: String, name: String) throws {
        #expect(try refusal([name], of: domain)?.code == .certificateNameMismatch)
    }

    @Test("X36 an authority that may issue for some domains only is not believed in names of other kinds")
    func constrained() throws {
        #expect(try refusal(["DNS:example.com"], of: "example.com", permitting: "example.com") == nil)
        for name in [Self.srv("_xmpp-client.example.org"), Self.xmpp("example.org")] {
            let error = try refusal(["DNS:example.com", name], permitting: "example.com")
            #expect(error?.code == .certificateNameMismatch)
        }
    }

    @Test("X36 the sentence says for which names of all kinds the certificate is")
    func words() throws {
        let names = ["DNS:wrong.invalid", Self.srv("_xmpp-server.example.org"), Self.xmpp("example.net")]
        let error = try refusal(names)
        #expect(error?.message.contains("for wrong.invalid, _xmpp-server.example.org, example.net;") == true)
    }
}
