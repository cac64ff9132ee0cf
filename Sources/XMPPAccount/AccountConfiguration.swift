public import Handlers
public import XMPPCore
package import XMPPTransport

/// The configuration of an account.
///
/// ```swift
/// var configuration = AccountConfiguration(jid: try JID("romeo@montague.example"), password: password)
/// configuration.modules = .standard
/// let account = try Account(configuration, store: store)
/// ```
public struct AccountConfiguration: Sendable {
    /// The host and port of a server.
    ///
    /// ```swift
    /// configuration.server = .init(host: "127.0.0.1", port: 5222, security: .startTLS)
    /// ```
    public struct Server: Hashable, Sendable {
        /// The start of TLS. TLS is always used.
        ///
        /// ```swift
        /// let security: AccountConfiguration.Server.Security = .directTLS
        /// ```
        public enum Security: String, Hashable, Sendable {
            /// TLS from the first byte (XEP-0368).
            case directTLS
            /// TLS after `<starttls/>` (RFC 6120 section 5).
            case startTLS
        }

        /// A host name or IP address.
        public var host: String
        /// 1 to 65535.
        public var port: UInt16
        /// The start of TLS.
        public var security: Security

        /// Names a server.
        ///
        /// - Parameters:
        ///   - host: A host name or IP address; an IPv6 address without brackets.
        ///   - port: 1 to 65535; 5223 is usual for direct TLS, 5222 for STARTTLS.
        ///   - security: How TLS begins.
        public init(host: String, port: UInt16, security: Security) {
            self.host = host
            self.port = port
            self.security = security
        }
    }

    /// The trusted certificate authorities.
    ///
    /// ```swift
    /// configuration.trust = .file(path: "authority.pem")
    /// ```
    public enum Trust: Hashable, Sendable {
        /// The machine's certificates.
        case system
        /// Only the certificates in a PEM file.
        case file(path: String)
    }

    /// The method of authentication.
    ///
    /// ```swift
    /// configuration.authentication = .certificate(file: "romeo.pem", keyFile: "romeo.key")
    /// ```
    public enum Authentication: Hashable, Sendable {
        /// A password, with SCRAM and channel binding if the server has them.
        case password
        /// A certificate in TLS (SASL EXTERNAL): PEM files with the certificate and its private key.
        case certificate(file: String, keyFile: String)
        /// No authentication (SASL ANONYMOUS): each stream gets another address, so a broken session is lost.
        case anonymous
    }

