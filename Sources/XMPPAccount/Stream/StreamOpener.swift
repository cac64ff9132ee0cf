import Handlers
import XMPPCore

/// Opens a stream: connect, TLS, authenticate, resume or bind. It knows no database.
///
///     connect ─▶ TLS ─▶ SASL ─▶ features ─▶ <resume/> ─▶ resumed
///                                              └ failed ─▶ bind ─▶ <enable/> ─▶ bound
///
/// It blocks and so runs on a thread of its own; ``AccountLoop`` takes the opened stream over and commits the outcome
/// before anything else is sent.
struct StreamOpener: Sendable {
    /// What a session needs to be resumed.
    struct Resumption: Sendable {
        var id: String
        var handled: HandledCount
    }

    enum Outcome: Sendable {
        /// The session goes on; the server handled that many of our stanzas.
        case resumed(HandledCount)
        /// A new session. If a resumption failed and the server said what it had handled, that count.
        case bound(BoundSession, failedCount: HandledCount?)
    }

    let configuration: AccountConfiguration
    /// Lends what resumes the session, if anything does, while nobody else can take the account over; throws when
    /// somebody has.
    let withResumption: @Sendable (_ use: (Resumption) throws -> Void) throws -> Void
    let resource: String

    /// - Parameter interrupt: A descriptor that becomes readable when connecting shall end.
    func open(interrupt: Int32) throws -> OpenedStream {
        let deadline = Deadline.after(.milliseconds(configuration.connectTimeout))
        let stream = try connect(deadline: deadline, interrupt: interrupt)
        let features = try authenticate(stream)
        var uncounted: [StreamParser.Event] = []
        let outcome = try beginSession(stream, features: features, uncounted: &uncounted)
        return OpenedStream(stream, outcome: outcome, uncounted: uncounted)
    }

    private var domain: String { configuration.jid.domain }

    private func connect(deadline: Deadline, interrupt: Int32) throws -> BlockingStream {
        let endpoint = configuration.endpoint
        let trust: TLSContext.Trust =
            switch configuration.trust {
            case .system: .system
            case .file(let path): .file(path)
            }
        let context = try TLSContext.client(trust: trust)
        let connection = try Connection.connect(
            host: endpoint.host, port: endpoint.port, deadline: deadline, interrupt: interrupt)
        if endpoint.security == .directTLS {
            try connection.startTLS(
                context, domain: domain, offersProtocol: true, deadline: deadline, interrupt: interrupt)
        }
        let stream = try BlockingStream(connection, deadline: deadline, interrupt: interrupt)
        if endpoint.security == .startTLS { try startTLS(stream, context) }
        return stream
    }

    private func startTLS(_ stream: BlockingStream, _ context: TLSContext) throws {
        // No `from` before TLS: the address would travel in clear (RFC 6120 section 4.7.1).
        let features = try stream.restart(to: domain, from: nil)
        guard features.child("starttls", Namespaces.tls) != nil else {
            throw AccountError(
                .tlsUnavailable,
                "\(stream.connection.peer) does not offer TLS for \(domain); nothing is sent without it. Check the port, or use direct TLS"
            )
        }
        try stream.send(Element("starttls", namespace: Namespaces.tls))
        let answer = try stream.element()
        guard answer.has(name: "proceed", namespace: Namespaces.tls) else {
            throw AccountError(
                .tlsUnavailable, "\(stream.connection.peer) refused to begin TLS; try again later")
        }
        try stream.startTLS(context, domain: domain)
    }

    // MARK: Authentication (RFC 6120 section 6)

    private func authenticate(_ stream: BlockingStream) throws -> Element {
        let features = try stream.restart(to: domain, from: configuration.jid.description)
        let offered =
            features.child("mechanisms", Namespaces.sasl)?.children("mechanism", Namespaces.sasl) ?? []
        let bindings = features.child("sasl-channel-binding", Namespaces.saslChannelBinding)?.elements ?? []
        let choice = try SCRAMChoice.best(
            offered: offered.map(\.text), bindingTypes: bindings.compactMap { $0["type"] },
            exporter: stream.connection.tls?.tlsExporterBinding)
        var scram = try SCRAMClient(
            choice, user: configuration.jid.local ?? "", password: configuration.password)
        var reply = Element(
            "auth", namespace: Namespaces.sasl, attributes: ["mechanism": choice.mechanism.name],
            text: Crypto.base64(scram.initialResponse))
        while true {
            try stream.send(reply)
            let answer = try stream.element()
            guard answer.namespace == Namespaces.sasl else {
                throw AccountError(
                    .protocolViolation, "the server sent <\(answer.name)/> during authentication")
            }
            switch answer.name {
            case "challenge":
                let response = try scram.received(data(of: answer))
                reply = Element("response", namespace: Namespaces.sasl, text: Crypto.base64(response))
            case "success":
                // A server that succeeds without its signature has not proved that it knows the password.
                try scram.finish(data(of: answer))
                return try stream.restart(to: domain, from: configuration.jid.description)
            case "failure": throw refusal(answer)
            default:
                throw AccountError(
                    .protocolViolation, "the server sent <\(answer.name)/> during authentication")
            }
        }
    }

    /// The bytes that a SASL element carries; `=` stands for none (RFC 6120 section 6.4.2).
    private func data(of element: Element) throws -> [UInt8] {
        let text = element.text
        if text.isEmpty || text == "=" { return [] }
        guard let bytes = Crypto.bytes(base64: text) else {
            throw AccountError(.protocolViolation, "the server sent broken base64 during authentication")
        }
        return bytes
    }

