import Platform

/// The way to servers: name service, connections and the clock of their deadlines.
package protocol Network: Sendable {
    /// Looks up the services of a domain for clients; see ``ServiceTargets/lookUp(_:servers:deadline:on:)``.
    func services(
        of domain: String, deadline: Deadline, on loop: EventLoop
    ) async throws(TransportError) -> [ServiceTarget]

    /// Connects; see ``Socket/connect(host:port:nameServers:deadline:on:)``.
    func connect(
        host: String, port: UInt16, deadline: Deadline, on loop: EventLoop
    ) async throws(TransportError) -> Connection

    /// The clock of deadlines, in nanoseconds.
    var clock: @Sendable () -> Int64 { get }

    /// Whether its bytes never leave this process, so that nothing has to be encrypted: in a simulated world. What is written
    /// is then divided into records as TLS divides it, see ``Connection/startRecords()``.
    var isSimulated: Bool { get }
}

extension Network {
    package var isSimulated: Bool { false }
}

/// The network of the machine.
package struct SystemNetwork: Network {
    private let nameServers: [String]

    /// - Parameter nameServers: Name servers; empty for the machine's.
    package init(nameServers: [String] = []) { self.nameServers = nameServers }

    package func services(
        of domain: String, deadline: Deadline, on loop: EventLoop
    ) async throws(TransportError) -> [ServiceTarget] {
        try await ServiceTargets.lookUp(domain, servers: nameServers, deadline: deadline, on: loop)
    }

    package func connect(
        host: String, port: UInt16, deadline: Deadline, on loop: EventLoop
    ) async throws(TransportError) -> Connection {
        try await .connect(host: host, port: port, nameServers: nameServers, deadline: deadline, on: loop)
    }

    package var clock: @Sendable () -> Int64 { SystemTime.monotonicNanoseconds }
}
