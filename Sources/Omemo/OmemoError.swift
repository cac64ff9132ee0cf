public import XMPPCore

/// Error of OMEMO, with a sentence that says what to do.
///
/// ```swift
/// if case .failed(let error) = call.outcome, error.code == .notForThisDevice { return }
/// ```
public struct OmemoError: CodedError {
    /// Kind of error; open for new kinds.
    public struct Code: RawRepresentable, Hashable, Sendable, Codable, CustomStringConvertible {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
        public var description: String { rawValue }

        /// What a peer sent has not the form that the protocol demands.
        public static let malformed = Code(rawValue: "malformed")
        /// A signature does not fit its key.
        package static let badSignature = Code(rawValue: "bad-signature")
        /// The message was decrypted before.
        public static let duplicate = Code(rawValue: "duplicate")
        /// There is no session with the sender's device.
        package static let noSession = Code(rawValue: "no-session")
        /// The message fits no session with the sender's device, or was changed on its way.
        public static let undecryptable = Code(rawValue: "undecryptable")
        /// The message was encrypted with a key of ours that is gone.
        package static let unknownPreKey = Code(rawValue: "unknown-prekey")
        /// The message is not for this device.
        public static let notForThisDevice = Code(rawValue: "not-for-this-device")
        /// What was decrypted contradicts the stanza around it.
        package static let envelopeRejected = Code(rawValue: "envelope-rejected")
        /// This account has no device yet.
        package static let noDevice = Code(rawValue: "no-device")
        /// The identity key is not known.
        package static let unknownIdentity = Code(rawValue: "unknown-identity")
        /// The room's members are not known.
        package static let unknownRoom = Code(rawValue: "unknown-room")
        /// The cryptographic library failed.
        package static let cryptoFailed = Code(rawValue: "crypto-failed")
    }

    /// Kind of the error.
    public let code: Code
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

    public var description: String { VisibleText("\(message) (\(code))").description }
}
