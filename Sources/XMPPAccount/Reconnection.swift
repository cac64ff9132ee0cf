import XMPPCore
import XMPPTransport

/// Decides when a broken stream is opened again, and when that is given up. The rules need no clock and no socket.
struct Reconnection {
    /// The decision after a failure.
    enum Decision {
        /// Try again after this time.
        case retry(after: Duration)
        /// Stop: another attempt cannot succeed until something is changed.
        case stop(AccountError)
    }

    /// The maximum of the first wait. Each further maximum is twice as long.
    static let firstWait = Duration.milliseconds(250)
    /// No wait is longer than this.
    static let longestWait = Duration.seconds(60)
    /// The number of consecutive refusals after which reconnection stops, for a reason that will most likely stay: the server's
    /// certificate, or its login mechanisms. It is more than one, because a network with a login page causes the same errors for a
    /// while.
    static let refusalLimit = 3

    /// The number of consecutive unheard streams after which the session is given up.
    ///
    /// A resumed stream is unheard if it ends before the server has answered anything on it. The server may have resumed the
    /// session with the parser of an older connection, which would never understand anything.
    static let unheardLimit = 2

    /// Failures since the last session that held.
    private(set) var failures = 0
    private var refusals = 0
    private var hasRetriedConflict = false
    private var unheard = 0

    /// Starts the waits again, because a session was stable or the network has changed.
    mutating func reset() {
        let unheard = unheard
        self = Reconnection()
        self.unheard = unheard
    }

    /// Records that the server has answered on a stream, so that it understands this client.
    mutating func heard() { unheard = 0 }

    /// Counts a resumed stream that ended before the server had answered anything on it, although the server was reached.
    ///
    /// - Returns: Whether to give up the session, because this happened ``unheardLimit`` times in a row.
    mutating func endedUnheard() -> Bool {
        unheard += 1
        guard unheard >= Self.unheardLimit else { return false }
        unheard = 0
        return true
    }

    /// Records that a server was reached and its TLS accepted, even if the login failed later.
    mutating func trusted() { refusals = 0 }

    /// Decides what to do after a failure.
    ///
    /// - Parameter isFresh: Whether the failed stream had resumed its session just before. If the server still processes a
    ///   resumption of a killed process, it may take the wrong one of the two for the newer. So a conflict is retried once.
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

    /// Returns whether a server may report this error because its parser continues with an element that was never finished.
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
        // A reason of the server's own, which says nothing about what it is trusted for (RFC 5802 section 7, `other-error`).
        case let error as SASLError where error.code == .refused: return nil
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

    /// Returns whether the server was not reached. That says nothing about the server.
    private static func isAboutReaching(_ error: any Error) -> Bool {
        (error as? TransportError).map { !$0.isAboutTrust } ?? false
    }
}

extension TransportError {
    /// Whether a server was reached and its TLS was rejected.
    var isAboutTrust: Bool {
        [
            .certificateExpired, .certificateNotYetValid, .certificateNameMismatch, .certificateSelfSigned,
            .certificateUntrusted, .certificateInvalid, .certificateChanged, .tlsProtocolTooOld,
            .plaintextBeforeTLS,
        ].contains(code)
    }
}
