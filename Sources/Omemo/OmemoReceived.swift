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
    ///
    /// Of what stands beside the ciphertext nobody knows who wrote it: see ``decrypted``.
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

extension OmemoReceived {
    /// The message as its sender wrote it: the decrypted content in the place of the ciphertext. Nil if it was not decrypted.
    ///
    /// Its ``/XMPPCore/Message/body``, ``/XMPPCore/Message/correction``, ``/XMPPCore/Message/reply`` and the like read what
    /// was encrypted. Only this is taken from outside the ciphertext:
    ///
    /// - addresses, `id`, type, and what servers add: ids of archives and occupants, times, hints, the mark of a room;
    /// - in the legacy version, whose clients encrypt nothing but the text: the correction, the reply, requests for
    ///   receipts and markers, the chat state and the thread, and a fallback that hides whole lines of quotes only.
    ///
    /// The server of either side can write, change and remove all of these. It can present one message of the sender's as
    /// the correction of another, but no text that the sender did not write. A text, a link or a file beside the ciphertext
    /// is never taken.
    ///
    /// ```swift
    /// if let message = call.decrypted, message.corrects(earlier) { replace(earlier, by: message.body) }
    /// ```
    public var decrypted: Message? {
        guard case .content(let content) = outcome else { return nil }
        var element = message.element
        let plain = element.elements.filter(OmemoEnvelope.isPlain)
        let beside = version == .legacy ? OmemoBeside.elements(of: message, body: content.body) : []
        element.children = (content.children + plain + beside).map { .element($0) }
        return try? Message(element: element)
    }
}
