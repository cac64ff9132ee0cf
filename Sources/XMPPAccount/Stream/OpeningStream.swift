import Handlers
import XMPPCore
import XMPPTransport

/// A stream while it is being opened: one element is awaited at a time, under one deadline.
final class OpeningStream {
    let connection: Connection
    private(set) var parser: StreamParser
    /// The parsed events that are not processed yet.
    private(set) var events: ArraySlice<StreamParser.Event> = []
    /// The error after ``events``, beyond which the stream cannot be read.
    private(set) var parserError: StreamParserError?
    /// When to give up.
    var deadline: Deadline
    private let loop: EventLoop
    private var input: [UInt8] = []

    init(_ connection: Connection, deadline: Deadline, loop: EventLoop) throws {
        self.connection = connection
        self.deadline = deadline
        self.loop = loop
        parser = try StreamParser()
    }

    /// Writes a stream header; it leaves with whatever is sent next, or with ``features()``.
    ///
    /// A parser belongs to one stream, so every header begins with a new one.
    func start(to domain: String, from: String?) throws {
        parser = try StreamParser()
        events = []
        connection.write(Serializer.streamHeader(to: domain, from: from))
    }

    /// The features that the server announces at the beginning of its stream.
    func features() async throws -> Element {
        try await flush()
        guard case .opened(let header) = try await next() else {
            throw AccountError(.protocolViolation, "the server did not begin its stream with a stream header")
        }
        guard header["version"]?.hasPrefix("1.") == true else {
            throw AccountError(.protocolViolation, "the server speaks no XMPP 1.0; it cannot be used")
        }
        return try await furtherFeatures()
    }

    /// The features that the server announces after a login that does not begin the stream again.
    func furtherFeatures() async throws -> Element {
        let features = try await element()
        guard features.has(name: "features", namespace: Namespaces.stream) else {
            throw AccountError(
                .protocolViolation, "the server sent <\(features.name)/> where its stream features must stand"
            )
        }
        return features
    }

    /// Writes an element, which leaves with whatever is sent next.
    func write(_ element: Element) { connection.write(Serializer().bytes(element)) }

    /// Sends an element and what was written before.
    func send(_ element: Element) async throws {
        write(element)
        try await flush()
    }

    /// Sends an element and what was written before, without waiting: inside of a transaction.
    ///
    /// - Throws: ``AccountError`` `connectionFailed` when the system does not take all of it at once.
    func sendAtOnce(_ elements: [Element]) throws {
        for element in elements { write(element) }
        guard try connection.flush() else {
            throw AccountError(
                .connectionFailed, "\(connection.peer) takes nothing at the moment; it is tried again")
        }
    }

    /// Sends what was written.
    func flush() async throws { try await connection.flush(until: deadline, on: loop) }

    /// The next element, or the error that ended the stream. What cannot be read ends the attempt: nothing of a login may be
    /// passed over.
    func element() async throws -> Element {
        switch try await arrival() {
        case .element(let element): return element
        case .refused(let refused):
            throw AccountError(
                .protocolViolation,
                "the server sent what cannot be read while the stream was being opened: \(refused)",
                cause: refused.reason)
        case .opened, .closed:
            throw AccountError(.protocolViolation, "the server sent a second stream header")
        }
    }

    /// The next element, read or left out, or the error that ended the stream.
    func arrival() async throws -> StreamParser.Event {
        let event = try await next()
        switch event {
        case .element(let element):
            if let error = StreamError(element) {
                throw AccountError(.streamError, "the server ended the stream: \(error)", cause: error)
            }
            return event
        case .refused: return event
        case .closed:
            throw AccountError(.connectionFailed, "the server closed the stream while it was being opened")
        case .opened: throw AccountError(.protocolViolation, "the server sent a second stream header")
        }
    }

    /// Waits for keys of a password that are computed elsewhere.
    func keys(
        _ derivation: SCRAMClient.Derivation, for server: ServerPlace, by derivations: KeyDerivations
    ) async throws -> SCRAMKeys {
        let (result, keys) = try await derivations.run(derivation, for: server, until: deadline, on: loop)
        if result == .interrupted { throw AccountError(.closed, "connecting was stopped") }
        guard let keys else {
            throw AccountError(
                .timedOut,
                "\(connection.peer) wants more computation for a password than there was time for; it is tried again"
            )
        }
        return keys
    }

    /// Returns whether the next element is a stanza, or part of one, that was read or left out.
    func isStanzaNext() async throws -> Bool {
        while events.isEmpty { try await receive() }
        return switch events.first {
        case .element(let element): Stanza.isStanza(element)
        case .refused(let refused): Stanza.isStanza(refused.root)
        case .opened, .closed, nil: false
        }
    }

    private func next() async throws -> StreamParser.Event {
        while true {
            if let event = events.popFirst() { return event }
            try await receive()
        }
    }

    private func receive() async throws {
        input.removeAll(keepingCapacity: true)
        switch try connection.read(into: &input) {
        case .bytes:
            if let parserError { throw parserError }
            do throws(StreamParserError) {
                events = try ArraySlice(parser.parse(input))
            } catch {
                // What was complete before stands; perhaps it is the answer that is waited for.
                if error.events.isEmpty { throw error }
                (events, parserError) = (ArraySlice(error.events), error)
            }
        case .closed:
            throw AccountError(
                .connectionFailed,
                "\(connection.peer) closed the connection while it was being opened; check whether this port expects direct TLS or STARTTLS"
            )
        case .wouldBlock:
            switch await connection.wait(until: deadline, on: loop) {
            case .ready: break
            case .timedOut:
                throw AccountError(
                    .timedOut,
                    "\(connection.peer) did not answer in time; check the network, it is tried again")
            case .interrupted: throw AccountError(.closed, "connecting was stopped")
            }
        }
    }

    /// Begins TLS after `<proceed/>`. Nothing may have come after it: it would have been sent in clear by someone else.
    func startTLS(_ context: TLSContext, domain: String) async throws {
        guard events.isEmpty else {
            throw AccountError(
                .protocolViolation,
                "the server sent data in clear after <proceed/>; the connection is not safe")
        }
        try await connection.startTLS(context, domain: domain, deadline: deadline, on: loop)
    }
}
