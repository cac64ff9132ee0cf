import Platform
import Foundation
import TestSupport
import TestThreads
import Testing
@testable import XMPPTransport
import XMPPTestKit

/// Handshakes that do not come to their end.
@Suite(.ownThread) struct TLSInterruptionTests {
    private let folder: TemporaryFolder
    private let certificates: TestCertificates
    private let context: TLSContext

    init() throws {
        folder = try TemporaryFolder()
        certificates = try TestCertificates(in: folder.path)
        context = try .client(trust: .file(certificates.authorityFile))
    }

    /// Starts TLS as a client with a peer that `play`s something else than TLS.
    private func startTLS(
        deadline: Deadline = .after(.seconds(20)), interrupt: Int32? = nil, play: (Connection) throws -> Void
    ) throws {
        let (client, server) = try makeConnectedPair()
        try play(server)
        try client.startTLS(context, domain: "example.org", deadline: deadline, interrupt: interrupt)
    }

    @Test("X5 a server that is silent in the handshake is given up at the deadline")
    func silent() {
        let deadline = Deadline.after(.milliseconds(50))
        let error = transportError { try startTLS(deadline: deadline) { _ in } }
        #expect(error?.code == .timedOut)
        #expect(deadline.isPassed(at: SystemTime.monotonicNanoseconds()))
    }

    @Test("X5 a handshake ends when the interrupting descriptor becomes readable")
    func interrupted() throws {
        let interruption = try AskedInterruption()
        let error = transportError { try startTLS(interrupt: interruption.fileDescriptor) { _ in } }
        #expect(error?.code == .interrupted)
    }

    @Test("X5 a server that closes before the handshake is distinguished from a TLS failure")
    func closedBefore() {
        let error = transportError { try startTLS { $0.closeDirty() } }
        #expect([.connectionClosed, .connectionReset].contains(error?.code))
    }

    @Test("X5 a server that closes in the middle of the handshake is distinguished, at whatever byte")
    func closedInTheMiddle() throws {
        let files = try certificates.makeServerCertificate(for: ["example.org"])
        let serverContext = try TLSContext.server(
            certificateFile: files.certificateFile, keyFile: files.keyFile)
        // The server's whole answer, taken from the wire by a client socket that does not understand it.
        let (client, server) = try makeConnectedPair()
        let (tapped, tap) = try makeConnectedPair()
        try client.startClientHandshake(context, domain: "example.org")
        #expect(try !client.continueHandshake())
        var hello: [UInt8] = []
        _ = try server.read(into: &hello)
        tap.write(hello)
        try tap.flush(until: .after(.seconds(30)))
        try tapped.startServerHandshake(serverContext)
        #expect(try !tapped.continueHandshake())
        var answer: [UInt8] = []
        _ = try tap.read(into: &answer)
        #expect(answer.count > 500)

        for length in [0, 1, 5, 100, answer.count - 1] {
            let (victim, cutter) = try makeConnectedPair()
            try victim.startClientHandshake(context, domain: "example.org")
            #expect(try !victim.continueHandshake())
            cutter.write(answer.prefix(length))
            try cutter.flush(until: .after(.seconds(30)))
            var ignored: [UInt8] = []
            _ = try cutter.read(into: &ignored)
            cutter.closeDirty()
            let error = transportError { while try !victim.continueHandshake() {} }
            // The hello is encrypted under another session's keys, so a long prefix may fail earlier as TLS.
            #expect([.connectionClosed, .tlsFailed].contains(error?.code))
            if length < 100 { #expect(error?.code == .connectionClosed) }
        }
    }

    @Test("X5 bytes sent before TLS starts are refused: they would be taken for protected ones")
    func plaintextBeforeTLS() {
        let error = transportError {
            try startTLS {
                $0.write(Array("<message/>".utf8))
                try $0.flush(until: .after(.seconds(30)))
            }
        }
        #expect(error?.code == .plaintextBeforeTLS)
    }

    @Test("X5 a server that answers in plain text gets a sentence about the port")
    func notTLS() throws {
        let (client, server) = try makeConnectedPair()
        try client.startClientHandshake(context, domain: "example.org")
        #expect(try !client.continueHandshake())
        server.write(Array("<?xml version='1.0'?><stream:stream>".utf8))
        try server.flush(until: .after(.seconds(30)))
        let error = transportError { _ = try client.continueHandshake() }
        #expect(error?.code == .tlsFailed)
        #expect(error?.message.contains("STARTTLS") == true)
    }

    @Test("X5 output written before the handshake is done waits and arrives protected")
    func earlyOutput() throws {
        let files = try certificates.makeServerCertificate(for: ["example.org"])
        let (client, server) = try makeConnectedPair()
        try client.startClientHandshake(context, domain: "example.org")
        try server.startServerHandshake(
            .server(certificateFile: files.certificateFile, keyFile: files.keyFile))
        client.write(Array("early".utf8))
        #expect(try !client.flush())
        var bytes: [UInt8] = []
        while try server.read(into: &bytes) == .wouldBlock {
            #expect(bytes.isEmpty)
            _ = try client.continueHandshake()
            _ = try client.flush()
        }
        #expect(bytes == Array("early".utf8))
    }
}
