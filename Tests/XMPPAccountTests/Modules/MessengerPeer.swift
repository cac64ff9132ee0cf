import Foundation
import Testing
import XMPPTestKit

/// An independent messenger (slixmpp) that does what a test tells it; see messenger_peer.py.
final class MessengerPeer: Sendable {
    /// What it has seen.
    struct Event: Decodable, Equatable {
        var kind: String
        var id: String
        var from: String
        var to: String
        var type: String
        var body: String
    }

    struct Failure: Error, CustomStringConvertible { let description: String }

    /// The full address that the server gave it.
    let jid: String
    private let process: ChildProcess
    private let errors: String

    /// Logs in; blocks until that is done.
    init(
        jid: String, password: String, server: any TestServer, trustFile: String, folder: String
    ) throws {
        let script = "\(folder)/messenger_peer.py"
        try Data(PackageResources.messenger_peer_py).write(to: URL(filePath: script))
        errors = "\(folder)/\(jid.replacingOccurrences(of: "/", with: "-")).errors"
        process = try ChildProcess(
            SlixmppPeer.locatePython(),
            [
                script, "--jid", jid, "--password", password, "--host", server.host, "--port",
                String(server.startTLSPort), "--ca", trustFile,
            ], input: .pipe, output: .pipe, errors: .file(errors))
        self.jid = try Self.result(of: try process.output?.readLine(deadline: .now + .seconds(40)), errors)
    }

    func close() {
        process.closeInput()
        _ = process.terminate(grace: .seconds(2))
    }

    /// Tells it to do something and waits until it is done, on a thread that may block.
    @discardableResult
    func ask<Result: Decodable & Sendable>(
        _ name: String, _ arguments: [String: any Sendable] = [:], as type: Result.Type = Nothing.self
    ) async throws -> Result {
        var words = arguments
        words["do"] = name
        let line = String(decoding: try JSONSerialization.data(withJSONObject: words), as: UTF8.self)
        return try await onThread { [process, errors] in
            try process.write(line + "\n")
            return try Self.result(
                of: try process.output?.readLine(deadline: .now + .seconds(60)), errors)
        }
    }

    var events: [Event] { get async throws { try await ask("events", as: [Event].self) } }

    /// The bodies of what it has seen of one kind.
    func bodies(_ kind: String) async throws -> [String] {
        try await events.filter { $0.kind == kind }.map(\.body)
    }

    /// Waits until it has seen something.
    func until(
        _ what: Comment? = nil, sourceLocation: SourceLocation = #_sourceLocation,
        _ condition: ([Event]) -> Bool
    ) async throws {
        let end = ContinuousClock.now + .seconds(30)
        while try await !condition(events) {
            try #require(ContinuousClock.now < end, what, sourceLocation: sourceLocation)
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    /// Whatever it answers.
    struct Nothing: Decodable, Sendable { init(from decoder: any Decoder) throws {} }

    private struct Answer<Result: Decodable>: Decodable {
        var ok: Result?
        var error: String?
    }

    private static func result<Result: Decodable>(of line: String?, _ errors: String) throws -> Result {
        let text = (try? String(contentsOfFile: errors, encoding: .utf8)) ?? ""
        guard let line else { throw Failure(description: "the messenger has ended: \(text.suffix(1500))") }
        let answer = try JSONDecoder().decode(Answer<Result>.self, from: Data(line.utf8))
        if let error = answer.error { throw Failure(description: "the messenger could not: \(error)") }
        if let result = answer.ok { return result }
        return try JSONDecoder().decode(Result.self, from: Data("null".utf8))
    }
}

extension RealHome {
    /// An independent messenger with an account of its own, or one more client of this account.
    func messenger(ofThisAccount: Bool = false) async throws -> MessengerPeer {
        let user = ofThisAccount ? jid.local ?? "" : freshUser()
        if !ofThisAccount { try server.addAccount(user, password: Self.password) }
        return try await onThread { [self] in
            try MessengerPeer(
                jid: "\(user)@\(RealServers.domain)/messenger", password: Self.password, server: server,
                trustFile: certificates.authorityFile, folder: folder.path)
        }
    }
}
