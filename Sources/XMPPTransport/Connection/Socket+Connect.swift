import Platform

extension Socket {
    /// Connects to the first address of `host` that answers (RFC 8305, "happy eyeballs").
    ///
    /// IPv6 and IPv4 take turns; the next address is tried when one fails, or beside it when one has been
    /// silent for 250 ms. Everything, the name lookup included, ends at `deadline`.
    ///
    /// - Parameters:
    ///   - host: A host name or an IP address, without brackets.
    ///   - port: 1...65535.
    ///   - nameServers: Name servers for the addresses; empty for the machine's own ways.
    ///   - deadline: When to give up.
    ///   - loop: What waits. Canceling the task ends the call.
    /// - Throws: `TransportError` with `nameNotFound`, `lookupFailed`, `refused`, `unreachable`, `timedOut`,
    ///   `interrupted` or `systemFailure`.
    package static func connect(
        host: String, port: UInt16, nameServers: [String] = [], deadline: Deadline, on loop: EventLoop
    ) async throws(TransportError) -> Socket {
        let addresses = try await AddressLookup.addresses(
            of: host, port: port, servers: nameServers, deadline: deadline, on: loop)
        var attempts = ConnectAttempts(host: host, port: port, addresses: addresses)
        return try await attempts.run(until: deadline, on: loop)
    }
}

/// The attempts of one connect call.
struct ConnectAttempts {
    let host: String
    let port: UInt16
    /// Addresses not tried yet.
    var waiting: ArraySlice<SocketAddress>
    /// Sockets whose connect is under way.
    var running: [(handle: StreamSocket, address: SocketAddress)] = []
    var failures: [(address: SocketAddress, error: Errno)] = []

    /// The time without an answer after which the next address is tried too (RFC 8305 section 5).
    static let headStart = Duration.milliseconds(250)

    init(host: String, port: UInt16, addresses: [SocketAddress]) {
        self.host = host
        self.port = port
        waiting = addresses[...]
    }

    mutating func run(until deadline: Deadline, on loop: EventLoop) async throws(TransportError) -> Socket {
        var nextStart = loop.deadline(after: .zero)
        while true {
            if running.isEmpty || loop.isPassed(nextStart), let address = waiting.popFirst() {
                nextStart = loop.deadline(after: ConnectAttempts.headStart)
                if let connected = try start(address) { return connected }
                continue
            }
            if running.isEmpty { throw failure() }
            let limit = waiting.isEmpty ? deadline : Deadline.earlier(deadline, nextStart)
            var entries = running.map { PollEntry($0.handle.descriptor, for: .writable) }
            switch await loop.wait(&entries, until: limit) {
            case .interrupted:
                throw TransportError(.interrupted, "Connecting to \(place) was interrupted.")
            case .timedOut:
                if loop.isPassed(deadline) { throw timedOut() }
            case .ready:
                if let connected = settle(entries) { return connected }
                nextStart = loop.deadline(after: .zero)
            }
        }
    }

    /// Starts one attempt; returns its socket when it succeeded at once.
    private mutating func start(_ address: SocketAddress) throws(TransportError) -> Socket? {
        guard let handle = try open(address) else { return nil }
        do throws(Errno) {
            if try handle.connect(to: address) { return connected(handle, address) }
            running.append((handle, address))
        } catch {
            failures.append((address, error))
        }
        return nil
    }

    private mutating func open(_ address: SocketAddress) throws(TransportError) -> StreamSocket? {
        do throws(Errno) {
            return try StreamSocket(family: address.family)
        } catch {
            if error.isExhaustion { throw Socket.creationFailure(error) }
            failures.append((address, error))  // For instance a kernel without IPv6.
            return nil
        }
    }

    /// Checks the attempts that poll reported. Returns the first that is connected, and drops those that failed.
    private mutating func settle(_ entries: [PollEntry]) -> Socket? {
        for (index, entry) in entries.enumerated().reversed() where entry.isReady {
            let attempt = running.remove(at: index)
            do throws(Errno) {
                try attempt.handle.checkError()
                return connected(attempt.handle, attempt.address)
            } catch {
                failures.append((attempt.address, error))
            }
        }
        return nil
    }

    private func connected(_ handle: StreamSocket, _ address: SocketAddress) -> Socket {
        Socket(handle, peer: address.text == host ? place : "\(place) (\(address.text))")
    }

    private var place: String { "\(host) port \(port)" }

    private func timedOut() -> TransportError {
        TransportError(
            .timedOut, "\(place) did not answer in time; check host and port, the network and its firewalls.",
            cause: details)
    }

    private func failure() -> TransportError {
        let errors = failures.map(\.error)
        if errors.contains(.connectionRefused) {
            return TransportError(
                .refused, "\(place) refused the connection; check the port, and that the server runs.",
                cause: details)
        }
        if errors.contains(.timedOut) { return timedOut() }
        return TransportError(
            .unreachable, "No address of \(place) can be reached; check the network.", cause: details)
    }

    private var details: String? {
        failures.isEmpty
            ? nil
            : failures.map { "\($0.address.text): \($0.error.detail)" }.joined(separator: "; ")
    }
}