    /// The account's bare address.
    public var jid: JID
    /// The password. It is kept in memory only.
    public var password: String
    /// The server to connect to. Nil for the one in DNS (RFC 6120 section 3.2, XEP-0368). The
    /// certificate must be for the address's domain, whatever host is dialed.
    public var server: Server?
    /// Name servers to ask, as `address`, `address:port` or `[v6]:port`. Empty for the machine's.
    public var nameServers: [String] = []
    /// The trusted certificate authorities.
    public var trust: Trust = .system
    /// Public keys of which the server must have one. Empty for any.
    ///
    /// A trusted certificate is required besides. Each key is the SHA-256 of the SubjectPublicKeyInfo, 32 bytes.
    public var pinnedKeys: Set<[UInt8]> = []
    /// The method of authentication.
    public var authentication = Authentication.password
    /// Whether SASL PLAIN may send the password itself. Only to a server that offers nothing better.
    ///
    /// It is never sent outside of TLS, and not to a server that has offered something better before.
    public var allowsPlain: Bool = false
    /// The newest version of TLS that is spoken; for tests of what an older one lacks.
    package var newestTLS = TLSVersion.tls13
    /// Whether to use the extensible profile of SASL (XEP-0388) where the server offers it.
    package var usesExtensibleLogin: Bool = true
    /// The way to the server; nil for the machine's network.
    package var network: (any Network)?
    /// The place where processes agree on the owner of the account.
    package var ownerPlaces: (any OwnerPlaces)?
    /// Whether to log in with tokens of the server (XEP-0484), which takes one round trip. They are kept in the store
    /// and are as secret as the password.
    public var usesTokens: Bool = true
    /// Whether to bind a new session together with the login (XEP-0386).
    ///
    /// That saves a round trip or two. The server then drops the messages that it kept, as it expects the client to fetch them
    /// from the archive (XEP-0313). Set this only in a program that does so.
    public var bindsInline: Bool = false
    /// Role of this process for the account: a worker leaves a live owner of the stream alone, and the main program asks a
    /// worker to hand it over.
    public var role: HandlerStore.Role = .main
    /// Start of the resource. A random part follows, new for every session, so that peers can distinguish sessions.
    package var resourcePrefix: String = "dh"
    /// Connected time after which a request times out; 1 ms or more.
    public var connectedRequestTimeout: Duration = .seconds(60)
    /// The configuration of ``Account/runner``: the number of leases, and what gets final failures.
    /// These are written to ``log`` as well.
    ///
    /// ```swift
    /// configuration.runner = .init(leases: 16) { error in metrics.count(error) }
    /// ```
    public var runner = HandlerRunner.Configuration()
    /// Timeout of a connection attempt, by the machine's monotonic clock. 1 ms or more. It counts from the first lookup to a
    /// session.
    public var connectTimeout: Duration = .seconds(30)
    /// Timeout of an ack request or a ping, by the machine's monotonic clock. 1 ms or more.
    ///
    /// After it the connection counts as dead. Also the limit for bytes that the server's system does not acknowledge
    /// (TCP_USER_TIMEOUT).
    public var acknowledgementTimeout: Duration = .seconds(30)
    /// Time after which the account requests a proof that the server listens.
    ///
    /// It counts on an open stream since the last proof. More than 0; nil for never.
    ///
    /// The proof is the answer to an ack request (XEP-0198), or to a ping where the server has no stream management
    /// (XEP-0199); other bytes are none. Without it within ``acknowledgementTimeout`` the stream is opened again, so by
    /// default a dead line is noticed within 90 seconds.
    public var keepAlive: Duration? = .seconds(60)
    /// The same while ``Account/clientState`` is `inactive` (XEP-0352). The longer of the two holds then.
    public var inactiveKeepAlive: Duration = .seconds(600)
    /// The wait for a silent owner before takeover. 1 ms or more, by the machine's monotonic clock.
    ///
    /// The last 5 %, at most 25 ms, are for the takeover itself.
    public var ownerSilence: Duration = .milliseconds(500)
    /// The maximum number of stanzas in the outbox, 1 or more. Further ones are refused with an error.
    public var maximumOutbox: Int = 100_000
    /// Policy for ack requests and acks (XEP-0198); ``Account/acknowledgements`` changes it later.
    public var acknowledgements = AcknowledgementPolicy()
    /// The time for which received messages are remembered to recognize duplicates. More than 0. The main program forgets older
    /// ones once a day, after it has caught up; the last ones of rooms and of the archive stay. About 5000 messages of
    /// one sender are remembered, the newest.
    public var recognizesDuplicatesFor: Duration = .seconds(30 * 86_400)
    /// Whether sessions are to be resumed. Without it the server counts stanzas, and forgets the session with the stream.
    public var resumesSessions: Bool = true
    /// Chooses before each login whether to resume, bind or wait.
    ///
    /// It is called once the server is reached, with the stored session, or nil if none can be resumed. Without it the account
    /// resumes where that is possible.
    ///
    /// It runs on the thread that opens the stream, outside of any step; what it decides is not stored.
    ///
    /// ```swift
    /// configuration.chooseSession = { session in
    ///     guard let session, session.isLikelyKept else { return .bind }
    ///     return hasPower ? .resume : .wait(.seconds(60))
    /// }
    /// ```
    public var chooseSession: (@Sendable (_ session: StoredSession?) -> SessionChoice)?
    /// The time that the server is asked to keep a broken session. By the server's clock.
    ///
    /// In whole seconds, fractions cut off; nil or less than a second leaves it to the server.
    public var resumptionWindow: Duration?
    /// The modules of the account, the same in every process that uses it. `.standard` of `XMPPModules`
    /// is what a messenger needs.
    public var modules: [any AccountModule] = []
    /// Names of modules that the account does not use any more.
    public var retiredModules: Set<String> = []
    /// Whether to announce the account's availability in a new session. Without it no messages arrive.
    public var sendsInitialPresence: Bool = true
    /// Log of the account; nil for none.
    public var log: AccountLog?
    /// Called when the account reaches a milestone; nil for none.
    package var onMilestone: (@Sendable (Milestone) -> Void)?
    /// The monotonic clock.
    public var time: TimeSource = .system

    /// Makes a configuration for an account with a password.
    ///
    /// - Parameters:
    ///   - jid: The account's address; a resource is left out.
    ///   - password: The password.
    ///   - server: Where to connect; nil for where DNS says.
    public init(jid: JID, password: String, server: Server? = nil) {
        self.jid = jid.bare
        self.password = password
        self.server = server
    }

    /// Makes a configuration for an anonymous account (SASL ANONYMOUS).
    ///
    /// - Parameters:
    ///   - domain: The server's domain.
    ///   - server: Where to connect; nil for where DNS says.
    public init(anonymousAt domain: JID, server: Server? = nil) {
        jid = domain.domainJID
        password = ""
        self.server = server
        authentication = .anonymous
        usesTokens = false
    }
}

extension AccountConfiguration: CustomStringConvertible, CustomReflectable {
    /// The address and where it connects; never the password.
    public var description: String {
        "\(jid) at \(server.map { "\($0.host):\($0.port)" } ?? "its domain") as \(role.rawValue)"
    }

    public var customMirror: Mirror { Mirror(self, children: ["jid": jid, "role": role]) }
}
