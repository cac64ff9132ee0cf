public import XMPPAccount
public import XMPPCore

/// The context of a handler that takes decrypted messages.
///
/// ```swift
/// switch call.outcome {
/// case .content(let content): …      // decrypted; look at call.trust before believing who said it
/// case .failed(let error): …         // could not be read; tell the user that something is missing
/// }
/// ```
public struct OmemoReceived: Sendable {
    /// Outcome of decrypting the message.
    public enum Outcome: Sendable {
        /// It was decrypted.
        case content(OmemoContent)
        /// It could not be read, and why.
        case failed(OmemoError)
    }

    /// The account that received it.
    public let account: Account
    /// The surrounding message, without the carbon copy or archive result around it.
    public let message: Message
    /// The sender's bare address, also in rooms; nil if unknown.
    public let sender: JID?
    /// The sender's device.
    public let device: OmemoDeviceID?
    /// The version in which it was encrypted; nil when it is malformed.
    public let version: OmemoVersion?
    /// The key of the sender's device. Nil when the message could not be decrypted.
    public let identity: IdentityKey?
    /// The user's decision about that key. Messages of undecided and untrusted keys are decrypted, too.
    public let trust: OmemoTrust
    /// Outcome of decrypting it.
    public let outcome: Outcome
    /// Whether another device of the account sent it.
    public let isOutgoing: Bool
    /// Whether it comes out of an archive or the history of a room; see ``/XMPPAccount/MessageReceived/isHistory``.
    public let isHistory: Bool
}
