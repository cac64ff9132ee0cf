import Synchronization
import XMPPTransport

/// The access to the store for the opening of a stream. Each call is a step of its own that checks the epoch, and
/// throws ``AccountError`` `ownershipLost` when another process has taken the account over.
protocol LoginKeeping: Sendable {
    /// Returns the facts learned in earlier logins.
    func recall() throws -> KnownLogin
    /// The token with its next count, which is committed before this returns: a count is never used twice, whoever is
    /// killed (XEP-0484 section 3.4).
    func spendToken() throws -> SpentToken?
    /// The server does not take that token any more.
    func discard(_ token: SpentToken) throws
    /// The server is not what it was: data sent before its features may be wrong.
    func forgetOffer() throws
    /// Lends the data that resume the session, if there are any, while no other process can take the account over.
    func withResumption(_ use: (StreamOpener.Resumption?) throws -> Void) throws
}

/// The facts about a server from earlier logins.
struct KnownLogin: Sendable {
    /// Names this installation to the server; the same in every process.
    var agent: String
    /// The best mechanism that has logged in.
    var pinned: SCRAMMechanism?
    /// The highest SCRAM iteration count seen with it.
    var iterations = 0
    /// The server's last offer.
    var offer: ServerOffer?
    /// Whether the server had stream management last time.
    var isManaging = false
    /// The mechanism of the token that can be used.
    var tokenMechanism: HashedTokenMechanism?
    /// The location for resuming the session (XEP-0198 section 5).
    var location: String?
    /// The session that could be resumed; read only for a program that wants to choose.
    var session: StoredSession?
}

/// A token that may be used once with this count.
struct SpentToken: Sendable {
    var mechanism: HashedTokenMechanism
    var secret: SecretBytes
    var count: Int64
}

/// The facts learned in a login, committed with its outcome.
struct LearnedLogin: Sendable {
    /// The part of the server's features that is remembered.
    var offer: String?
    var isManaging = false
    /// Whether the server wants to know if the client is looked at (XEP-0352); nil when it did not show.
    var hasClientState: Bool?
    /// The maximum size of a stanza in bytes, 0 for no limit (XEP-0478); nil if the server announced none.
    var stanzaLimit: Int?
    /// The mechanism that logged in, with its iteration count, when it was SCRAM.
    var scram: (mechanism: SCRAMMechanism, iterations: Int)?
    /// A new token and the mechanism it is for.
    var token: (mechanism: HashedTokenMechanism, token: FastToken)?
}

/// The secrets that a process keeps in memory from one connection to the next: salted keys, which are worth as much as
/// the password, and what resumes a TLS session.
final class LoginMemory: Sendable {
    private struct State {
        var keys: SCRAMKeys?
        var redirection: ServiceTarget?
    }

    private let state = Mutex(State())
    private let context = Mutex<TLSContext?>(nil)
    /// The contexts of the host's accounts; nil for an account of its own.
    private let shared: TLSContexts?

    init(_ shared: TLSContexts? = nil) { self.shared = shared }

    /// Keys of the last login by password.
    var keys: SCRAMKeys? {
        get { state.withLock { $0.keys } }
        set { state.withLock { $0.keys = newValue } }
    }

    /// The redirection of the server at the end of the stream; for the next attempt only.
    var redirection: ServiceTarget? {
        get { state.withLock { $0.redirection } }
        set { state.withLock { $0.redirection = newValue } }
    }

    /// Keeps where a stream error sends the client.
    func record(_ error: AccountError, of configuration: AccountConfiguration) {
        redirection = StreamConnector.redirection(error, configuration)
    }

    /// Whether the context has been made, maybe for another account.
    func hasContext(for configuration: AccountConfiguration) -> Bool {
        shared?.hasContext(configuration.tlsSettings) ?? false
    }

    /// The one context for all connections of an account. Who asks while it is being made waits for it.
    func context(for configuration: AccountConfiguration) throws(TransportError) -> TLSContext {
        try context.withLock { (context) throws(TransportError) in
            if let context { return context }
            let settings = configuration.tlsSettings
            let made =
                if let shared { try shared.context(settings).withOwnSessions() } else {
                    try settings.makeContext()
                }
            context = made
            return made
        }
    }
}
