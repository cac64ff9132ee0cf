extension StanzaError {
    /// A defined condition (RFC 6120 section 8.3.3). Open: a name this table does not know is kept as it came.
    public struct Condition: Hashable, Sendable, RawRepresentable, CustomStringConvertible {
        /// The element's name.
        public let rawValue: ForeignText
        /// Makes a condition from the name of its element.
        public init(rawValue: ForeignText) { self.rawValue = rawValue }
        /// The element's name.
        public var description: String { rawValue.string }

        /// XML that the schema or the extension does not allow (8.3.3.1).
        public static let badRequest = Condition(rawValue: "bad-request")
        /// A resource or session with that name exists (8.3.3.2).
        public static let conflict = Condition(rawValue: "conflict")
        /// The feature is not implemented (8.3.3.3).
        public static let featureNotImplemented = Condition(rawValue: "feature-not-implemented")
        /// The sender lacks the permission (8.3.3.4).
        public static let forbidden = Condition(rawValue: "forbidden")
        /// The recipient moved for good (8.3.3.5).
        public static let gone = Condition(rawValue: "gone")
        /// The recipient failed (8.3.3.6).
        public static let internalServerError = Condition(rawValue: "internal-server-error")
        /// The address or item does not exist (8.3.3.7).
        public static let itemNotFound = Condition(rawValue: "item-not-found")
        /// An address is no JID (8.3.3.8).
        public static let jidMalformed = Condition(rawValue: "jid-malformed")
        /// The request misses criteria of the recipient (8.3.3.9).
        public static let notAcceptable = Condition(rawValue: "not-acceptable")
        /// The request is not allowed for any entity (8.3.3.10).
        public static let notAllowed = Condition(rawValue: "not-allowed")
        /// Credentials are needed first (8.3.3.11).
        public static let notAuthorized = Condition(rawValue: "not-authorized")
        /// A local policy forbids it (8.3.3.12).
        public static let policyViolation = Condition(rawValue: "policy-violation")
        /// The recipient is away for now (8.3.3.13).
        public static let recipientUnavailable = Condition(rawValue: "recipient-unavailable")
        /// Ask the other address (8.3.3.14).
        public static let redirect = Condition(rawValue: "redirect")
        /// Register first (8.3.3.15).
        public static let registrationRequired = Condition(rawValue: "registration-required")
        /// The recipient's server does not exist (8.3.3.16).
        public static let remoteServerNotFound = Condition(rawValue: "remote-server-not-found")
        /// The recipient's server does not answer (8.3.3.17).
        public static let remoteServerTimeout = Condition(rawValue: "remote-server-timeout")
        /// The recipient is too busy (8.3.3.18).
        public static let resourceConstraint = Condition(rawValue: "resource-constraint")
        /// The recipient does not offer this service (8.3.3.19).
        public static let serviceUnavailable = Condition(rawValue: "service-unavailable")
        /// Subscribe first (8.3.3.20).
        public static let subscriptionRequired = Condition(rawValue: "subscription-required")
        /// None of the others; see the application condition (8.3.3.21).
        public static let undefinedCondition = Condition(rawValue: "undefined-condition")
        /// Out of order (8.3.3.22).
        public static let unexpectedRequest = Condition(rawValue: "unexpected-request")

        /// All conditions of RFC 6120, in its order.
        package static let defined: [Condition] = [
            .badRequest, .conflict, .featureNotImplemented, .forbidden, .gone, .internalServerError,
            .itemNotFound,
            .jidMalformed, .notAcceptable, .notAllowed, .notAuthorized, .policyViolation,
            .recipientUnavailable,
            .redirect, .registrationRequired, .remoteServerNotFound, .remoteServerTimeout,
            .resourceConstraint,
            .serviceUnavailable, .subscriptionRequired, .undefinedCondition, .unexpectedRequest,
        ]

        /// The error type that RFC 6120 associates with the condition, the first one where it names two.
        package var defaultKind: Kind {
            switch self {
            case .forbidden, .notAuthorized, .registrationRequired, .subscriptionRequired: .auth
            case .badRequest, .jidMalformed, .notAcceptable, .policyViolation, .redirect: .modify
            case .recipientUnavailable, .remoteServerTimeout, .resourceConstraint, .unexpectedRequest: .wait
            default: .cancel
            }
        }
    }
}
