public import XMPPAccount
public import XMPPCore
import XMPPModules

/// The context of a handler that waits until a message is encrypted.
///
/// Then the message is in the outbox, or it was given up.
///
/// ```swift
/// @Handler("secret.sent")
/// static func sent(_ call: borrowing Call<OmemoSending>) throws {
///     for device in call.failures {
///         try call.step.execute("INSERT INTO unread VALUES (?, ?)", device.jid.description, "\(device.failure!)")
///     }
/// }
/// ```
public struct OmemoSending: Sendable {
    /// A device and why the message was not encrypted for it.
    public struct Device: Hashable, Sendable {
        /// Its user's bare address.
        public let jid: JID
        /// Its number; nil when the user's devices could not be learned.
        public let device: OmemoDeviceID?
        /// The reason why the device cannot read the message. Nil if it can.
        public let failure: Failure?
    }

    /// The reason why a device is left out.
    public enum Failure: Hashable, Sendable, CustomStringConvertible {
        /// The user has no device that speaks a version of ours.
        case noDevices
        /// The device list could not be fetched; the reason in words.
        case listUnknown(ForeignText)
        /// There is no session and no usable bundle; the reason in words.
        case noBundle(ForeignText)
        /// The device's identity key is new and undecided.
        case undecided(IdentityKey)
        /// The user refused its identity key.
        case untrusted(IdentityKey)
        /// The session could not be used; the reason in words.
        case broken(ForeignText)
        /// Its version of OMEMO cannot carry this content.
        case unsupportedContent

        public var description: String {
            switch self {
            case .noDevices: "the user has no OMEMO device"
            case .listUnknown(let reason): "the device list is not known: \(VisibleText(reason))"
            case .noBundle(let reason): "the device's keys are not known: \(VisibleText(reason))"
            case .undecided: "nobody has decided yet whether to trust the device's key"
            case .untrusted: "the device's key is not trusted"
            case .broken(let reason): "the session with the device is broken: \(VisibleText(reason))"
            case .unsupportedContent: "the device's version of OMEMO cannot carry all of the content"
            }
        }
    }

    /// The account that sends.
    public let account: Account
    /// The message's id, as `send` returned it.
    public let id: String
    /// Recipient: a user's or a room's bare address.
    public let target: JID
    /// Whether it was handed to the outbox. If not, nothing of it left: no device of the recipient can read it.
    public let isSent: Bool
    /// All devices that were considered, those that can read it and those that cannot.
    public let devices: [Device]

    /// The devices that cannot read it.
    public var failures: [Device] { devices.filter { $0.failure != nil } }
}

/// A message before it is encrypted.
struct OmemoDraft {
    let id: String
    let target: JID
    let isRoom: Bool
    let content: OmemoContent
}

extension OmemoDraft {
    /// Whether a receipt is asked for. In rooms nobody would send one, and without text there is nothing to receive.
    func isWatched(by account: Account) -> Bool {
        !isRoom && content.body != nil && account.moduleIfPresent(ChatModule.self) != nil
    }

    /// The content with what ``/XMPPModules/Chat/send(_:within:attempts:then:in:)`` adds to a plain message.
    func completed(for account: Account) -> OmemoContent {
        var content = content
        if isWatched(by: account) { content.elements += Chat.additions(to: content.elements) }
        return content
    }
}
