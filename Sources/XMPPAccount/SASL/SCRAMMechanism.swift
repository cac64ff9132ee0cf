/// One SCRAM mechanism (RFC 5802, RFC 7677): a hash, with or without channel binding.
package struct SCRAMMechanism: Hashable, Sendable {
    package let hash: Crypto.Hash
    /// Whether the mechanism is a `-PLUS` one, which binds the login to the TLS session.
    package let isPlus: Bool

    package init(_ hash: Crypto.Hash, isPlus: Bool = false) {
        self.hash = hash
        self.isPlus = isPlus
    }

    /// The mechanism with this registered name; nil for other mechanisms.
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

/// What a SCRAM client says about channel binding in the gs2 header (RFC 5802 section 6).
package enum ChannelBinding: Hashable, Sendable {
    /// `n`: this client does not use it.
    case unsupported
    /// `y`: this client could, but believes that the server cannot. A server that can then knows that its
    /// offer was tampered with.
    case notOffered
    /// `p=tls-exporter`: used, with this data (RFC 9266).
    case tlsExporter([UInt8])

    /// The start of the gs2 header, and the data that follows the header in `c=`.
    var flagAndData: (flag: String, data: [UInt8]) {
        switch self {
        case .unsupported: ("n", [])
        case .notOffered: ("y", [])
        case .tlsExporter(let data): ("p=tls-exporter", data)
        }
    }
}

/// The mechanism to log in with, and what to say about channel binding.
package struct SCRAMChoice: Hashable, Sendable {
    package let mechanism: SCRAMMechanism
    package let binding: ChannelBinding

    package init(mechanism: SCRAMMechanism, binding: ChannelBinding = .unsupported) {
        self.mechanism = mechanism
        self.binding = binding
    }

    /// The best of what the server offers. PLAIN and other mechanisms are never chosen.
    ///
    /// - Parameters:
    ///   - offered: The names in the server's `<mechanisms/>`.
    ///   - bindingTypes: The types in the server's `<sasl-channel-binding/>` (XEP-0440), empty when it has
    ///     none.
    ///   - exporter: The session's tls-exporter data, nil when the session has none or -PLUS is not wanted.
    /// - Throws: `SASLError` with `noCommonMechanism`, or `downgradeSuspected` when the server announces the
    ///   binding type but no mechanism that could use it.
    package static func best(
        offered: some Sequence<String>, bindingTypes: some Sequence<String>, exporter: [UInt8]?
    ) throws(SASLError) -> SCRAMChoice {
        let names = Array(offered)
        let known = SCRAMMechanism.byPreference.filter { names.contains($0.name) }
        let types = Array(bindingTypes)
        let offersPlus = names.contains { $0.hasSuffix("-PLUS") }
        if let exporter, types.contains("tls-exporter") {
            if let plus = known.first(where: \.isPlus) {
                return SCRAMChoice(mechanism: plus, binding: .tlsExporter(exporter))
            }
            guard offersPlus || known.isEmpty else {
                throw SASLError(
                    .downgradeSuspected,
                    "The server announces channel binding but no mechanism that uses it; somebody may be "
                        + "tampering with the connection. Try another network, and tell the server's "
                        + "operator if it stays so.",
                    cause: "offered: \(names.joined(separator: ", "))")
            }
        }
        guard let plain = known.first(where: { !$0.isPlus }) else {
            throw SASLError(
                .noCommonMechanism,
                "The server offers no way to log in that is safe and known here; "
                    + "it must offer SCRAM-SHA-256 or SCRAM-SHA-1.",
                cause: "offered: \(names.isEmpty ? "nothing" : names.joined(separator: ", "))")
        }
        let couldBind = exporter != nil && !offersPlus && types.isEmpty
        return SCRAMChoice(mechanism: plain, binding: couldBind ? .notOffered : .unsupported)
    }
}
