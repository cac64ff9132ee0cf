import Foundation
import Testing
import XMPPAccount
import XMPPTestKit

@Suite struct TLSTests {
    private let folder: TemporaryFolder
    private let certificates: TestCertificates

    init() throws {
        folder = try TemporaryFolder()
        certificates = try TestCertificates(in: folder.path)
    }

    /// Lets a client that verifies against `domain` do a handshake with a server, over a loopback connection.
    ///
    /// Then "hello" goes there and comes back reversed, and `check` looks at the client's connection.
    private func connect(
        flaw: TestCertificates.Flaw = .none, for names: [String] = ["example.org"],
        domain: String = "example.org",
        trust: TLSContext.Trust? = nil, versions: ClosedRange<TLSVersion> = .tls12 ... .tls13,
        commonName: String? = nil, offersProtocol: Bool = false,
        then check: (Connection) throws -> Void = { _ in }
    ) throws {
        let files = try certificates.makeServerCertificate(for: names, flaw: flaw, commonName: commonName)
        let context = try TLSContext.server(
            certificateFile: files.certificateFile, keyFile: files.keyFile, versions: versions)
        let server = try LoopbackServer { connection in
            try connection.acceptTLS(context, deadline: .after(.seconds(20)))
            let text = try connection.readExactly(5)
            connection.write(text.reversed())
            try connection.flush(until: .after(.seconds(20)))
            return connection.tls?.channelBindings[.tlsExporter]
        }
        defer { _ = try? server.finish() }
        let client = try Connection.connect(
            host: "127.0.0.1", port: server.port, deadline: .after(.seconds(20)))
        let clientContext = try TLSContext.client(trust: trust ?? .file(certificates.authorityFile))
        try client.startTLS(
            clientContext, domain: domain, offersProtocol: offersProtocol, deadline: .after(.seconds(20)))
        client.write(Array("hello".utf8))
        try client.flush(until: .after(.seconds(20)))
        #expect(try client.readExactly(5) == Array("olleh".utf8))
        try check(client)
        let binding = try server.finish()
        #expect(client.tls?.channelBindings[.tlsExporter] == binding)
        #expect(binding?.count == (client.tls?.protocolVersion == "TLSv1.3" ? 32 : nil))
    }

    /// Checks that the error's sentence names domain and host.
    private func expectNames(_ error: TransportError?, _ more: String...) {
        for part in ["example.org", "127.0.0.1"] + more {
            #expect(error?.message.contains(part) == true, "\(error as Any) does not say \(part)")
        }
    }

    // MARK: - Accepted

    @Test(
        "X5 a certificate for the JID's domain is accepted whatever host was dialed; both ends derive one binding",
        arguments: [TLSVersion.tls12, .tls13])
    func accepted(version: TLSVersion) throws {
        try connect(versions: version...version) { client in
            #expect(client.tls?.protocolVersion == (version == .tls13 ? "TLSv1.3" : "TLSv1.2"))
            #expect(client.tls?.cipherSuite.isEmpty == false)
            #expect(client.tls?.negotiatedProtocol == nil)
        }
    }

    @Test("X5 two sessions have different channel bindings")
    func bindingsDiffer() throws {
        var bindings: Set<[UInt8]> = []
        for _ in 0..<2 { try connect { bindings.insert($0.tls?.channelBindings[.tlsExporter] ?? []) } }
        #expect(bindings.count == 2)
    }

