package import XMPPCore

/// A mechanism that logs in with a token in one round trip, such as `HT-SHA-256-EXPR` (XEP-0484).
package struct HashedTokenMechanism: Hashable, Sendable {
    package let hash: Crypto.Hash
    /// The type of channel binding; nil for `-NONE`.
    package let binding: ChannelBindingType?

    private static let suffixes: [(text: String, binding: ChannelBindingType?)] = [
        ("EXPR", .tlsExporter), ("UNIQ", .tlsUnique), ("ENDP", .tlsServerEndPoint), ("NONE", nil),
    ]

    /// Makes the mechanism with this name; nil for other names.
    package init?(name: String) {
        for hash in [Crypto.Hash.sha512, .sha256] {
            for (suffix, binding) in Self.suffixes where name == "HT-\(hash.rawValue)-\(suffix)" {
                (self.hash, self.binding) = (hash, binding)
                return
            }
        }
        return nil
    }

    package var name: String {
        "HT-\(hash.rawValue)-" + (Self.suffixes.first { $0.binding == binding }?.text ?? "NONE")
    }

    /// Returns the best mechanism for a token: one with channel binding before one without.
    package static func best(_ offered: [ForeignText], bindings: ChannelBindings) -> HashedTokenMechanism? {
        let known = offered.filter { $0.utf8.count <= 64 }.compactMap {
            HashedTokenMechanism(name: $0.string)
        }.sorted {
            $0.hash.size > $1.hash.size
        }
        for type in bindings.types {
            if let found = known.first(where: { $0.binding == type }) { return found }
        }
        return known.first { $0.binding == nil }
    }
}

/// The client's side of a login with a token (draft-schmaus-kitten-sasl-ht): a keyed hash each way.
package struct HashedTokenClient: SASLExchange {
    package let mechanismName: String
    package let initialResponse: [UInt8]
    private let expected: [UInt8]

    /// - Parameters:
    ///   - user: The account's local part.
    ///   - bindings: Of the session; nil is returned when it lacks what the mechanism binds to.
    package init?(
        _ mechanism: HashedTokenMechanism, user: String, token: SecretBytes, bindings: ChannelBindings
    ) {
        var data: [UInt8] = []
        if let type = mechanism.binding {
            guard let found = bindings[type] else { return nil }
            data = found
        }
        mechanismName = mechanism.name
        let proof = Crypto.hmac(mechanism.hash, key: token, Array("Initiator".utf8) + data)
        initialResponse = Array(user.utf8) + [0] + proof
        expected = Crypto.hmac(mechanism.hash, key: token, Array("Responder".utf8) + data)
    }

    package mutating func finish(success: [UInt8]) throws(SASLError) {
        guard Crypto.isEqual(success, expected) else {
            throw SASLError(
                .serverNotAuthenticated,
                "The server did not prove that it knows the token, so it may be an impostor; do not trust this "
                    + "connection.", cause: "wrong responder hash")
        }
    }
}
