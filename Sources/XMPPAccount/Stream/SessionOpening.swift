import Handlers
import XMPPCore
import XMPPTransport

/// From a protected connection to a session: one attempt, on one stream.
struct SessionOpening {
    let opener: StreamOpener
    let stream: OpeningStream
    let known: KnownLogin
    /// Stanzas that came before stream management began.
    var uncounted: [StreamParser.Event] = []
    var learned = LearnedLogin()
    /// The server's answers of stream management.
    var answers: [Element] = []
    /// Whether the program lets the stored session be resumed.
    var mayResume = true

    /// A login that has been sent and not answered.
    struct Attempt {
        var exchange: any SASLExchange
        /// The profile: XEP-0388, or RFC 6120.
        var isExtensible: Bool
        /// Whether the server resumes or binds with the last response.
        var startsSession = false
        /// The session that the request asks to resume.
        var resumption: StreamOpener.Resumption?
        /// The mechanism of the token that the request asks for.
        var requested: HashedTokenMechanism?
        /// The token that the request used.
        var spent: SpentToken?

        func isOffered(in offer: ServerOffer) -> Bool {
            let login = isExtensible ? offer.extensible?.login : offer.classic
            return login?.mechanisms.contains(exchange.mechanismName) == true
        }
    }

    var configuration: AccountConfiguration { opener.configuration }
    var domain: String { opener.domain }
    /// Sends the account's address before the login (XEP-0484 section 4.1).
    private var from: String? { configuration.jid.local == nil ? nil : configuration.jid.description }

    /// The result of a login.
    enum Result {
        case opened(StreamOpener.Outcome)
        case wait(Duration)
        /// The server did not understand a request that relied on an earlier offer.
        case staleOffer(AccountError)
    }

    mutating func run() async throws -> Result {
        if let wait = choose() { return .wait(wait) }
        try stream.start(to: domain, from: from)
        var attempt: Attempt?
        // What was offered last time is most likely offered again.
        if let offer = known.offer { attempt = try? await start(offer, isAhead: true) }
        do {
            let features = try await stream.features()
            learned.offer = ServerOffer.stored(features)
            let offer = ServerOffer(features)
            return .opened(try await authenticate(offer, attempt))
        } catch let error as AccountError where attempt != nil && error.isAboutTheStream {
            return .staleOffer(error)
        }
    }

    private mutating func authenticate(
        _ offer: ServerOffer, _ ahead: Attempt?
    ) async throws -> StreamOpener.Outcome {
        var isAhead = ahead != nil
        var mayUseToken = ahead?.spent == nil
        var attempt: Attempt
        if let ahead { attempt = ahead } else { attempt = try await start(offer) }
        while true {
            switch try await converse(&attempt, offer) {
            case .success(let success):
                configuration.log(
                    .info, .login,
                    "logged in by \(attempt.exchange.mechanismName)\(attempt.isExtensible ? " (SASL2)" : "")")
                record(attempt)
                return try await start(after: success, attempt)
            case .failure(let failure):
                configuration.log(.verbose, .login, "\(attempt.exchange.mechanismName) was refused")
                if let spent = attempt.spent {
                    // XEP-0484 section 4.1: discard it and log in otherwise.
                    try opener.login.discard(spent)
                    mayUseToken = false
                } else if !isAhead || attempt.isOffered(in: offer) {
                    throw LoginRefusal(failure).error(of: attempt.exchange.mechanismName, configuration)
                }
                isAhead = false
                attempt = try await start(offer, mayUseToken: mayUseToken)
            }
        }
    }

    /// Remembers a successful login.
    private mutating func record(_ attempt: Attempt) {
        guard let scram = attempt.exchange as? SCRAMClient, let keys = scram.keys else { return }
        learned.scram = (scram.mechanism, keys.iterations)
        opener.memory.keys = keys
    }

    /// Reads the features of the stream that begins with the login's success, where there is one.
    private mutating func start(
        after success: Element, _ attempt: Attempt
    ) async throws -> StreamOpener.Outcome {
        guard attempt.isExtensible else {
            try stream.start(to: domain, from: from)
            return try await startClassicSession(isNewStream: true, hasAskedToResume: false, failed: nil)
        }
        let success = try SASL2Success(success)
        if let requested = attempt.requested ?? attempt.spent?.mechanism, let token = success.token {
            learned.token = (requested, token)
        }
        return try await startSession(success, attempt)
    }
}

extension AccountError {
    /// Whether the server broke off or did not understand, as when something is sent that it did not offer. One that refuses a login has
    /// understood.
    fileprivate var isAboutTheStream: Bool {
        [.streamError, .connectionFailed, .protocolViolation].contains(code) && !(cause is TransportError)
            && !(cause is LoginRefusal) && (cause as? StreamError)?.condition != .seeOtherHost
    }
}
