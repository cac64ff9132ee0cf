package import XMPPCore

/// The mechanism to log in with, and what to say about channel binding.
package struct SCRAMChoice: Hashable, Sendable {
    package let mechanism: SCRAMMechanism
    package let binding: ChannelBinding

    package init(mechanism: SCRAMMechanism, binding: ChannelBinding = .unsupported) {
        self.mechanism = mechanism
        self.binding = binding
    }
}

/// The login methods that a server offers: the names in `<mechanisms/>` and the types in `<sasl-channel-binding/>`.
package struct LoginOffer: Hashable, Sendable {
    package var mechanisms: [ForeignText]
    /// Empty when the server does not say (XEP-0440).
    package var bindingTypes: [ForeignText]

    package init(mechanisms: [any TextConvertible], bindingTypes: [any TextConvertible] = []) {
        self.mechanisms = mechanisms.map(\.foreignText)
        self.bindingTypes = bindingTypes.map(\.foreignText)
    }

    /// For the cause of an error.
    var text: String { "offered: " + (mechanisms.isEmpty ? "nothing" : mechanisms.joined(separator: ", ")) }
}

/// The login methods that this side supports and permits.
package struct LoginPolicy: Hashable, Sendable {
    package enum Credentials: Hashable, Sendable {
        case password
        /// The certificate of the TLS session (EXTERNAL).
        case certificate
        case anonymous
    }

    package var credentials = Credentials.password
    /// Whether the password may be sent as it is. Only ever inside TLS.
    package var allowsPlain = false
    /// The mechanism of the best login so far: a weaker one is refused.
    package var pinned: SCRAMMechanism?

    package init(
        credentials: Credentials = .password, allowsPlain: Bool = false, pinned: SCRAMMechanism? = nil
    ) {
        self.credentials = credentials
        self.allowsPlain = allowsPlain
        self.pinned = pinned
    }
}

/// The chosen login method, from the server's offer and this side's policy.
package enum LoginChoice: Hashable, Sendable {
    case scram(SCRAMChoice)
    case plain
    case external
    case anonymous

    /// Returns the best login method that the server offers and the policy allows.
    ///
    /// - Parameter bindings: What the TLS session has; empty when -PLUS is not wanted.
    /// - Throws: `SASLError` with `noCommonMechanism`, or `downgradeSuspected` when the offer contradicts itself
    ///   or is weaker than one that was accepted before.
    package static func best(
        _ offer: LoginOffer, _ policy: LoginPolicy, bindings: ChannelBindings
    ) throws(SASLError) -> LoginChoice {
        switch policy.credentials {
        case .certificate: return try .only("EXTERNAL", .external, offer)
        case .anonymous: return try .only("ANONYMOUS", .anonymous, offer)
        case .password: break
        }
        guard let scram = try bestSCRAM(offer, bindings) else {
            if let pinned = policy.pinned { throw downgrade(from: pinned, offer) }
            guard policy.allowsPlain, offer.mechanisms.contains("PLAIN") else { throw nothing(offer) }
            return .plain
        }
        if let pinned = policy.pinned, !scram.mechanism.isAtLeast(pinned) {
            throw downgrade(from: pinned, offer)
        }
        return .scram(scram)
    }

    private static func only(
        _ name: ForeignText, _ choice: LoginChoice, _ offer: LoginOffer
    ) throws(SASLError) -> LoginChoice {
        guard offer.mechanisms.contains(name) else {
            throw SASLError(
                .noCommonMechanism,
                "The server does not offer \(name) on this connection; give the account a password, or ask "
                    + "the server's operator to allow it.", cause: offer.text)
        }
        return choice
    }

    /// An attacker between this side and the server may have changed the offer, and only the server can notice. So the login
    /// always says what was seen: with a -PLUS mechanism in the offer it is bound, to the default type where the list of
    /// types (XEP-0440) is gone or names none that the session has; without one the gs2 flag is `y` (RFC 5802 section 6).
    private static func bestSCRAM(
        _ offer: LoginOffer, _ bindings: ChannelBindings
    ) throws(SASLError) -> SCRAMChoice? {
        let known = SCRAMMechanism.byPreference.filter { offer.mechanisms.contains($0.name) }
        let listed = bindings.types.first { offer.bindingTypes.contains($0.rawValue) }
        if let plus = known.first(where: \.isPlus), let type = listed ?? bindings.defaultType,
            let data = bindings[type]
        {
            return SCRAMChoice(mechanism: plus, binding: .used(type, data))
        }
        let offersPlus = offer.mechanisms.contains { $0.hasPrefix("SCRAM-") && $0.hasSuffix("-PLUS") }
        guard listed == nil || offersPlus || known.isEmpty else { throw contradiction(offer) }
        guard let plain = known.first(where: { !$0.isPlus }) else { return nil }
        return SCRAMChoice(mechanism: plain, binding: bindings.isEmpty ? .unsupported : .notOffered)
    }

    private static func nothing(_ offer: LoginOffer) -> SASLError {
        let hasPlain = offer.mechanisms.contains("PLAIN")
        return SASLError(
            .noCommonMechanism,
            "The server offers no way to log in that is safe and known here; it must offer SCRAM-SHA-256 or "
                + "SCRAM-SHA-1."
                + (hasPlain ? " To send it the password as it is, inside TLS, set allowsPlain." : ""),
            cause: offer.text)
    }

    private static func contradiction(_ offer: LoginOffer) -> SASLError {
        SASLError(
            .downgradeSuspected,
            "The server announces channel binding but no mechanism that uses it; somebody may be tampering "
                + "with the connection. Try another network, and tell the server's operator if it stays so.",
            cause: offer.text)
    }

    private static func downgrade(from pinned: SCRAMMechanism, _ offer: LoginOffer) -> SASLError {
        SASLError(
            .downgradeSuspected,
            "This account has logged in with \(pinned.name) before, and the server now offers only what is "
                + "weaker; somebody may be tampering with the connection. If the server's operator confirms "
                + "the change, forget what was learned about the server with forgetLogin().",
            cause: offer.text)
    }
}

extension SCRAMMechanism {
    /// Returns whether it is no weaker than another in either respect: channel binding and hash.
    func isAtLeast(_ other: SCRAMMechanism) -> Bool {
        (isPlus || !other.isPlus) && hash.size >= other.hash.size
    }
}
