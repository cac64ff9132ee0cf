import XMPPCore
package import XMPPTransport

/// Brings a stream to where it is protected by TLS: finds the server, connects, and begins TLS.
///
/// ```text
/// location ─▶ server override or SRV ─▶ host after host ─▶ TCP ─▶ TLS or STARTTLS ─▶ OpeningStream
/// ```
struct StreamConnector {
    let configuration: AccountConfiguration
    let memory: LoginMemory
    let deadline: Deadline
    let loop: EventLoop

    private var network: any Network { configuration.usedNetwork }
    private var domain: String { configuration.jid.domain.string }

    /// The least time that one of several hosts gets, however little is left.
    private static let leastShare = Duration.seconds(2)

    /// Connects to where the server wants the session to be resumed, or else to where the account's service is.
    func connect(to location: String?) async throws -> OpeningStream {
        if let location,
            let target = configuration.target(location),
            let stream = try? await connect([target], deadline: share(of: 2))
        {
            return stream
        }
        return try await connect(try await targets())
    }

    private func targets() async throws(TransportError) -> [ServiceTarget] {
        if let server = configuration.server {
            return [.init(host: server.host, port: server.port, isDirectTLS: server.security == .directTLS)]
        }
        return try await network.services(of: domain, deadline: deadline, on: loop)
    }

    /// Returns the target of a redirection (RFC 6120 section 4.9.3.19). The certificate there must be for the account's
    /// domain too, so a redirection cannot lead to a foreign server.
    func redirection(_ error: AccountError) -> ServiceTarget? { Self.redirection(error, configuration) }

    static func redirection(_ error: AccountError, _ configuration: AccountConfiguration) -> ServiceTarget? {
        guard let error = error.cause as? StreamError, error.condition == .seeOtherHost,
            let host = error.alternateAddress
        else { return nil }
        return configuration.target(host.string)
    }

    // MARK: Host after host

    /// Connects to the first that leads to a protected stream.
    func connect(_ targets: [ServiceTarget], deadline limit: Deadline? = nil) async throws -> OpeningStream {
        var failures: [any Error] = []
        for (index, target) in targets.enumerated() {
            let end = Deadline.earlier(limit ?? deadline, share(of: targets.count - index))
            do {
                return try await connect(target, deadline: end)
            } catch let error as TransportError where error.code == .interrupted {
                throw error
            } catch let error as AccountError where error.code == .closed || redirection(error) != nil {
                throw error
            } catch {
                configuration.log(.verbose, .connection, "\(target.host) port \(target.port): \(error)")
                failures.append(error)
            }
            if loop.isPassed(deadline) { break }
        }
        throw Self.summary(failures)
    }

    /// A fair part of the time that is left.
    private func share(of parts: Int) -> Deadline {
        guard parts > 1 else { return deadline }
        let share = max(Self.leastShare, loop.remaining(until: deadline) / parts)
        return .earlier(deadline, loop.deadline(after: share))
    }

    /// Returns the most important failure: an untrusted server before a server that was not found.
    private static func summary(_ failures: [any Error]) -> any Error {
        let telling = failures.first { !(($0 as? TransportError)?.isAboutReaching ?? false) }
        guard let chosen = telling ?? failures.last else {
            return AccountError(.timedOut, "there was no time left to connect; it is tried again")
        }
        guard failures.count > 1, let error = chosen as? TransportError else { return chosen }
        let others = failures.compactMap { ($0 as? TransportError)?.message }.joined(separator: " ")
        return TransportError(error.code, error.message, cause: "of several hosts: \(others)")
    }

    // MARK: One host

    private func connect(_ target: ServiceTarget, deadline: Deadline) async throws -> OpeningStream {
        if network.isSimulated { return try await connectSimulated(target, deadline: deadline) }
        let context = try memory.context(for: configuration)
        let connection = try await network.connect(
            host: target.host, port: target.port, deadline: deadline, on: loop)
        configuration.onMilestone?(.connected)
        if target.isDirectTLS {
            try await connection.startTLS(
                context, domain: domain, offersProtocol: true, deadline: deadline, on: loop)
        }
        if let log = configuration.log { connection.transcript = Transcript(log, configuration.jid) }
        let stream = try OpeningStream(connection, deadline: deadline, loop: loop)
        if !target.isDirectTLS { try await startTLS(stream, context) }
        configuration.onMilestone?(.protected)
        configuration.log(
            .info, .connection,
            "connected to \(connection.peer) by \(connection.tls?.protocolVersion ?? "TLS")")
        // The login may take what the other hosts would have had.
        stream.deadline = self.deadline
        return stream
    }

    private func connectSimulated(_ target: ServiceTarget, deadline: Deadline) async throws -> OpeningStream {
        let connection = try await network.connect(
            host: target.host, port: target.port, deadline: deadline, on: loop)
        connection.startRecords()
        let stream = try OpeningStream(connection, deadline: deadline, loop: loop)
        stream.deadline = self.deadline
        return stream
    }

    private func startTLS(_ stream: OpeningStream, _ context: TLSContext) async throws {
        // No `from` before TLS: the address would travel in clear (RFC 6120 section 4.7.1).
        try stream.start(to: domain, from: nil)
        // Without TLS there is no going on, so there is nothing to wait for (XEP-0305 section 2).
        stream.write(Element("starttls", namespace: Namespaces.tls))
        let features = try await stream.features()
        guard features.child("starttls", Namespaces.tls) != nil else {
            throw AccountError(
                .tlsUnavailable,
                "\(stream.connection.peer) does not offer TLS for \(domain); nothing is sent without it. Check the port, or use direct TLS"
            )
        }
        let answer = try await stream.element()
        guard answer.has(name: "proceed", namespace: Namespaces.tls) else {
            throw AccountError(
                .tlsUnavailable, "\(stream.connection.peer) refused to begin TLS; try again later")
        }
        try await stream.startTLS(context, domain: domain)
    }
}

extension AccountConfiguration {
    package var usedNetwork: any Network { network ?? SystemNetwork(nameServers: nameServers) }

    /// A place that the server named, reached in the same way as the configured one.
    fileprivate func target(_ text: String) -> ServiceTarget? {
        ServiceTarget(text, defaultPort: server?.port ?? 5222, isDirectTLS: server?.security == .directTLS)
    }
}

extension TransportError {
    /// Whether the server was not even reached.
    fileprivate var isAboutReaching: Bool {
        [
            .nameNotFound, .lookupFailed, .refused, .unreachable, .timedOut, .connectionClosed,
            .connectionReset,
        ]
        .contains(code)
    }
}
