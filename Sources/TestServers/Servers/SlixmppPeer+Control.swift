import FoundationEssentials
import Synchronization

/// Commands to a peer, and its answers (see `peer.py`).
extension SlixmppPeer {
    /// The arguments of a command, with each value as JSON.
    package typealias Arguments = [String: any Encodable & Sendable]

    /// Runs a command of the peer and waits for its result.
    ///
    /// ```swift
    /// let items = try peer.ask("items", ["service": "pubsub.localhost", "node": "news"], as: [String].self)
    /// ```
    ///
    /// - Parameters:
    ///   - name: The name of the command: `NAME` in the script's `do_NAME`.
    ///   - arguments: The arguments of that method.
    ///   - type: The type of the result.
    /// - Throws: ``TestServerError`` `refused` with the reason when the command fails, `wrongState` when the deadline passes, the
    ///   peer has ended or its answer has another type.
    package func ask<Result: Decodable>(
        _ name: String, _ arguments: Arguments = [:], as type: Result.Type = Result.self,
        deadline: ContinuousClock.Instant = .now + .seconds(60)
    ) throws(TestServerError) -> Result {
        let number = state.withLock { state in
            state.asked += 1
            return state.asked
        }
        try write(name, arguments, number)
        let line = try readLine("has not answered '\(name)'", deadline: deadline) {
            $0.hasPrefix("done \(number) ")
        }
        let text = line.dropFirst("done \(number) ".count)
        let answer: Answer<Result>
        do {
            answer = try JSONDecoder().decode(Answer<Result>.self, from: Data(text.utf8))
        } catch { throw failure(.wrongState, "answered '\(name)' with '\(text)'", error) }
        switch answer {
        case .ok(let result): return result
        case .error(let reason): throw TestServerError(.refused, reason)
        }
    }

    /// Runs a command of the peer and waits until it is done.
    /// - Throws: As ``ask(_:_:as:deadline:)``.
    package func tell(_ name: String, _ arguments: Arguments = [:]) throws(TestServerError) {
        _ = try ask(name, arguments, as: Anything.self)
    }

    /// Sends a command to the peer without waiting.
    /// - Throws: ``TestServerError`` `wrongState` when the peer does not run.
    package func command(_ name: String, _ arguments: Arguments = [:]) throws(TestServerError) {
        try write(name, arguments, nil)
    }

    // MARK: - Numbered messages

    /// Makes the peer send numbered chat messages with the ids `prefix-1`, `prefix-2`, … and the bodies 1, 2, ….
    ///
    /// - Parameters:
    ///   - to: A bare or full JID.
    ///   - count: The number of messages, at least 0.
    ///   - rate: Messages a second; 0 for as fast as possible.
    ///   - prefix: A prefix without white space, which is used only once.
    /// - Throws: ``TestServerError`` `wrongState` when the peer does not run.
    package func sendMessages(to: String, count: Int, rate: Double = 0, prefix: String)
        throws(TestServerError)
    {
        try command("send", ["to": to, "count": count, "rate": rate, "prefix": prefix])
    }

    /// Makes the peer stop all sending.
    /// - Throws: ``TestServerError`` `wrongState` when the peer does not run.
    package func stopSending() throws(TestServerError) { try command("stop") }

    /// Waits until the sender with this prefix has sent everything or was stopped.
    /// - Returns: The number of messages that it has sent.
    /// - Throws: ``TestServerError`` `wrongState` when the deadline passes or the peer has ended.
    package func waitUntilSent(
        prefix: String, deadline: ContinuousClock.Instant
    ) throws(TestServerError) -> Int {
        while true {
            if let count = state.withLock({ $0.sent[prefix] }) { return count }
            _ = try readLine("has not sent \(prefix)", deadline: deadline) { $0.hasPrefix("sent ") }
        }
    }

    // MARK: - Lines

    private func write(_ name: String, _ arguments: Arguments, _ number: Int?) throws(TestServerError) {
        let order = Order(name: name, number: number, arguments: arguments)
        do {
            let line = String(decoding: try JSONEncoder().encode(order), as: UTF8.self)
            try state.withLock { state in
                guard let process = state.process else {
                    throw TestServerError(.wrongState, "The peer does not run.")
                }
                try process.write(line + "\n")
            }
        } catch { throw error as? TestServerError ?? failure(.wrongState, "takes no commands", error) }
    }

    /// Returns the first wanted line. Senders that end before it are recorded.
    private func readLine(
        _ what: String, deadline: ContinuousClock.Instant, where isWanted: (String) -> Bool
    ) throws(TestServerError) -> String {
        // The lock is not held while waiting, so that another thread can stop, kill or close.
        guard let output = state.withLock({ $0.process?.output }) else {
            throw TestServerError(.wrongState, "The peer does not run.")
        }
        do {
            return try output.readLine(deadline: deadline) { line in
                let words = line.split(separator: " ")
                if words.count == 3, words[0] == "sent", let count = Int(words[2]) {
                    state.withLock { $0.sent[String(words[1])] = count }
                }
                return isWanted(line)
            }
        } catch { throw failure(.wrongState, what, error) }
    }

    private struct Order: Encodable {
        let name: String
        let number: Int?
        let arguments: Arguments

        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: Key.self)
            for (name, value) in arguments { try container.encode(value, forKey: Key(name)) }
            try container.encode(name, forKey: Key("do"))
            try container.encodeIfPresent(number, forKey: Key("ask"))
        }
    }

    private struct Key: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(_ name: String) { stringValue = name }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    private enum Answer<Result: Decodable>: Decodable {
        case ok(Result)
        case error(String)

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: Key.self)
            if let reason = try container.decodeIfPresent(String.self, forKey: Key("error")) {
                self = .error(reason)
            } else {
                self = .ok(try container.decode(Result.self, forKey: Key("ok")))
            }
        }
    }

    private struct Anything: Decodable { init(from decoder: any Decoder) {} }
}
