import FoundationEssentials
import Platform
import XMPPTestKit

/// A real XMPP server as a child process, with its own folder and loopback ports, and without a system service.
///
/// ```text
/// init ─▶ addAccount ─▶ start ─▶ (freeze, thaw) ─▶ close or kill ─▶ start …
/// ```
///
/// Data and ports stay the same across ``close(grace:)``, ``kill()`` and the next ``start(patience:)``. A server ends with this
/// process, and with the last reference to its object.
package protocol TestServer: AnyObject, Sendable {
    /// The server's XMPP domain. It has the components `conference.` and `pubsub.` of that domain.
    var domain: String { get }
    /// The folder of this server: configuration, data, log.
    var folder: String { get }
    /// The ports on which it listens.
    var ports: ServerPorts { get }
    /// The path of the log.
    var logFile: String { get }
    /// The child process.
    var process: ServerProcess { get }
    /// Name and version, as the server reported them at its start, such as `prosody 13.0.1`.
    var version: String { get }

    /// Starts the server and waits until it accepts clients.
    /// - Parameter patience: How long it may do nothing, neither write to its log, nor read files, nor use a processor, until it counts as stuck.
    /// - Throws: ``TestServerError`` `notInstalled`, `wrongState` when the server runs, or `startFailed` with the end of its log.
    func start(patience: Duration) throws(TestServerError)

    /// Adds an account, or changes its password, before the start or while the server runs.
    /// - Parameter user: The local part of the JID, in lower case.
    /// - Throws: ``TestServerError`` when the server rejects the account.
    func addAccount(_ user: String, password: String) throws(TestServerError)

    /// Makes two accounts contacts of each other, which see each other's presence. Call it before either of them logs in.
    /// - Throws: ``TestServerError`` when the server rejects the contacts, or `wrongState` when the server must run for this and
    ///   does not.
    func befriend(_ user: String, _ other: String) throws(TestServerError)
}

extension TestServer {
    /// The address on which the server listens.
    package var host: String { "127.0.0.1" }
    /// The port for STARTTLS (RFC 6120).
    package var startTLSPort: UInt16 { ports.startTLS.number }
    /// The port for direct TLS (XEP-0368).
    package var directTLSPort: UInt16 { ports.directTLS.number }
    /// The port for external components (XEP-0114), if the options list any.
    package var componentPort: UInt16 { ports.component.number }
    /// The port for uploads (XEP-0363), if the options enable that service. Clients connect with TLS.
    package var webPort: UInt16 { ports.web.number }
    /// The whole log; empty before the first start.
    package var log: String { (try? String(contentsOfFile: logFile, encoding: .utf8)) ?? "" }
    /// The process id while the server runs.
    package var processID: Int32? { process.processID }

    /// Starts the server, which may do nothing for half a minute.
    package func start() throws(TestServerError) { try start(patience: .seconds(30)) }

    /// Stops the server normally: streams are closed, archives are written.
    ///
    /// A server that does not end within the grace period is killed. If the server does not run, nothing happens.
    package func close(grace: Duration = .seconds(10)) { process.close(grace: grace) }
    /// Stops the server with SIGKILL. Its memory is lost, including resumable sessions and unwritten archives.
    package func kill() { process.kill() }
    /// Freezes the server (SIGSTOP): connections stay open, and nothing answers until ``thaw()``.
    package func freeze() { process.signal(Signal.stop) }
    /// Resumes a frozen server.
    package func thaw() { process.signal(Signal.resume) }
}

/// The loopback ports of a server, which stay reserved for it.
package struct ServerPorts: Sendable {
    let startTLS: LoopbackPort
    let directTLS: LoopbackPort
    let component: LoopbackPort
    let web: LoopbackPort

    init() throws(TestServerError) {
        startTLS = try .reserved()
        directTLS = try .reserved()
        component = try .reserved()
        web = try .reserved()
    }
}
