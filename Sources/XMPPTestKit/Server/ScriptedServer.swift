package import XMPPCore
import Platform
import XMPPTransport

/// A small XMPP server for tests: real TLS on two loopback ports, and everything under the test's control.
///
/// ```swift
/// let certificates = try TestCertificates(in: folder)
/// let server = try ScriptedServer(
///     .init(
///         accounts: ["alice": "secret", "bob": "hidden"],
///         certificate: try certificates.makeServerCertificate(for: ["localhost"])))
/// try server.start()
/// defer { server.stop() }
/// // … a client logs in on server.directTLSPort …
/// server.dropConnections(of: .jid(alice), .reset)
/// #expect(server.log.wait(for: .seconds(10)) { $0.event == .resumed } != nil)
/// #expect(server.log.entries.repeatedStanzas.isEmpty)
/// ```
///
/// It speaks STARTTLS and direct TLS, SCRAM, resource binding, stream management with resumption (XEP-0198), ping
/// (XEP-0199), availability, and brings stanzas from account to account, with an offline store. Everything runs on one
/// thread of its own; all methods may be called from any thread. A method that changes something returns when the change
/// has happened; called from a bot or a script, it happens right after that returns.
public final class ScriptedServer: Sendable {
    /// The configuration of a server.
    ///
    /// ```swift
    /// var configuration = ScriptedServer.Configuration(accounts: ["alice": "secret"], certificate: certificate)
    /// configuration.behavior.offersResumption = false
    /// configuration.logsXML = true
    /// ```
    public struct Configuration: Sendable {
        /// The domain that is served.
        package var domain: String
        /// The password of each account, by localpart.
        package var accounts: [String: String]
        /// The certificate with its chain, a PEM file.
        package var certificateFile: String
        /// The certificate's key, a PEM file.
        package var keyFile: String
        /// The initial behavior of the server.
        public var behavior = ServerBehavior()
        /// The number of SCRAM hash iterations; clients refuse fewer than 4096.
        package var scramIterations = 4096
        /// The clock for resumable sessions and for the log. Nil for the machine's.
        public var clock: VirtualClock?
        /// Whether the log keeps every element's XML.
        public var logsXML = false
        /// A file that gets the log too, as one JSON object a line. It is emptied first.
        package var logFile: String?
        /// Looks at every element of a client first.
        package var script: Script?
        /// Where it listens: the four bytes of an address of IPv4, the first one highest.
        package var address = SocketAddress.loopback

        /// Makes a configuration.
        ///
        /// - Parameters:
        ///   - domain: The domain that is served; the certificate must be for it.
        ///   - accounts: The password of each account, by localpart.
        ///   - certificateFile: The certificate with its chain, a PEM file.
        ///   - keyFile: The certificate's key, a PEM file.
        ///   - resumptionWindow: How long a broken session can be resumed, in whole seconds.
        ///   - scramIterations: How often SCRAM hashes a password, 1 or more.
        package init(
            domain: String = "localhost", accounts: [String: String], certificateFile: String,
            keyFile: String, resumptionWindow: Duration = .seconds(600), scramIterations: Int = 4096
        ) {
            self.domain = domain
            self.accounts = accounts
            self.certificateFile = certificateFile
            self.keyFile = keyFile
            self.scramIterations = scramIterations
            behavior.resumptionWindow = resumptionWindow
        }

        /// Makes a configuration with a certificate of ``TestCertificates``.
        ///
        /// - Parameters:
        ///   - domain: The domain that is served; the certificate must be for it.
        ///   - accounts: The password of each account, by localpart.
        ///   - certificate: The certificate and its key.
        ///   - resumptionWindow: How long a broken session can be resumed, in whole seconds.
        ///   - scramIterations: How often SCRAM hashes a password, 1 or more.
        public init(
            domain: String = "localhost", accounts: [String: String],
            certificate: TestCertificates.ServerCertificate, resumptionWindow: Duration = .seconds(600),
            scramIterations: Int = 4096
        ) {
            self.init(
                domain: domain, accounts: accounts, certificateFile: certificate.certificateFile,
                keyFile: certificate.keyFile, resumptionWindow: resumptionWindow,
                scramIterations: scramIterations)
        }
    }

    /// Decides about an element that a client sent, on the server's thread, before the server looks at it.
    package typealias Script = @Sendable (Element, ServerSessionInfo) -> ServerVerdict

    let core: Core
    private let startTLS: LoopbackPort
    private let directTLS: LoopbackPort

    /// Makes a server and reserves its ports; ``start()`` lets clients in.
    ///
    /// - Parameter configuration: How it is set up.
    /// - Throws: ``ScriptedServerError`` with `invalidAddress`, `password`, `logFile` or `port`.
    public init(_ configuration: Configuration) throws(ScriptedServerError) {
        core = try Core(configuration)
        startTLS = try LoopbackPort(at: configuration.address)
        directTLS = try LoopbackPort(at: configuration.address)
    }

    deinit { stop() }

    // MARK: Running

    /// The address to dial.
    public var host: String { "127.0.0.1" }
    /// The port for STARTTLS; the same after a restart.
    package var startTLSPort: UInt16 { startTLS.number }
    /// The port for direct TLS (XEP-0368); the same after a restart.
    public var directTLSPort: UInt16 { directTLS.number }
    /// The log of the server, over all its starts.
    public var log: ServerLog { core.log }
    /// The configuration of the server.
    package var configuration: Configuration { core.configuration }

    /// Starts the server's thread. Offline messages, bots and the script are those from before.
    ///
    /// - Throws: ``ScriptedServerError`` with `running`, `certificate`, `port` or `system`.
    public func start() throws(ScriptedServerError) {
        let context: TLSContext
        do throws(TransportError) {
            context = try TLSContext.server(
                certificateFile: configuration.certificateFile, keyFile: configuration.keyFile)
        } catch {
            throw ScriptedServerError(
                .certificate, "Give the server a certificate and its key.", cause: error)
        }
        try core.start(context, startTLS: startTLS, directTLS: directTLS)
    }

    /// Ends all sessions and connections, and the thread. Does nothing when the server does not run.
    ///
    /// Messages that were not acknowledged are in the offline store afterwards. Not to be called from a bot or script.
    ///
    /// - Parameter ending: How connections end; nil: with the stream error `system-shutdown`.
    public func stop(_ ending: ConnectionEnding? = nil) { core.stop(ending) }
}
