public import XMPPCore

/// An error of a connection that could not be made or was lost.
///
/// `description` is one sentence that names the host and the domain and says what to do. Decide on `code`:
///
/// ```swift
/// do {
///     try await account.connect()
/// } catch let error as TransportError where error.code == .certificateExpired {
///     print(error)
/// }
/// ```
public struct TransportError: DetailedError, CodedError, Hashable {
    /// Kind of the error.
    public let code: ErrorCode<TransportError>
    /// A sentence for a person: what happened, and what to do.
    public let message: String
    /// The message of the system or of OpenSSL, if there is one.
    package let words: ReportedWords?

    package init(_ code: Code, _ message: String, cause: String? = nil) {
        self.code = code
        self.message = message
        words = cause.map(ReportedWords.init)
    }

    /// What the system or OpenSSL said, as an error whose description it is.
    package var storedCause: (any Error)? { words }

    /// The message, and the cause in parentheses.
    package var details: String { messageWithCause }
}

// MARK: - Codes

extension ErrorCode where Failure == TransportError {
    /// The name does not exist in DNS.
    package static var nameNotFound: Self { Self(rawValue: "nameNotFound") }
    /// The name could not be looked up now; it may exist.
    package static var lookupFailed: Self { Self(rawValue: "lookupFailed") }
    /// The domain says that it does not offer the service.
    package static var serviceNotOffered: Self { Self(rawValue: "serviceNotOffered") }
    /// The host answered that nothing listens on the port.
    public static var refused: Self { Self(rawValue: "refused") }
    /// No route to the host, or the network is down.
    package static var unreachable: Self { Self(rawValue: "unreachable") }
    /// The deadline passed.
    public static var timedOut: Self { Self(rawValue: "timedOut") }
    /// The interrupting file descriptor became readable: the caller requested a stop.
    package static var interrupted: Self { Self(rawValue: "interrupted") }
    /// The peer closed the connection before what was asked for was done.
    package static var connectionClosed: Self { Self(rawValue: "connectionClosed") }
    /// The connection broke (reset by the peer, or its acknowledgements stopped).
    package static var connectionReset: Self { Self(rawValue: "connectionReset") }
    /// The connection was closed on this side before the call.
    package static var notConnected: Self { Self(rawValue: "notConnected") }
    /// The server's certificate is past its last day.
    public static var certificateExpired: Self { Self(rawValue: "certificateExpired") }
    /// The server's certificate is not valid yet; most often this machine's clock is wrong.
    package static var certificateNotYetValid: Self { Self(rawValue: "certificateNotYetValid") }
    /// The server's certificate is for other names than the account's domain.
    package static var certificateNameMismatch: Self { Self(rawValue: "certificateNameMismatch") }
    /// The server's certificate signs itself and is not among the trusted ones.
    package static var certificateSelfSigned: Self { Self(rawValue: "certificateSelfSigned") }
    /// The server's certificate was issued by an authority that is not trusted.
    package static var certificateUntrusted: Self { Self(rawValue: "certificateUntrusted") }
    /// The server's certificate fails another rule (revoked, weak key, wrong purpose…).
    package static var certificateInvalid: Self { Self(rawValue: "certificateInvalid") }
    /// The server's certificate is good but its key is not the pinned one.
    public static var certificateChanged: Self { Self(rawValue: "certificateChanged") }
    /// The server speaks only TLS 1.1 or older.
    package static var tlsProtocolTooOld: Self { Self(rawValue: "tlsProtocolTooOld") }
    /// Bytes that TLS does not protect came where TLS must start (RFC 6120 section 5.4.3.3).
    package static var plaintextBeforeTLS: Self { Self(rawValue: "plaintextBeforeTLS") }
    /// TLS failed in another way.
    package static var tlsFailed: Self { Self(rawValue: "tlsFailed") }
    /// A certificate, key or trust file could not be used.
    package static var invalidCredentialFile: Self { Self(rawValue: "invalidCredentialFile") }
    /// A system call failed, for instance because too many files are open.
    package static var systemFailure: Self { Self(rawValue: "systemFailure") }
}
