import Foundation
import TestSupport
import TestThreads
import Testing
import XMPPCore
import XMPPTransport
import XMPPTestKit

@Suite(.ownThread) struct TLSTests {
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
        try client.startClientHandshake(.client(trust: .file(files.certificateFile)), domain: "example.org")
        try server.startServerHandshake(context)
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
        expectNames(error, "trust file (configuration.trust, --ca of pushwake, or SSL_CERT_FILE)")
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
        expectNames(error, "trust file (configuration.trust, --ca of pushwake, or SSL_CERT_FILE)")
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
        try client.startClientHandshake(
            .client(trust: .file(certificates.authorityFile)), domain: "example.org")
        try server.startServerHandshake(context)
        #expect(transportError { try handshake(client: client, server: server) }?.code == .certificateExpired)
        let error = transportError { for _ in 0..<5 { _ = try server.continueHandshake() } }
        #expect(error == nil || error?.words?.description.contains("alert certificate expired") == true)
        var bytes: [UInt8] = []
        let late = error ?? transportError { _ = try server.read(into: &bytes) }
        #expect(late?.words?.description.contains("alert certificate expired") == true)
    }

    // MARK: - Pinned keys and resumed sessions

    /// Two ends in memory, with the handshake done.
    private func pair(
        _ client: TLSContext, _ server: TLSContext, domain: String = "example.org"
    ) throws -> (client: Connection, server: Connection) {
        let ends = try makeConnectedPair()
        try ends.client.startClientHandshake(client, domain: domain)
        try ends.server.startServerHandshake(server)
        try handshake(client: ends.client, server: ends.server)
        // What resumes the session comes behind the handshake.
        var none: [UInt8] = []
        _ = try ends.client.read(into: &none)
        return ends
    }

    private func serverContext(
        for names: [String] = ["example.org"], versions: ClosedRange<TLSVersion> = .tls12 ... .tls13
    ) throws -> TLSContext {
        let files = try certificates.makeServerCertificate(for: names)
        return try .server(
            certificateFile: files.certificateFile, keyFile: files.keyFile, versions: versions)
    }

    @Test(
        "X5 a pinned key is demanded beside a good certificate; another one is refused with an error of its own"
    )
    func pinned() throws {
        let authority = TLSContext.Trust.file(certificates.authorityFile)
        let first = try serverContext()
        let free = try pair(.client(trust: authority), first)
        let key = try #require(free.client.tls?.publicKeyHash)
        #expect(key.count == 32)
        let pinning = try TLSContext.client(trust: authority, pins: [key, [UInt8](repeating: 0, count: 32)])
        _ = try pair(pinning, first)
        // Resumed, the session still has the key that it started with.
        let again = try pair(pinning, first)
        #expect(again.client.tls?.isResumed == true)

        // Another key for the same domain, from the same authority.
        let second = try serverContext()
        let error = transportError {
            _ = try pair(TLSContext.client(trust: authority, pins: [key]), second)
        }
        #expect(error?.code == .certificateChanged)
        #expect(error?.message.contains("example.org") == true)
        // A pin does not make a bad certificate good.
        let distrusting = transportError { _ = try pair(.client(trust: .system, pins: [key]), first) }
        #expect(distrusting?.code == .certificateUntrusted)
    }

    @Test(
        "X5 a second connection resumes the TLS session, with a channel binding of its own",
        arguments: [TLSVersion.tls12, .tls13])
    func resumption(version: TLSVersion) throws {
        let server = try serverContext(versions: version...version)
        let client = try TLSContext.client(trust: .file(certificates.authorityFile))
        let first = try pair(client, server)
        #expect(first.client.tls?.isResumed == false)
        let second = try pair(client, server)
        #expect(second.client.tls?.isResumed == true)
        #expect(second.server.tls?.isResumed == true)
        let bindings = try [first, second].map { ends in
            let binding = try #require(ends.client.tls?.channelBindings)
            #expect(ends.server.tls?.channelBindings == binding, "both ends have the same")
            return binding
        }
        let own: ChannelBindingType = version == .tls13 ? .tlsExporter : .tlsUnique
        #expect(bindings[0].types == [own, .tlsServerEndPoint])
        #expect(bindings[1].types == bindings[0].types)
        #expect(bindings[0][own] != bindings[1][own])
        #expect(bindings[0][.tlsServerEndPoint] == bindings[1][.tlsServerEndPoint])
    }

    @Test("X5 a TLS session is resumed only with the same domain and the same trust")
    func noForeignResumption() throws {
        let server = try serverContext(for: ["example.org", "example.net"])
        let authority = TLSContext.Trust.file(certificates.authorityFile)
        let client = try TLSContext.client(trust: authority)
        _ = try pair(client, server)
        #expect(try pair(client, server, domain: "example.net").client.tls?.isResumed == false)
        #expect(try pair(.client(trust: authority), server).client.tls?.isResumed == false)
        // With the same settings, two accounts resume each its own session.
        let (one, two) = (client.withOwnSessions(), client.withOwnSessions())
        #expect(try pair(one, server).client.tls?.isResumed == false)
        #expect(try pair(two, server).client.tls?.isResumed == false)
        #expect(try pair(one, server).client.tls?.isResumed == true)
        #expect(try pair(two, server).client.tls?.isResumed == true)
        #expect(try pair(client, server).client.tls?.isResumed == true)
        let other = transportError { _ = try pair(client, serverContext(for: ["example.com"])) }
        #expect(
            other?.code == .certificateNameMismatch, "a server that does not resume shows its certificate")
    }

    @Test("X5 tls-server-end-point is the hash of the certificate that the server shows")
    func endPoint() throws {
        let files = try certificates.makeServerCertificate(for: ["example.org"])
        let server = try TLSContext.server(certificateFile: files.certificateFile, keyFile: files.keyFile)
        let ends = try pair(.client(trust: .file(certificates.authorityFile)), server)
        let text = try String(contentsOfFile: files.certificateFile, encoding: .utf8)
        let body = text.split(separator: "\n").filter { !$0.hasPrefix("-----") }.joined()
        let encoded = try #require(Crypto.bytes(base64: ForeignText(body)))
        #expect(ends.client.tls?.channelBindings[.tlsServerEndPoint] == Crypto.digest(.sha256, encoded))
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
        let error = transportError { try client.startClientHandshake(context, domain: domain) }
        #expect(error?.code == .tlsFailed)
        var bytes: [UInt8] = []
        #expect(try server.read(into: &bytes) == .wouldBlock)
    }
}
