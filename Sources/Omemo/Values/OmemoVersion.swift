public import XMPPCore

/// A version of OMEMO. The two are not compatible; a user may be reachable by both.
///
/// ```swift
/// try await account.perform { try account.omemo.refresh(juliet, .omemo2, in: $0) }
/// ```
public enum OmemoVersion: String, PrintedRawValue, Hashable, Sendable, Codable, CaseIterable,
    CustomStringConvertible
{
    /// As most clients speak it (XEP-0384 version 0.3).
    case legacy = "eu.siacs.conversations.axolotl"
    /// The current one (XEP-0384 version 0.8 and later).
    case omemo2 = "urn:xmpp:omemo:2"

    /// The namespace of its elements.
    package var namespace: String { rawValue }

    /// The node that holds the device list.
    package var deviceListNode: String {
        self == .legacy ? "eu.siacs.conversations.axolotl.devicelist" : "urn:xmpp:omemo:2:devices"
    }

    /// The element that holds the devices.
    var deviceListElement: String { self == .legacy ? "list" : "devices" }

    /// The id under which the one item of a device list is published (XEP-0060 section 13.21).
    package static let deviceListItem = "current"
}