    private func refusal(_ failure: Element) -> AccountError {
        let condition = failure.elements.first { $0.name != "text" }?.name ?? "failure"
        let text = failure.child("text", Namespaces.sasl).map { ": \($0.text)" } ?? ""
        if condition == "temporary-auth-failure" {
            return AccountError(
                .connectionFailed,
                "\(domain) cannot authenticate anyone at the moment\(text); it is tried again")
        }
        return AccountError(
            .notAuthorized,
            "\(domain) refused the login of \(configuration.jid) (\(condition)\(text)); check the address and the password"
        )
    }

    // MARK: Session

    private func beginSession(
        _ stream: BlockingStream, features: Element, uncounted: inout [StreamParser.Event]
    ) throws -> Outcome {
        var failedCount: HandledCount?
        let canManage = features.child("sm", Namespaces.sm) != nil
        // XEP-0198 section 5: resuming replaces binding, so it comes first and only if offered.
        if canManage, let resumption = try askToResume(stream) {
            try Failpoint.afterResumeSent.hit()
            let answer = try stream.element()
            if answer.has(name: "resumed", namespace: Namespaces.sm) {
                guard answer["previd"] == resumption.id, let handled = HandledCount(answer["h"]) else {
                    throw AccountError(
                        .protocolViolation, "the server resumed another session than the one asked for")
                }
                return .resumed(handled)
            }
            guard answer.has(name: "failed", namespace: Namespaces.sm) else {
                throw AccountError(.protocolViolation, "the server answered <resume/> with <\(answer.name)/>")
            }
            failedCount = HandledCount(answer["h"])
        }
        let jid = try bind(stream)
        let session = try enable(stream, jid: jid, canManage: canManage, uncounted: &uncounted)
        return .bound(session, failedCount: failedCount)
    }

    /// Asking to resume tells the server our count, so it is an acknowledgement. A process that was frozen while it
    /// connected must not make it when another has handled more meanwhile.
    private func askToResume(_ stream: BlockingStream) throws -> Resumption? {
        var asked: Resumption?
        try withResumption { resumption in
            try stream.send(
                Element(
                    "resume", namespace: Namespaces.sm,
                    attributes: ["h": resumption.handled.description, "previd": resumption.id]))
            asked = resumption
        }
        return asked
    }

    private func bind(_ stream: BlockingStream) throws -> JID {
        let payload = Element(
            "bind", namespace: Namespaces.bind,
            children: [Element("resource", namespace: Namespaces.bind, text: resource)])
        let id = StanzaID.random()
        try stream.send(IQ(type: .set, id: id, payload: payload).element)
        let answer = try stream.element()
        guard let iq = try? IQ(element: answer), iq.id == id, iq.type == .result,
            let text = iq.payload?.child("jid", Namespaces.bind)?.text, let jid = try? JID(text), jid.isFull
        else {
            let reason = (try? IQ(element: answer))?.error.map { "\($0)" } ?? "<\(answer.name)/>"
            throw AccountError(.bindFailed, "\(domain) gave no resource (\(reason)); it is tried again")
        }
        return jid
    }

    /// How many stanzas may come between `<enable/>` and its answer.
    private static let uncountedLimit = 1000

    private func enable(
        _ stream: BlockingStream, jid: JID, canManage: Bool, uncounted: inout [StreamParser.Event]
    ) throws -> BoundSession {
        var session = BoundSession(fullJID: jid, isManaged: false, resumptionID: nil, location: nil)
        guard canManage else { return session }
        try stream.send(
            Element(
                "enable", namespace: Namespaces.sm,
                attributes: ["resume": "true", "max": configuration.resumptionWindow.map(String.init)]))
        var answer = try stream.element()
        // The resource is bound, so stanzas may come; they count only behind <enabled/> (XEP-0198 section 4).
        while Stanza.isStanza(answer), uncounted.count < Self.uncountedLimit {
            uncounted.append(.element(answer))
            answer = try stream.element()
        }
        if answer.has(name: "enabled", namespace: Namespaces.sm) {
            session.isManaged = true
            // XEP-0198 section 3: only resume='true' (or '1') makes the id good for a resumption.
            if let flag = answer["resume"], flag == "true" || flag == "1" {
                session.resumptionID = answer["id"]
            }
            session.location = answer["location"]
        } else if !answer.has(name: "failed", namespace: Namespaces.sm) {
            throw AccountError(.protocolViolation, "the server answered <enable/> with <\(answer.name)/>")
        }
        return session
    }
}

/// An opened stream on its way from the thread that opened it to the account's own.
///
/// Unchecked: the opening thread gives its only reference away and never touches it again.
final class OpenedStream: @unchecked Sendable {
    let connection: Connection
    let parser: StreamParser
    /// Stanzas that came before stream management began.
    let uncounted: [StreamParser.Event]
    /// What arrived behind the answer that began the session.
    let early: [StreamParser.Event]
    /// Why the stream cannot be read beyond that.
    let parserError: StreamParserError?
    let outcome: StreamOpener.Outcome

    init(
        _ stream: BlockingStream, outcome: StreamOpener.Outcome, uncounted: [StreamParser.Event]
    ) {
        self.uncounted = uncounted
        connection = stream.connection
        parser = stream.parser
        early = Array(stream.events)
        parserError = stream.parserError
        self.outcome = outcome
    }
}

/// Ids of stanzas: random, so that nobody can guess one and none is used again after a restart.
public enum StanzaID {
    /// 128 random bits in hexadecimal.
    public static func random() -> String {
        var generator = SystemRandomNumberGenerator()
        return [generator.next(), generator.next()].map { (bits: UInt64) in
            let text = String(bits, radix: 16)
            return String(repeating: "0", count: 16 - text.count) + text
        }.joined()
    }
}
