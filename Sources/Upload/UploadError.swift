import Platform
import XMPPAccount
import XMPPTransport
public import XMPPCore

/// An error of an upload or a download.
///
/// ```swift
/// if case .failed(let error) = call.outcome, error.code == .tooLarge { print(error.maximumSize ?? 0) }
/// ```
public struct UploadError: DetailedError, CodedError, Hashable, Codable {
    /// Kind of the error.
    public let code: ErrorCode<UploadError>
    /// A sentence that says what happened and what to do. It holds no key and no header of a slot.
    public let message: String
    /// The largest size in bytes that is allowed. Nil when that is not known.
    public internal(set) var maximumSize: Int64?
    /// When the service allows another attempt; nil when it did not say.
    public internal(set) var retryAt: Timestamp?
    /// The web server's status, such as 403; nil when it gave none.
    public internal(set) var status: Int?
    /// The condition of the service's error; nil when it gave none.
    public internal(set) var condition: ForeignText?

    /// Makes an error, for tests of a handler.
    ///
    /// - Parameters:
    ///   - code: What went wrong.
    ///   - message: A sentence that says what happened and what to do.
    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    package var details: String { "\(message) (\(code))" }

    // MARK: What is said in several places

    static func tooLarge(_ size: Int64, maximum: Int64?) -> UploadError {
        let limit = maximum.map { "at most \($0) are allowed" } ?? "that is more than the service allows"
        var error = UploadError(.tooLarge, "the file has \(size) bytes and \(limit); send a smaller one")
        error.maximumSize = maximum
        return error
    }

    static func notSent(_ error: AccountError) -> UploadError {
        UploadError(.notSent, "the account does not send what belongs to this upload: \(error)")
    }

    static func status(_ status: Int) -> UploadError {
        var error = UploadError(
            .httpStatus, "the web server answered with the status \(status); try again later")
        error.status = status
        return error
    }

    static func privateAddress(_ address: SocketAddress) -> UploadError {
        UploadError(
            .privateAddress,
            "the web server is at \(address.text), on this machine or in a private network; if it may be reached there, name its host in UploadModule(privateHosts:)"
        )
    }

    init(_ error: AESGCMError) {
        switch error.code {
        case .wrongSize: self.init(.malformed, error.message)
        case .forged:
            self.init(.undecryptable, "the file is not what was encrypted; do not use it")
        default: self.init(.cryptoFailed, error.message)
        }
    }

    /// Whether a new slot cannot help.
    var isFinal: Bool {
        [.tooLarge, .fileMissing, .fileChanged, .fileUnreadable, .invalidFile].contains(code)
    }
}

// MARK: - Codes

extension ErrorCode where Failure == UploadError {
    /// The server has no upload service, or none that answers.
    public static var noService: Self { Self(rawValue: "no-service") }
    /// The file is larger than allowed; see ``UploadError/maximumSize``.
    public static var tooLarge: Self { Self(rawValue: "too-large") }
    /// The account has uploaded too much; see ``UploadError/retryAt``.
    public static var quotaExceeded: Self { Self(rawValue: "quota-exceeded") }
    /// The service gives no slot; see ``UploadError/condition``.
    public static var refused: Self { Self(rawValue: "refused") }
    /// The service's answer is no usable slot.
    public static var invalidSlot: Self { Self(rawValue: "invalid-slot") }
    /// What was to be uploaded cannot be: its name, its type, or no bytes.
    package static var invalidFile: Self { Self(rawValue: "invalid-file") }
    /// There is no such file.
    public static var fileMissing: Self { Self(rawValue: "file-missing") }
    /// The file is no longer the one that was to be uploaded.
    public static var fileChanged: Self { Self(rawValue: "file-changed") }
    /// The system does not let this process read or write the file.
    public static var fileUnreadable: Self { Self(rawValue: "file-unreadable") }
    /// There is a file where the fetched one was to be.
    package static var fileExists: Self { Self(rawValue: "file-exists") }
    /// The web server answered with another status than success; see ``UploadError/status``.
    public static var httpStatus: Self { Self(rawValue: "http-status") }
    /// The web server could not prove who it is.
    public static var tls: Self { Self(rawValue: "tls") }
    /// The web server was not reached, or the line broke or stood still.
    public static var connection: Self { Self(rawValue: "connection") }
    /// The web server's address is on this machine or in a private network, and its host is not among `privateHosts`.
    public static var privateAddress: Self { Self(rawValue: "private-address") }
    /// The account does not send the message. For example, it has left the room.
    public static var notSent: Self { Self(rawValue: "not-sent") }
    /// The program canceled it.
    public static var cancelled: Self { Self(rawValue: "cancelled") }
    /// Too many uploads wait.
    package static var tooManyUploads: Self { Self(rawValue: "too-many-uploads") }
    /// The processes that put the file died, or their store failed, again and again.
    public static var abandoned: Self { Self(rawValue: "abandoned") }
    /// A link is none.
    package static var malformed: Self { Self(rawValue: "malformed") }
    /// A fetched file is not what was encrypted.
    package static var undecryptable: Self { Self(rawValue: "undecryptable") }
    /// The cryptographic library failed.
    package static var cryptoFailed: Self { Self(rawValue: "crypto-failed") }
}
