import XMPPCore
import XMPPTransport

/// When a broken stream is opened again, and when that is given up: rules without clock or socket.
struct Reconnection {
    /// The decision after a failure.
    enum Decision {
        /// Try again after this time.
        case retry(after: Duration)
        /// Trying again cannot help until someone changes something.
        case stop(AccountError)
    }

    /// The first wait is at most this long; each further one twice as long as the one before.
    static let firstWait = Duration.milliseconds(250)
    /// No wait is longer than this.
    static let longestWait = Duration.seconds(60)
    /// The number of consecutive refusals for a reason that will most likely stay: a certificate, or what it
    /// offers to log in with. Not at once, because a network that wants a login of its own looks the same for a while.
    static let refusalLimit = 3

    /// The number of consecutive resumed streams that may end before the server has answered anything on them: it may have
    /// resumed the session and not the parser, and would never understand anything.
    static let unheardLimit = 2

    /// Failures since the last session that held.
    private(set) var failures = 0
    private var refusals = 0
    private var hasRetriedConflict = false
    private var unheard = 0

    /// A session held, or the network changed: waits start again.
    mutating func reset() {
        let unheard = unheard
        self = Reconnection()
        self.unheard = unheard
    }

    /// The server answered what was sent on a stream.
    mutating func heard() { unheard = 0 }

    /// A resumed stream ended before that, although the server was reached.
    ///
    /// - Returns: Whether the session is to be given up.
    mutating func endedUnheard() -> Bool {
        unheard += 1
        guard unheard >= Self.unheardLimit else { return false }
        unheard = 0
        return true
    }

    /// A server was reached and believed, whatever came after.
    mutating func trusted() { refusals = 0 }

    /// - Parameter isFresh: Whether the stream that failed had gone on with its session only just now. A server that still
    ///   had a resumption of a killed process before it may then take the wrong one of the two for the newer: a conflict
    ///   is tried once more.
    mutating func failed(
        _ error: any Error, isFresh: Bool = false, using generator: inout some RandomNumberGenerator
    ) -> Decision {
        if let reason = Self.finalReason(error) {
            guard reason.code == .conflict, isFresh, !hasRetriedConflict else { return .stop(reason) }
            hasRetriedConflict = true
        }
        if let reason = Self.refusal(error) {
            refusals += 1
            if refusals >= Self.refusalLimit { return .stop(reason) }
        } else if !Self.isAboutReaching(error) {
            refusals = 0
        }
        return .retry(after: nextWait(using: &generator))
    }

    /// The wait after another failure, in whole milliseconds.
    mutating func nextWait(using generator: inout some RandomNumberGenerator) -> Duration {
        failures += 1
        // Half of it at random, so that the clients of a server that restarts do not come at the same moment.
        let ceiling = min(Self.longestWait, Self.firstWait * (1 << min(failures - 1, 16))).milliseconds
        return .milliseconds(Int64.random(in: ceiling / 2...ceiling, using: &generator))
    }

    // MARK: Reasons

    /// Returns whether a server may say that when its parser goes on with an element that was never finished.
    static func isAboutUnfinishedElement(_ error: AccountError) -> Bool {
        guard let condition = (error.cause as? StreamError)?.condition else { return false }
        return [
            .notWellFormed, .invalidXML, .badFormat, .badNamespacePrefix, .invalidNamespace,
            .unsupportedStanzaType,
        ].contains(condition)
    }

    /// Returns the error that ends reconnection at once.
    private static func finalReason(_ error: any Error) -> AccountError? {
        switch error {
        case let error as AccountError where error.isFinal: return error
        case let error as AccountError where (error.cause as? StreamError)?.condition == .conflict:
            return AccountError(
                .conflict,
                "the server ended the stream because another client took the session's place; connect again to take it back",
                cause: error.cause)
        case let error as SASLError where [.forbiddenCredentials, .notAuthorized].contains(error.code):
            return AccountError(.notAuthorized, error.message, cause: error)
        case let error as TransportError
        where [.invalidCredentialFile, .serviceNotOffered].contains(error.code):
            return AccountError(.invalidConfiguration, error.message, cause: error)
        default: return nil
        }
    }

    /// Returns the error that ends reconnection when it repeats.
    private static func refusal(_ error: any Error) -> AccountError? {
        switch error {
        case let error as SASLError:
            return AccountError(.untrustedServer, error.message, cause: error)
        case let error as TransportError where error.isAboutTrust:
            return AccountError(.untrustedServer, error.message, cause: error)
        case let error as AccountError:
            let condition = (error.cause as? StreamError)?.condition
            let isUnknownHost = condition == .hostUnknown || condition == .hostGone
            return isUnknownHost ? AccountError(.streamError, error.message, cause: error.cause) : nil
        default: return nil
        }
    }

    /// A network that is gone for a moment says nothing about the server.
    private static func isAboutReaching(_ error: any Error) -> Bool {
        (error as? TransportError).map { !$0.isAboutTrust } ?? false
    }
}

extension TransportError {
    /// Whether a server was there and its TLS was not good enough.
    var isAboutTrust: Bool {
        [
            .certificateExpired, .certificateNotYetValid, .certificateNameMismatch, .certificateSelfSigned,
            .certificateUntrusted, .certificateInvalid, .certificateChanged, .tlsProtocolTooOld,
            .plaintextBeforeTLS,
        ].contains(code)
    }
}
