/// A real XMPP server as a child process: its own folder, its own loopback ports, no system service.
///
/// ```text
/// init ─▶ addAccount ─▶ start ─▶ (freeze, thaw) ─▶ close or kill ─▶ start …
/// ```
///
/// Data and ports stay the same over ``close(grace:)``, ``kill()`` and the next ``start(deadline:)``. A server
/// dies with this process, and with the last reference to its object.
package protocol TestServer: AnyObject, Sendable {
    /// The XMPP domain that it serves; `conference.` and `pubsub.` of it are components.
    var domain: String { get }
    /// Everything of this server: configuration, data, log.
    var folder: String { get }
    /// The port for STARTTLS (RFC 6120).
    var startTLSPort: UInt16 { get }
    /// The port for direct TLS (XEP-0368).
    var directTLSPort: UInt16 { get }
    /// The port for external components (XEP-0114), if the options name some.
    var componentPort: UInt16 { get }
    /// The port for uploads (XEP-0363), if the options have such a service; its clients use TLS.
    var webPort: UInt16 { get }
    /// Everything that it has logged; empty before the first start.
    var log: String { get }
    /// Its process id while it runs.
    var processID: Int32? { get }
    /// Name and version, as it said itself when it started: `prosody 13.0.1`.
    var version: String { get }

    /// Starts it and waits until it accepts clients.
    /// - Throws: ``TestServerError`` `notInstalled`, `wrongState` when it runs, `startFailed` with the end
    ///   of its log.
    func start(deadline: ContinuousClock.Instant) throws(TestServerError)
    /// Ends it in good order: streams are closed, archives written.
    ///
    /// One that does not end within the grace period is killed. Does nothing when it does not run.
    func close(grace: Duration)
    /// Ends it by SIGKILL: what it held in memory (sessions to be resumed, unwritten archives) is lost.
    func kill()
    /// Freezes it (SIGSTOP): connections stay open and nothing answers, until ``thaw()``.
    func freeze()
    /// Lets a frozen server go on.
    func thaw()

    /// Makes an account, or gives it a new password; before the start or while it runs.
    /// - Parameter user: The local part of the JID, lower case.
    /// - Throws: ``TestServerError`` when the server cannot be told.
    func addAccount(_ user: String, password: String) throws(TestServerError)

    /// Makes two accounts contacts of each other, who see each other's presence; before either of them logs in.
    /// - Throws: ``TestServerError`` when the server cannot be told, `wrongState` when it has to run for that and does not.
    func befriend(_ user: String, _ other: String) throws(TestServerError)
}

extension TestServer {
    /// The address on which it listens.
    package var host: String { "127.0.0.1" }

    /// Starts it; half a minute is enough for any of them.
    package func start() throws(TestServerError) { try start(deadline: .now + .seconds(60)) }

    /// Ends it in good order, within ten seconds.
    package func close() { close(grace: .seconds(10)) }
}
