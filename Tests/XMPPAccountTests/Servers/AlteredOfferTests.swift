import AccountTestSupport
import Foundation
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPTransport
import XMPPCore
import TestServers
import XMPPTestKit

/// Somebody between client and server who has a certificate that the client trusts, reads everything, and changes what the
/// server offers to log in with. A process of its own: Python's TLS knows nothing of ours.
private final class Middle {
    let port: UInt16
    private let process: ChildProcess

    /// - Parameter change: See the script.
    init(to target: UInt16, _ files: TestCertificates.ServerCertificate, _ change: String) throws {
        process = try ChildProcess(
            SlixmppPeer.locatePython(),
            ["-c", Self.script, String(target), files.certificateFile, files.keyFile, change], input: .pipe,
            output: .pipe)
        let line = try process.output?.readLine(deadline: .now + .seconds(30))
        port = try #require(line.flatMap { UInt16($0) })
    }

    func close() { process.killAndWait() }

    private static let script = #"""
        import re, select, socket, ssl, sys, threading
        target, certificate, key, change = int(sys.argv[1]), *sys.argv[2:5]
        own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        own.load_cert_chain(certificate, key)
        theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        theirs.check_hostname, theirs.verify_mode = False, ssl.CERT_NONE
        types = re.compile(rb"<sasl-channel-binding\b.*?</sasl-channel-binding>", re.S)
        plus = re.compile(rb"<mechanism>[^<]*-PLUS</mechanism>")
        listed = b"<sasl-channel-binding xmlns='urn:xmpp:sasl-cb:0'><channel-binding type='%s'/></sasl-channel-binding>"

        def changed(data):
            if change == "remove": return types.sub(b"", data)
            if change == "strip": return plus.sub(b"", types.sub(b"", data))
            if change == "strip, bogus list": return plus.sub(b"", types.sub(listed % b"tls-bogus", data))
            return types.sub(listed % change.encode(), data)

        def copy(ends):
            """Carries both directions in one thread: OpenSSL allows no two at one connection."""
            while True:
                for source in [end for end in ends if end.pending()] or select.select(list(ends), [], [])[0]:
                    sink, change = ends[source]
                    source.setblocking(False)
                    # A record may carry nothing for us, such as a session ticket.
                    try: data = source.recv(1 << 16)
                    except ssl.SSLWantReadError: continue
                    finally: source.setblocking(True)
                    if not data: return
                    sink.sendall(change(data))

        def serve(client):
            ends = [client]
            try:
                client = ends[0] = own.wrap_socket(client, server_side=True)
                server = theirs.wrap_socket(socket.create_connection(("127.0.0.1", target)), server_hostname="localhost")
                ends.append(server)
                copy({client: (server, bytes), server: (client, changed)})
            except OSError: pass
            for end in ends: end.close()

        listener = socket.create_server(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
        """#
}

/// Whether the server ended the login, by the mechanism's own error or by SASL's.
private func isRefusal(_ error: (any Error)?) -> Bool {
    // Prosody takes a binding or an offer that differs for a malformed request, which says nothing about the password.
    if let error = error as? AccountError, error.code == .connectionFailed {
        return error.message.contains("(malformed-request")
    }
    return (error as? AccountError)?.code == .notAuthorized
        || (error as? SASLError)?.code == .channelBindingFailed
        || (error as? SASLError)?.code == .downgradeSuspected
}

private let changes = [
    "remove", "tls-bogus", "tls-unique", "tls-server-end-point", "strip", "strip, bogus list",
]

/// What somebody between the two makes of the first login.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct AlteredOfferTests {
    @Test(
        "X22 whatever somebody in between removes from the offer or puts in its place, the scripted server refuses the first login",
        arguments: changes, [true, false])
    func scripted(change: String, isExtensible: Bool) async throws {
        try await withRig(reconnects: false) {
            $0.behavior.mechanisms = ["SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"]
            $0.behavior.extensibleMechanisms = isExtensible ? $0.behavior.mechanisms : []
            $0.behavior.bindingTypes = ["tls-exporter", "tls-server-end-point"]
        } _: { rig in
            let files = try rig.certificates.makeServerCertificate(for: ["localhost"], name: "middle")
            let middle = try Middle(to: rig.server.directTLSPort, files, change)
            defer { middle.close() }
            let account = try rig.account {
                $0.server = .init(host: "127.0.0.1", port: middle.port, security: .directTLS)
            }
            let error = await errorOf { try await account.connect() }
            #expect(isRefusal(error), "\(String(describing: error))")
            #expect(!rig.server.log.entries.contains { $0.event == .bound })
            await account.close()
            let honest = try rig.account()
            try await honest.connect()
            await honest.close()
        }
    }
}

extension RealServerTests {
    @Suite struct AlteredOffersTests {
        @Test(
            "X22 whatever somebody in between removes from the offer or puts in its place, the server refuses the first login",
            arguments: ServerKind.allCases, changes)
        func real(kind: ServerKind, change: String) async throws {
            try await withHome(kind) { home in
                let files = try home.scene.certificates.makeServerCertificate(
                    for: ["localhost"], name: "middle-\(UUID())")
                let middle = try Middle(to: home.port(.directTLS), files, change)
                defer { middle.close() }
                let account = try home.account(.directTLS, port: middle.port) {
                    $0.time = VirtualClock().timeSource
                }
                let error = await errorOf { try await account.connect() }
                #expect(isRefusal(error), "\(String(describing: error))")
                #expect(try home.sessions == [0, 0])
                await account.close()
                let honest = try home.account()
                try await honest.connect()
                #expect(try home.sessions == [0, 1])
            }
        }
    }
}
