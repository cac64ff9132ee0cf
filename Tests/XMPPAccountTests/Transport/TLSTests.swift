import Foundation
import Testing
import XMPPAccount
import XMPPTestKit

@Suite struct TLSTests {
    let folder: TemporaryFolder
    let certificates: TestCertificates

    init() throws {
        folder = try TemporaryFolder()
        certificates = try TestCertificates(in: folder.path)
    }

    /// Serves TLS with the given certificate to one client, which verifies against `domain`.
    private func handshake(
        flaw: TestCertificates.Flaw = .none, for names: [String] = ["example.org"],
        domain: String = "example.org",
        trust: TLSContext.Trust? = nil, versions: ClosedRange<TLSVersion> = .tls12 ... .tls13,
        then check: (Connection) throws -> Void = { _ in }
    ) throws {
        let files = try certificates.makeServerCertificate(for: names, flaw: flaw)
        let context = try TLSContext.server(
            certificateFile: files.certificateFile, keyFile: files.keyFile, versions: versions)
        let server = try LoopbackServer { connection in
            try connection.acceptTLS(context, deadline: .after(.seconds(20)))
            let text = try connection.readExactly(5)
            connection.write(text.reversed())
            try connection.flush(until: .after(.seconds(20)))
            return connection.tls?.tlsExporterBinding
        }
        defer { _ = try? server.finish() }
        let client = try Connection.connect(
            host: "127.0.0.1", port: server.port, deadline: .after(.seconds(20)))
        let trust = trust ?? .file(certificates.authorityFile)
        try client.startTLS(try .client(trust: trust), domain: domain, deadline: .after(.seconds(20)))
        client.write(Array("hello".utf8))
        try client.flush(until: .after(.seconds(20)))
        #expect(try client.readExactly(5) == Array("olleh".utf8))
        try check(client)
        let binding = try #require(try server.finish())
        #expect(binding.count == 32)
        #expect(client.tls?.tlsExporterBinding == binding)
    }

    @Test("X5 a certificate for the domain from a trusted authority is accepted")
    func good() throws {
        try handshake { #expect($0.tls?.protocolVersion == "TLSv1.3") }
    }

    @Test("X5 an expired certificate is refused, with its last day")
    func expired() throws {
        let error = transportError { try handshake(flaw: .expired) }
        #expect(error?.code == .certificateExpired)
    }
}
