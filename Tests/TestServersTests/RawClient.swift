import FoundationEssentials
import TestSupport
import Testing
import TestServers
import XMPPTestKit

/// A client that is not ours: OpenSSL's own, which checks the certificate and passes on what the test writes.
struct RawClient {
    private let process: ChildProcess
    private let server: any TestServer
    private var soon: ContinuousClock.Instant { .now + .seconds(20) }

    init(_ server: any TestServer, authority: String, starttls: Bool = false) throws {
        self.server = server
        let port = starttls ? server.startTLSPort : server.directTLSPort
        let upgrade =
            starttls ? ["-starttls", "xmpp", "-xmpphost", server.domain] : ["-alpn", "xmpp-client"]
        let arguments = [
            "s_client", "-quiet", "-connect", "\(server.host):\(port)", "-servername", server.domain,
            "-verify_hostname", server.domain, "-verify_return_error", "-CAfile", authority,
        ]
        process = try ChildProcess("openssl", arguments + upgrade, input: .pipe, output: .pipe, errors: .null)
    }

    func write(_ text: String) throws { try process.write(text) }

    /// What the server says up to and with these words.
    func read(until words: String, deadline: ContinuousClock.Instant? = nil) throws -> String {
        try #require(process.output).readText(until: words, deadline: deadline ?? soon)
    }

    /// Opens a stream; what the server offers.
    func open() throws -> String {
        try write(
            "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' "
                + "to='\(server.domain)' from='romeo@\(server.domain)' version='1.0'>")
        return try read(until: "</stream:features>")
    }

    /// Authenticates with SASL PLAIN; the name of the server's answer.
    func logIn(_ user: String, _ password: String) throws -> String {
        _ = try open()
        let secret = Data("\0\(user)\0\(password)".utf8).base64EncodedString()
        try write("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>\(secret)</auth>")
        return String(try read(until: ">").dropFirst().prefix { $0.isLetter })
    }

    /// Binds a resource after the login.
    func bind(_ resource: String) throws {
        _ = try open()
        try write(
            "<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>"
                + "<resource>\(resource)</resource></bind></iq><presence/>")
        _ = try read(until: "/\(resource)</jid></bind></iq>")
    }
}

/// A folder with a certificate for the domain and the authority that signed it.
struct CertificateFolder {
    let folder: TemporaryFolder
    let domain = "servers.test"
    private let made: TestCertificates.ServerCertificate
    /// The authority's certificate, which clients trust.
    let authority: String

    init() throws {
        folder = try TemporaryFolder()
        let certificates = try TestCertificates(in: folder.path)
        authority = certificates.authorityFile
        made = try certificates.makeServerCertificate(for: [domain])
    }

    func prosody(_ name: String, options: ProsodyOptions = ProsodyOptions()) throws -> ProsodyServer {
        try ProsodyServer(
            folder: "\(folder.path)/\(name)", domain: domain, certificateFile: made.certificateFile,
            keyFile: made.keyFile, options: options)
    }

    func ejabberd(_ name: String, options: EjabberdOptions = EjabberdOptions()) throws -> EjabberdServer {
        try EjabberdServer(
            folder: "\(folder.path)/\(name)", domain: domain, certificateFile: made.certificateFile,
            keyFile: made.keyFile, options: options)
    }
}
