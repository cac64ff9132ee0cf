import Foundation
import TestSupport
import Testing
import XMPPCore
import XMPPTestKit
@testable import XMPPAccount
@testable import XMPPTransport

/// A session written by hand, of which every byte that the server sends is kept as it was read.
final class RecordedSession {
    private let home: RealHome
    private let connection: Connection
    private let deadline = Deadline.after(.seconds(30))
    /// For each stream what each read gave.
    private(set) var streams: [[[UInt8]]] = []
    /// How far the current stream has been looked at.
    private var seen = 0

    init(_ home: RealHome, _ security: RealHome.Security) throws {
        self.home = home
        let (host, port, deadline) = (home.server.host, home.port(security), deadline)
        connection = try EventLoop.run {
            try await Connection.connect(host: host, port: port, deadline: deadline, on: $0)
        }
        if security == .directTLS { try startClientHandshake(offersProtocol: true) }
    }

    deinit { connection.closeDirty() }

    private var user: String { home.jid.local?.string ?? "" }

    /// Who this is, which may be said once TLS protects it, and which the newer profile wants to know.
    private var from: String { connection.tls == nil ? "" : " from='\(home.jid)'" }

    /// What PLAIN says.
    private var plain: String {
        Data("\0\(user)\0\(RealServers.password)".utf8).base64EncodedString()
    }

    private func startClientHandshake(offersProtocol: Bool = false) throws {
        let context = try TLSContext.client(
            trust: .file(home.scene.certificates.authorityFile), identity: nil, pins: [], newest: .tls13)
        // This thread waits, and uses it afterwards.
        nonisolated(unsafe) let connection = connection
        let (domain, deadline) = (home.server.domain, deadline)
        try EventLoop.run {
            try await connection.startTLS(
                context, domain: domain, offersProtocol: offersProtocol, deadline: deadline, on: $0)
        }
    }

    // MARK: The streams

    /// Starts a stream and waits for its features.
    func start() throws {
        streams.append([])
        seen = 0
        try send(
            "<?xml version='1.0'?><stream:stream xmlns='jabber:client' xmlns:stream='\(Namespaces.stream)' "
                + "to='\(home.server.domain)'\(from) version='1.0' xml:lang='en'>")
        try read(until: "</stream:features>")
    }

    func startTLS() throws {
        try start()
        try ask("<starttls xmlns='\(Namespaces.tls)'/>", until: "<proceed")
        try startClientHandshake()
    }

    /// The classic way: login, a new stream, binding, stream management.
    func logIn() throws {
        try start()
        try ask("<auth xmlns='\(Namespaces.sasl)' mechanism='PLAIN'>\(plain)</auth>", until: "<success")
        try start()
        try ask(
            "<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>rec</resource></bind></iq>",
            until: "</iq>")
        try ask("<enable xmlns='\(Namespaces.sm)' resume='true'/>", until: "<enabled")
    }

    /// The newer way: everything in one answer, on the same stream.
    func logInExtensibly() throws {
        try start()
        try ask(
            "<authenticate xmlns='\(Namespaces.sasl2)' mechanism='PLAIN'><initial-response>\(plain)</initial-response>"
                + "<user-agent id='d4565fa7-4d72-4749-b3d3-740edbf87770'/>"
                + "<bind xmlns='\(Namespaces.bind2)'><tag>rec</tag><enable xmlns='\(Namespaces.sm)' resume='true'/></bind>"
                + "</authenticate>", until: "</success>")
    }

    /// Ends the stream and waits for the server's end.
    func end() throws { try ask("</stream:stream>", until: "</stream:stream>") }

    // MARK: Talking

    private func send(_ text: String) throws {
        connection.write(text.utf8)
        try connection.flush(until: deadline)
    }

    /// Sends something and reads up to these words of the answer.
    func ask(_ text: String, until words: String) throws {
        try send(text)
        try read(until: words)
    }

    /// Sends a request and reads up to its answer.
    func request(_ id: String, to address: String, type: String = "get", _ payload: String) throws {
        try ask("<iq type='\(type)' id='\(id)' to='\(address)'>\(payload)</iq>", until: "id='\(id)'")
        try ask("<r xmlns='\(Namespaces.sm)'/>", until: "<a ")
    }

    private func read(until words: String) throws {
        while true {
            let text = Array(streams[streams.count - 1].joined())[seen...]
            if let found = text.firstRange(of: Array(words.utf8)) {
                seen = found.upperBound
                return
            }
            var bytes: [UInt8] = []
            switch try connection.read(into: &bytes) {
            case .bytes: streams[streams.count - 1].append(bytes)
            case .wouldBlock:
                let wait = try connection.wait(until: deadline)
                try #require(
                    wait == .ready, "waiting for \(words) behind \(String(decoding: text, as: UTF8.self))")
            case .closed:
                Issue.record("the server closed the connection before \(words)")
                throw CancellationError()
            }
        }
    }
}
