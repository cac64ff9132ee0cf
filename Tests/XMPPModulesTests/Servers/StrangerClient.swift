import Foundation
import TestSupport
import Testing
import XMPPCore
import XMPPTestKit

@testable import XMPPAccount
@testable import XMPPTransport

/// A client that writes bytes as a test says them, whatever its server makes of them.
final class StrangerClient {
    let jid: JID
    private let scene: RealScene
    private var connection: Connection
    private var deadline = Deadline.never
    /// What came and has not been looked at.
    private var input: [UInt8] = []
    private var pings = 0
    /// What is to be done again on a new stream.
    var rejoin: (() throws -> Void)?

    init(_ scene: RealScene) throws {
        self.scene = scene
        jid = try scene.addUser().with(resource: "stranger")
        connection = try Self.connect(scene)
        try logIn()
    }

    deinit { connection.closeDirty() }

    private static func connect(_ scene: RealScene) throws -> Connection {
        let deadline = Deadline.after(.seconds(30))
        let (host, port) = (scene.server.host, scene.port(.directTLS))
        let context = try TLSContext.client(
            trust: .file(scene.certificates.authorityFile), identity: nil, pins: [], newest: .tls13)
        return try EventLoop.run { loop in
            let connection = try await Connection.connect(
                host: host, port: port, deadline: deadline, on: loop)
            try await connection.startTLS(
                context, domain: RealServers.domain, offersProtocol: true, deadline: deadline, on: loop)
            return connection
        }
    }

    private func logIn() throws {
        let plain = Data("\0\(jid.local ?? "")\0\(RealServers.password)".utf8).base64EncodedString()
        let header =
            "<?xml version='1.0'?><stream:stream xmlns='jabber:client' xmlns:stream='\(Namespaces.stream)' "
            + "to='\(RealServers.domain)' version='1.0'>"
        for (text, answer) in [
            (header, "</stream:features>"),
            ("<auth xmlns='\(Namespaces.sasl)' mechanism='PLAIN'>\(plain)</auth>", "<success"),
            (header, "</stream:features>"),
            (
                "<iq type='set' id='bind'><bind xmlns='\(Namespaces.bind)'><resource>stranger</resource></bind></iq>",
                "</iq>"
            ),
            ("<presence id='own'/>", "<presence"),
        ] { try #require(try ask(text, until: answer), "\(answer)") }
    }

    /// Sends something and reads up to these words.
    ///
    /// - Returns: False when the server closed the connection before.
    @discardableResult
    func ask(_ text: String, until words: String) throws -> Bool {
        deadline = .after(.seconds(30))
        do {
            connection.write(text.utf8)
            try connection.flush(until: deadline)
            return try read(until: Array(words.utf8))
        } catch let error as TransportError where error.code != .timedOut {
            return false
        }
    }

    private func read(until words: [UInt8]) throws -> Bool {
        var looked = 0
        while true {
            if let found = end(of: words, behind: looked) {
                input.removeSubrange(..<found)
                return true
            }
            if end(of: Array("<stream:error".utf8), behind: looked) != nil { return false }
            looked = input.count
            switch try connection.read(into: &input) {
            case .bytes: break
            case .wouldBlock:
                guard try connection.wait(until: deadline) == .ready else {
                    throw TransportError(.timedOut, "waiting for \(String(decoding: words, as: UTF8.self))")
                }
            case .closed: return false
            }
        }
    }

    /// Where these words end in what came.
    ///
    /// - Parameter looked: How much of it was looked through before. Rooms and nodes send megabytes back: to look through all of
    ///   them with each part takes longer than everything else.
    private func end(of words: [UInt8], behind looked: Int) -> Int? {
        input[max(0, looked - words.count)...].firstRange(of: words)?.upperBound
    }

    /// Sends stanzas, and then a ping to see whether the server has read them.
    ///
    /// - Returns: False when the server ended the stream for them; there is a new one then.
    func offer(_ stanzas: String) throws -> Bool {
        pings += 1
        let ping =
            "<iq type='get' id='ping\(pings)' to='\(RealServers.domain)'><ping xmlns='urn:xmpp:ping'/></iq>"
        let isTaken = try stanzas.utf8.count < Self.chunk && ask(stanzas + ping, until: "ping\(pings)")
        if !isTaken {
            connection.closeDirty()
            input = []
            connection = try Self.connect(scene)
            try logIn()
            try rejoin?()
        }
        return isTaken
    }

    /// More is not offered at once.
    private static let chunk = 16 << 20
}
