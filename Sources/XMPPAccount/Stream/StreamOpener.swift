import Handlers
import XMPPCore
import XMPPTransport

/// Opens a stream: connect, TLS, authenticate, resume or bind. It knows no database.
///
/// ```text
/// connect ─▶ TLS ─▶ <authenticate> with <resume/> inside ─▶ resumed       (SASL2, one round trip by token)
///              │                                  └ failed ─▶ bind ─▶ <enable/> ─▶ bound
///              └─▶ <auth> ─▶ a new stream ─▶ <resume/> or bind            (RFC 6120)
/// ```
///
/// What the server offered last time is remembered, so that the login is sent without waiting for its features.
/// It waits on the account's thread and gives it back meanwhile; ``AccountLoop`` takes the opened stream over and commits the
/// outcome before anything else is sent.
struct StreamOpener: Sendable {
    /// The data that resume a session.
    struct Resumption: Hashable, Sendable {
        var id: String
        var h: HandledCount
    }

    enum Outcome: Sendable {
        /// The session goes on; the server handled that many of our stanzas.
        case resumed(HandledCount)
        /// A new session, and how a resumption failed that was tried before.
        case bound(BoundSession, failed: FailedResumption?)
    }

    /// `<failed/>` in answer to `<resume/>` (XEP-0198 section 5).
    struct FailedResumption: Sendable {
        /// The server's received count, if it still knows it.
        var count: HandledCount?
        /// The reason why the server does not resume, if it sends one.
        var error: StanzaError?

        init(_ element: Element) {
            count = HandledCount(element["h"])
            error = StanzaError(failed: element)
        }
    }

    enum Opening: Sendable {
        case opened(OpenedStream)
        /// The program wants to wait for that long before it logs in.
        case wait(Duration)
    }

    let configuration: AccountConfiguration
    let login: any LoginKeeping
    let memory: LoginMemory
    let resource: String
    /// Derives keys from passwords; nil for the thread that waits.
    var derivations: KeyDerivations?

    /// The maximum number of redirections in one attempt.
    private static let redirectionLimit = 4

    /// - Parameter loop: What waits. Canceling the task ends the attempt.
    func open(on loop: EventLoop) async throws -> Opening {
        let connector = StreamConnector(
            configuration: configuration, memory: memory,
            deadline: loop.deadline(after: configuration.connectTimeout), loop: loop)
        var visited: Set<ServiceTarget> = []
        var next = memory.redirection
        memory.redirection = nil
        var mayBeStale = true
        while true {
            do {
                let known = try login.recall()
                let stream = try await connect(connector, to: next, known)
                var opening = SessionOpening(opener: self, stream: stream, known: known)
                switch try await opening.run() {
                case .opened(let outcome):
                    return .opened(
                        OpenedStream(
                            stream, outcome: outcome, answers: opening.answers, uncounted: opening.uncounted,
                            learned: opening.learned))
                case .wait(let time): return .wait(time)
                case .staleOffer(let error):
                    guard mayBeStale else { throw error }
                    configuration.log(.verbose, .login, "the server offers something else than last time")
                    // What was sent before the features did not suit the server; the next attempt waits for them.
                    mayBeStale = false
                    try login.forgetOffer()
                }
            } catch let error as AccountError {
                guard let target = connector.redirection(error), visited.count < Self.redirectionLimit,
                    visited.insert(target).inserted
                else { throw error }
                configuration.log(.info, .connection, "sent on to \(target.host) port \(target.port)")
                next = target
            }
        }
    }

    private func connect(
        _ connector: StreamConnector, to target: ServiceTarget?, _ known: KnownLogin
    ) async throws -> OpeningStream {
        guard let target else { return try await connector.connect(to: known.location) }
        return try await connector.connect([target])
    }

    var domain: String { configuration.jid.domain.string }
}

extension AccountConfiguration {
    var tlsSettings: TLSContexts.Settings {
        let trust: TLSContext.Trust =
            switch self.trust {
            case .system: .system
            case .file(let path): .file(path)
            }
        var identity: TLSContext.Identity?
        if case .certificate(let file, let keyFile) = authentication {
            identity = .init(certificateFile: file, keyFile: keyFile)
        }
        return TLSContexts.Settings(trust: trust, identity: identity, pins: pinnedKeys, newest: newestTLS)
    }

    var credentials: LoginPolicy.Credentials {
        switch authentication {
        case .password: .password
        case .certificate: .certificate
        case .anonymous: .anonymous
        }
    }
}

/// An opened stream on its way from the task that opened it to the account's loop.
///
/// Unchecked: the task gives its only reference away and never touches it again.
final class OpenedStream: @unchecked Sendable {
    let connection: Connection
    let parser: StreamParser
    /// Stanzas that came before stream management began.
    let uncounted: [StreamParser.Event]
    /// The events after the answer that started the session.
    let early: [StreamParser.Event]
    /// The error after them, beyond which the stream cannot be read.
    let parserError: StreamParserError?
    let outcome: StreamOpener.Outcome
    /// The server's answers of stream management.
    let answers: [Element]
    /// The facts learned in the login, committed with the outcome.
    let learned: LearnedLogin

    init(
        _ stream: OpeningStream, outcome: StreamOpener.Outcome, answers: [Element],
        uncounted: [StreamParser.Event], learned: LearnedLogin
    ) {
        self.answers = answers
        self.learned = learned
        self.uncounted = uncounted
        connection = stream.connection
        parser = stream.parser
        early = Array(stream.events)
        parserError = stream.parserError
        self.outcome = outcome
    }
}

extension StanzaError {
    /// The condition that `<failed/>` of stream management names (XEP-0198 section 3).
    init?(failed element: Element) {
        guard
            let child = element.elements.first(where: {
                $0.namespace == Namespaces.stanzas && $0.name != "text"
            })
        else { return nil }
        self.init(Condition(rawValue: child.name), text: element.child("text", Namespaces.stanzas)?.text)
    }
}
