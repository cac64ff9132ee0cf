public import XMPPCore

/// Error of OMEMO, with a sentence that says what to do.
///
/// ```swift
/// if case .failed(let error) = call.outcome, error.code == .notForThisDevice { return }
/// ```
public struct OmemoError: DetailedError, CodedError {
    /// Kind of the error.
    public let code: ErrorCode<OmemoError>
    /// A sentence that says what happened and what to do. It holds no key and no plaintext.
    public let message: String

    /// Makes an error, for tests of a handler.
    ///
    /// - Parameters:
    ///   - code: What went wrong.
    ///   - message: A sentence that says what happened and what to do, without keys and plaintext.
    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    package var details: String { "\(message) (\(code))" }
}

// MARK: - Codes

extension ErrorCode where Failure == OmemoError {
    /// Data of a peer that breaks the protocol.
    public static var malformed: Self { Self(rawValue: "malformed") }
    /// The message was decrypted before.
    public static var duplicate: Self { Self(rawValue: "duplicate") }
    /// There is no session with the sender's device.
    package static var noSession: Self { Self(rawValue: "no-session") }
    /// The message fits no session with the sender's device, or was changed on its way.
    public static var undecryptable: Self { Self(rawValue: "undecryptable") }
    /// The message was encrypted with a key of ours that is gone.
    package static var unknownPreKey: Self { Self(rawValue: "unknown-prekey") }
    /// The message is not for this device.
    public static var notForThisDevice: Self { Self(rawValue: "not-for-this-device") }
    /// What was decrypted contradicts the stanza around it.
    package static var envelopeRejected: Self { Self(rawValue: "envelope-rejected") }
    /// This account has no device yet.
    package static var noDevice: Self { Self(rawValue: "no-device") }
    /// The identity key is not known.
    package static var unknownIdentity: Self { Self(rawValue: "unknown-identity") }
    /// The room's members are not known.
    package static var unknownRoom: Self { Self(rawValue: "unknown-room") }
    /// The cryptographic library failed.
    package static var cryptoFailed: Self { Self(rawValue: "crypto-failed") }
}