    @Test("X5 direct TLS agrees on xmpp-client by ALPN")
    func alpn() throws {
        try connect(offersProtocol: true) { #expect($0.tls?.negotiatedProtocol == "xmpp-client") }
    }

    @Test("X5 a certificate may name the domain second, by a wildcard, as an IP address or in Punycode")
    func names() throws {
        try connect(for: ["a.example.org", "example.org"])
        try connect(for: ["*.example.org"], domain: "chat.example.org")
        try connect(for: ["127.0.0.1"], domain: "127.0.0.1")
        try connect(for: ["::1"], domain: "[::1]")
        try connect(for: ["xn--mnchen-3ya.example"], domain: "münchen.example")
        try connect(domain: "example.org.")
        try connect(domain: "EXAMPLE.org")
    }

    @Test("X5 the trust file may hold the server's self-signed certificate itself")
    func trustedSelfSigned() throws {
        let files = try certificates.makeServerCertificate(for: ["example.org"], flaw: .selfSigned)
        let context = try TLSContext.server(certificateFile: files.certificateFile, keyFile: files.keyFile)
        let (client, server) = try makeConnectedPair()
        try client.beginTLS(.client(trust: .file(files.certificateFile)), domain: "example.org")
        try server.beginAcceptingTLS(context)
        try handshake(client: client, server: server)
    }

    // MARK: - Refused

    @Test("X5 an expired certificate is refused and the sentence says since when")
    func expired() throws {
        let error = transportError { try connect(flaw: .expired) }
        #expect(error?.code == .certificateExpired)
        expectNames(error, "expired on 2", "UTC", "renew")
    }

    @Test("X5 a certificate that is not valid yet is refused and the sentence says from when")
    func notYetValid() throws {
        let error = transportError { try connect(flaw: .notYetValid) }
        #expect(error?.code == .certificateNotYetValid)
        expectNames(error, "from 2", "clock")
    }

    @Test("X5 a certificate for another name is refused and the sentence says for which")
    func wrongName() throws {
        let error = transportError { try connect(flaw: .wrongName) }
        #expect(error?.code == .certificateNameMismatch)
        expectNames(error, "wrong.invalid")
    }

    @Test(
        "X5 a name that only looks like the domain does not match",
        arguments: [
            "*.org", "exam*.org", "*", "www.example.org", "example.org.evil.invalid", "*.example.org",
            "127.0.0.1",
            "xample.org",
        ])
    func similarName(name: String) throws {
        let error = transportError { try connect(for: [name]) }
        #expect(error?.code == .certificateNameMismatch)
    }

    @Test("X5 a partial wildcard and the subject's common name do not count")
    func weakNames() throws {
        let partial = transportError { try connect(for: ["ch*.example.org"], domain: "chat.example.org") }
        #expect(partial?.code == .certificateNameMismatch)
        let onlyCommonName = transportError { try connect(for: [], commonName: "example.org") }
        #expect(onlyCommonName?.code == .certificateNameMismatch)
        // The certificate is for the dialed address, not for the account's domain.
        let dialed = transportError { try connect(for: ["127.0.0.1", "localhost"]) }
        #expect(dialed?.code == .certificateNameMismatch)
    }

    @Test("X5 a certificate of an unknown authority is refused")
    func untrustedAuthority() throws {
        let error = transportError { try connect(flaw: .untrustedAuthority) }
        #expect(error?.code == .certificateUntrusted)
        expectNames(error, "trust file")
    }

    @Test("X5 a test authority is not in the system's store")
    func systemStore() throws {
        let error = transportError { try connect(trust: .system) }
        #expect(error?.code == .certificateUntrusted)
    }

    @Test("X5 a self-signed certificate is refused")
    func selfSigned() throws {
        let error = transportError { try connect(flaw: .selfSigned) }
        #expect(error?.code == .certificateSelfSigned)
        expectNames(error, "trust file")
    }

    @Test("X5 a server that speaks at most TLS 1.1 is refused", arguments: [TLSVersion.tls10, .tls11])
    func tooOld(version: TLSVersion) throws {
        let error = transportError { try connect(versions: version...version) }
        #expect(error?.code == .tlsProtocolTooOld)
        expectNames(error, "TLS 1.2")
    }

    @Test("X5 a refusing client tells the server why with an alert")
    func alert() throws {
        let files = try certificates.makeServerCertificate(for: ["example.org"], flaw: .expired)
        let context = try TLSContext.server(certificateFile: files.certificateFile, keyFile: files.keyFile)
        let (client, server) = try makeConnectedPair()
        try client.beginTLS(.client(trust: .file(certificates.authorityFile)), domain: "example.org")
        try server.beginAcceptingTLS(context)
        #expect(transportError { try handshake(client: client, server: server) }?.code == .certificateExpired)
        let error = transportError { for _ in 0..<5 { _ = try server.continueHandshake() } }
        #expect(error == nil || error?.cause?.contains("alert certificate expired") == true)
        var bytes: [UInt8] = []
        let late = error ?? transportError { _ = try server.read(into: &bytes) }
        #expect(late?.cause?.contains("alert certificate expired") == true)
    }

    // MARK: - Files

    @Test("X5 trust, certificate and key files that cannot be used are named in the error")
    func files() throws {
        let missing = folder.path + "/missing.pem"
        let empty = folder.path + "/empty.pem"
        try Data().write(to: URL(fileURLWithPath: empty))
        let files = try certificates.makeServerCertificate(for: ["example.org"])
        let other = try certificates.makeServerCertificate(for: ["other.example"])
        for path in [missing, empty, folder.path, files.keyFile] {
            let trust = transportError { _ = try TLSContext.client(trust: .file(path)) }
            #expect(trust?.code == .invalidCredentialFile)
            #expect(trust?.message.contains(path) == true)
            let certificate = transportError {
                _ = try TLSContext.server(certificateFile: path, keyFile: files.keyFile)
            }
            #expect(certificate?.code == .invalidCredentialFile)
            #expect(certificate?.message.contains(path) == true)
        }
        for path in [missing, empty, files.certificateFile, other.keyFile] {
            let key = transportError {
                _ = try TLSContext.server(certificateFile: files.certificateFile, keyFile: path)
            }
            #expect(key?.code == .invalidCredentialFile)
            #expect(key?.message.contains(path) == true)
        }
    }

    @Test(
        "X5 a domain that no certificate can name is refused before a byte is sent",
        arguments: ["", "a\u{0}b"])
    func impossibleDomain(domain: String) throws {
        let (client, server) = try makeConnectedPair()
        let context = try TLSContext.client(trust: .file(certificates.authorityFile))
        let error = transportError { try client.beginTLS(context, domain: domain) }
        #expect(error?.code == .tlsFailed)
        var bytes: [UInt8] = []
        #expect(try server.read(into: &bytes) == .wouldBlock)
    }
}
