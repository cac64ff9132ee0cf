/// A SCRAM mechanism (RFC 5802, RFC 7677): a hash, with or without channel binding.
package struct SCRAMMechanism: Hashable, Sendable {
    package let hash: Crypto.Hash
    /// Whether the mechanism is a `-PLUS` one, which binds the login to the TLS session.
    package let isPlus: Bool

    package init(_ hash: Crypto.Hash, isPlus: Bool = false) {
        self.hash = hash
        self.isPlus = isPlus
    }

    /// Makes the mechanism with this registered name; nil for other names.
    package init?(name: some StringProtocol) {
        guard let known = SCRAMMechanism.byPreference.first(where: { $0.name == name }) else { return nil }
        self = known
    }

    /// The registered name: `SCRAM-SHA-256-PLUS`.
    package var name: String { "SCRAM-" + hash.rawValue + (isPlus ? "-PLUS" : "") }

    /// All that are supported, the best first: channel binding before the strength of the hash, because what
    /// it stops (a stranger with a valid certificate) is the likelier attack.
    package static let byPreference: [SCRAMMechanism] = [true, false].flatMap { isPlus in
        [Crypto.Hash.sha512, .sha256, .sha1].map { SCRAMMechanism($0, isPlus: isPlus) }
    }
}
