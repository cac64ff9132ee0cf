public import XMPPCore

/// Trust decision of the user about an identity key.
///
/// ```swift
/// try account.omemo.setTrust(.untrusted, in: key, of: juliet, in: step)
/// ```
public enum OmemoTrust: Int64, Hashable, Sendable, Codable, CaseIterable {
    /// Nothing yet: messages are shown as such, and none is encrypted for it.
    case undecided = 0
    /// Trusted without a question to the user.
    ///
    /// No key of this user has been verified, and this device had no other.
    case blind = 1
    /// The user compared the fingerprint.
    case verified = 2
    /// The user refused it.
    case untrusted = 3

    /// Whether content is encrypted for it.
    public var mayReceive: Bool { self == .blind || self == .verified }

    /// Returns the trust of a key that is seen for the first time: blind trust until the first verification, and never for a
    /// key that takes another's place.
    static func atFirstSight(replacesAnother: Bool, hasVerified: Bool) -> OmemoTrust {
        replacesAnother || hasVerified ? .undecided : .blind
    }
}

/// An identity key of a user and what is known about it.
///
/// ```swift
/// for identity in try account.omemo.identities(of: juliet, in: step) {
///     print(identity.key.fingerprint, identity.trust)
/// }
/// ```
public struct OmemoIdentity: Hashable, Sendable {
    /// The user's bare address.
    public let jid: JID
    /// The key.
    public let key: IdentityKey
    /// The user's decision.
    public let trust: OmemoTrust
    /// The devices that have it now, in the order of their numbers. None when it was replaced.
    public let devices: [OmemoDeviceID]
    /// When it was first seen.
    package let firstSeen: Timestamp
}
