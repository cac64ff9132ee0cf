public import XMPPCore

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A sent stanza that the server has acknowledged (XEP-0198 section 4).
public struct AcknowledgedStanza: Hashable, Sendable {
    /// The element's id; nil when it has none.
    public let id: ForeignText?
    /// The key under which it was sent, as JSON.
    let storedKey: String?

    /// Returns the key under which it was sent. Nil when it was sent without one.
    ///
    /// ```swift
    /// try await account.send(message, key: MessageKey(chat: "juliet", row: 17))
    /// for await case .acknowledged(let stanzas) in account.events {
    ///     for stanza in stanzas { try markSent(stanza.key(as: MessageKey.self)) }
    /// }
    /// ```
    ///
    /// - Parameter type: The type of the key; inferred where the context says it.
    /// - Returns: The key.
    /// - Throws: `DecodingError` when it is of another type.
    public func key<Key: Decodable>(as type: Key.Type = Key.self) throws -> Key? {
        try storedKey.map { try JSONDecoder().decode(type, from: Data($0.utf8)) }
    }

    static func storing(_ key: (any Encodable)?) throws -> String? {
        guard let key else { return nil }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(key), as: UTF8.self)
    }
}
