extension StanzaError {
    /// A defined condition (RFC 6120 section 8.3.3). Open: a name this table does not know is kept as it came.
    package typealias Condition = OpenName<StanzaError>
}

extension OpenName where List == StanzaError {
    /// XML that the schema or the extension does not allow (8.3.3.1).
    public static var badRequest: Self { Self(rawValue: "bad-request") }
    /// A resource or session with that name exists (8.3.3.2).
    public static var conflict: Self { Self(rawValue: "conflict") }
    /// The feature is not implemented (8.3.3.3).
    public static var featureNotImplemented: Self { Self(rawValue: "feature-not-implemented") }
    /// The sender lacks the permission (8.3.3.4).
    public static var forbidden: Self { Self(rawValue: "forbidden") }
    /// The recipient moved for good (8.3.3.5).
    package static var gone: Self { Self(rawValue: "gone") }
    /// The recipient failed (8.3.3.6).
    public static var internalServerError: Self { Self(rawValue: "internal-server-error") }
    /// The address or item does not exist (8.3.3.7).
    public static var itemNotFound: Self { Self(rawValue: "item-not-found") }
    /// An address is no JID (8.3.3.8).
    package static var jidMalformed: Self { Self(rawValue: "jid-malformed") }
    /// The request misses criteria of the recipient (8.3.3.9).
    public static var notAcceptable: Self { Self(rawValue: "not-acceptable") }
    /// The request is not allowed for any entity (8.3.3.10).
    public static var notAllowed: Self { Self(rawValue: "not-allowed") }
    /// Credentials are needed first (8.3.3.11).
    public static var notAuthorized: Self { Self(rawValue: "not-authorized") }
    /// A local policy forbids it (8.3.3.12).
    public static var policyViolation: Self { Self(rawValue: "policy-violation") }
    /// The recipient is away for now (8.3.3.13).
    public static var recipientUnavailable: Self { Self(rawValue: "recipient-unavailable") }
    /// Ask the other address (8.3.3.14).
    package static var redirect: Self { Self(rawValue: "redirect") }
    /// Register first (8.3.3.15).
    public static var registrationRequired: Self { Self(rawValue: "registration-required") }
    /// The recipient's server does not exist (8.3.3.16).
    public static var remoteServerNotFound: Self { Self(rawValue: "remote-server-not-found") }
    /// The recipient's server does not answer (8.3.3.17).
    public static var remoteServerTimeout: Self { Self(rawValue: "remote-server-timeout") }
    /// The recipient is too busy (8.3.3.18).
    public static var resourceConstraint: Self { Self(rawValue: "resource-constraint") }
    /// The recipient does not offer this service (8.3.3.19).
    public static var serviceUnavailable: Self { Self(rawValue: "service-unavailable") }
    /// Subscribe first (8.3.3.20).
    package static var subscriptionRequired: Self { Self(rawValue: "subscription-required") }
    /// None of the others; see the application condition (8.3.3.21).
    package static var undefinedCondition: Self { Self(rawValue: "undefined-condition") }
    /// Out of order (8.3.3.22).
    package static var unexpectedRequest: Self { Self(rawValue: "unexpected-request") }

    /// The error type that RFC 6120 associates with the condition, the first one where it names two.
    package var defaultKind: StanzaError.Kind {
        switch self {
        case .forbidden, .notAuthorized, .registrationRequired, .subscriptionRequired: .auth
        case .badRequest, .jidMalformed, .notAcceptable, .policyViolation, .redirect: .modify
        case .recipientUnavailable, .remoteServerTimeout, .resourceConstraint, .unexpectedRequest: .wait
        default: .cancel
        }
    }
}
