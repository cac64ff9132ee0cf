/// A real XMPP server as a child process, with its own folder and loopback ports, and without a system service.
///
/// ```text
/// init ─▶ addAccount ─▶ start ─▶ (freeze, thaw) ─▶ close or kill ─▶ start …
/// ```
///
/// Data and ports stay the same across ``close(grace:)``, ``kill()`` and the next ``start(deadline:)``. A server ends with this
/// process, and with the last reference to its object.
package protocol TestServer: AnyObject, Sendable {
    /// The server's XMPP domain. It has the components `conference.` and `pubsub.` of that domain.
    var domain: String { get }
    /// The folder of this server: configuration, data, log.
    var folder: String { get }
    /// The port for STARTTLS (RFC 6120).
    var startTLSPort: UInt16 { get }
    /// The port for direct TLS (XEP-0368).
    var directTLSPort: UInt16 { get }
    /// The port for external components (XEP-0114), if the options list any.
    var componentPort: UInt16 { get }
    /// The port for uploads (XEP-0363), if the options enable that service. Clients connect with TLS.
    var webPort: UInt16 { get }
    /// The whole log; empty before the first start.
    var log: String { get }
    /// The process id while the server runs.
    var processID: Int32? { get }
    /// Name and version, as the server reported them at its start, such as `prosody 13.0.1`.
    var version: String { get }

    /// Starts the server and waits until it accepts clients.
    /// - Throws: ``TestServerError`` `notInstalled`, `wrongState` when the server runs, or `startFailed` with the end of its log.
    func start(deadline: ContinuousClock.Instant) throws(TestServerError)
    /// Stops the server normally: streams are closed, archives are written.
    ///
    /// A server that does not end within the grace period is killed. If the server does not run, nothing happens.
    func close(grace: Duration)
    /// Stops the server with SIGKILL. Its memory is lost, including resumable sessions and unwritten archives.
    func kill()
    /// Freezes the server (SIGSTOP): connections stay open, and nothing answers until ``thaw()``.
    func freeze()
    /// Resumes a frozen server.
    func thaw()

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

    /// Starts the server within a minute.
    package func start() throws(TestServerError) { try start(deadline: .now + .seconds(60)) }

    /// Stops the server normally, within ten seconds.
    package func close() { close(grace: .seconds(10)) }
}
