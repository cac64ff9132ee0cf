public import Handlers
public import XMPPCore

/// What an account needs to connect.
public struct AccountConfiguration: Sendable {
    /// Where to connect.
    public struct Server: Hashable, Sendable {
        /// How TLS begins. There is no way to do without it.
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
        public var security: Security

        public init(host: String, port: UInt16, security: Security) {
            self.host = host
            self.port = port
            self.security = security
        }
    }

    /// Which certificate authorities are believed.
    public enum Trust: Hashable, Sendable {
        /// Those of the machine.
        case system
        /// Those in a PEM file only.
        case file(path: String)
    }

    /// The account's bare address.
    public var jid: JID
    /// The password. It is kept in memory only.
    public var password: String
    /// Where to connect; nil for port 5222 of the address's domain with STARTTLS. The certificate must be for the
    /// address's domain, whatever host is dialed.
    public var server: Server?
    /// Which certificate authorities are believed.
    public var trust: Trust = .system
    /// What this process is to the account.
    public var role: AccountRole = .main
    /// The beginning of the resource; a random part follows, new for every session, so that a peer can tell the
    /// sessions apart.
    public var resourcePrefix: String = "dh"
    /// How long a request waits for its answer, in milliseconds of connected time; 1 or more.
    public var requestTimeout: Int64 = 60_000
    /// How long connecting may take, from the first lookup to a session, in milliseconds; 1 or more.
    public var connectTimeout: Int64 = 30_000
    /// How long the server may leave `<r/>` unanswered before the connection counts as dead, in milliseconds.
    public var acknowledgementTimeout: Int64 = 30_000
    /// How long another process that owns the account may stay silent before it counts as frozen, in milliseconds.
    public var ownerSilence: Int64 = 500
    /// How many stanzas may wait to be sent; 1 or more. More are refused with an error.
    public var maximumOutbox: Int = 100_000
    /// The seconds for which the server is asked to keep a broken session; nil leaves it to the server.
    public var resumptionWindow: Int?
    /// Whether to announce the account's availability in a new session; without it no messages arrive.
    public var sendsInitialPresence: Bool = true
    /// The monotonic clock.
    public var time: TimeSource = .system

    public init(jid: JID, password: String, server: Server? = nil) {
        self.jid = jid.bare
        self.password = password
        self.server = server
    }

    var endpoint: Server { server ?? Server(host: jid.domain, port: 5222, security: .startTLS) }
}

extension AccountConfiguration: CustomStringConvertible, CustomReflectable {
    /// The address and where it connects; never the password.
    public var description: String { "\(jid) at \(endpoint.host):\(endpoint.port) as \(role.rawValue)" }

    public var customMirror: Mirror { Mirror(self, children: ["jid": jid, "role": role]) }
}
