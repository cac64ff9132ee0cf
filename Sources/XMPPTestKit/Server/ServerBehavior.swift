/// The behavior of a ``ScriptedServer``: its offers and its faults.
///
/// It may be changed while the server runs, see ``ScriptedServer/update(_:)``; a change concerns streams and sessions
/// that start after it.
///
/// ```swift
/// server.update { $0.offersStreamManagement = false }
/// ```
public struct ServerBehavior: Hashable, Sendable {
    /// The server's answer to `<r/>`.
    ///
    /// ```swift
    /// server.setAcknowledgements(.offset(1))  // a count that is too high
    /// ```
    public enum Acknowledgements: Hashable, Sendable {
        /// At once, with the true count.
        case prompt
        /// After this long on the server's clock, with the count that is true then.
        case delayed(Duration)
        /// No answer.
        case never
        /// At once, with this count in place of the true one.
        case claiming(UInt32)
        /// At once, with a count that is off by this much, modulo 2^32.
        case offset(Int32)
    }

    /// The SASL mechanisms offered, in this order: names of SCRAM mechanisms (the `-PLUS` ones included) or `PLAIN`.
    /// Empty: the server accepts no login.
    package var mechanisms = ["SCRAM-SHA-256", "SCRAM-SHA-1"]
    /// The mechanisms of the extensible profile (XEP-0388), as `mechanisms`; empty: it is not offered. Sessions can then
    /// be resumed in the same round trip.
    package var extensibleMechanisms: [String] = []
    /// Whether the extensible profile offers Bind 2 (XEP-0386).
    package var offersInlineBinding = true
    /// The mechanisms for which tokens are given (XEP-0484), such as `HT-SHA-256-EXPR`; empty: none.
    package var tokenMechanisms: [String] = []
    /// Whether every login by token gives a new one.
    package var rotatesTokens = false
    /// Whether a login by token is answered with a wrong hash, as by a server that does not know the token.
    package var answersTokensWrongly = false
    /// The channel bindings announced (XEP-0440) with `-PLUS` mechanisms, as far as the TLS session has them.
    package var bindingTypes = ["tls-exporter"]
    /// Whether the last SCRAM message carries a wrong signature, as that of an impostor would.
    package var signsWrongly = false
    /// Whether `<starttls/>` is offered on the unprotected port. Without it nothing is offered there.
    package var offersStartTLS = true
    /// Whether stream management (XEP-0198) is offered.
    public var offersStreamManagement = true
    /// Whether the server wants to know if a client is looked at (XEP-0352).
    package var offersClientState = true
    /// Whether versions of rosters are announced (RFC 6121 section 2.6.1). The server has none: a script answers.
    public var offersRosterVersions = false
    /// Whether sessions can be resumed. Without it `<enabled/>` has neither `id` nor `resume`.
    public var offersResumption = true
    /// How long a broken session can be resumed, by the monotonic clock. In whole seconds. A client may request less.
    public var resumptionWindow: Duration = .seconds(600)
    /// Host and port at which clients should resume; nil for none.
    package var resumptionLocation: String?
    /// Whether `<failed/>` carries the count of a session that is over, when it is known.
    package var reportsLostCount = true
    /// Whether the server sends `<r/>` after stanzas, as servers do.
    public var requestsAcks = true
    /// The server's answer to `<r/>`.
    public var acknowledgements: Acknowledgements = .prompt
    /// The count of stanzas received from the client with which a session starts; 0 by the specification. Only of use
    /// with a client that starts at the same number, to test the wrap at 2^32.
    package var initialReceivedCount: UInt32 = 0
    /// The count of stanzas sent to the client with which a session starts; see `initialReceivedCount`.
    package var initialSentCount: UInt32 = 0
    /// The maximum size of a client's stanza in bytes, as this server writes it; nil for no limit. One that has more ends the
    /// stream.
    package var stanzaLimit: Int?
    /// Whether that is announced (XEP-0478).
    package var announcesStanzaLimit = true
    /// The maximum number of unacknowledged stanzas of a session, and of messages in an account's offline store. A session
    /// that would hold more is ended, a message too many is refused.
    package var queueLimit = 1_000_000

    /// Makes the default behavior.
    package init() {}
}
