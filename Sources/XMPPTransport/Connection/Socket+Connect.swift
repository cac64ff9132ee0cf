import Glibc

extension Socket {
    /// Connects to the first address of `host` that answers (RFC 8305, "happy eyeballs").
    ///
    /// IPv6 and IPv4 take turns; the next address is tried when one fails, or beside it when one has been
    /// silent for 250 ms. Everything, the name lookup included, ends at `deadline`.
    ///
    /// - Parameters:
    ///   - host: A host name or an IP address, without brackets.
    ///   - port: 1...65535.
    ///   - nameServers: Whom to ask for the addresses; empty for the machine's own ways.
    ///   - deadline: When to give up.
    ///   - interrupt: A descriptor that becomes readable when somebody wants the call to end. It is not read
    ///     from.
    /// - Throws: `TransportError` with `nameNotFound`, `lookupFailed`, `refused`, `unreachable`, `timedOut`,
    ///   `interrupted` or `systemFailure`.
    package static func connect(
        host: String, port: UInt16, nameServers: [String] = [], deadline: Deadline, interrupt: Int32? = nil
    ) throws(TransportError) -> Socket {
        let addresses = try AddressLookup.addresses(
            of: host, port: port, servers: nameServers, deadline: deadline, interrupt: interrupt)
        var attempts = ConnectAttempts(host: host, port: port, addresses: addresses)
        return try attempts.run(until: deadline, interrupt: interrupt)
    }
}

/// The attempts of one connect call.
struct ConnectAttempts {
    let host: String
    let port: UInt16
    /// Addresses not tried yet.
    var waiting: ArraySlice<SocketAddress>
    /// Sockets whose connect is under way.
    var running: [(socket: Socket, address: SocketAddress)] = []
    var failures: [(address: SocketAddress, number: Int32)] = []

    /// How long one address may be silent before the next one is tried too (RFC 8305 section 5).
    static let headStart = Duration.milliseconds(250)

    init(host: String, port: UInt16, addresses: [SocketAddress]) {
        self.host = host
        self.port = port
        waiting = addresses[...]
    }

    mutating func run(until deadline: Deadline, interrupt: Int32?) throws(TransportError) -> Socket {
        var nextStart = Deadline.after(.zero)
        while true {
            if running.isEmpty || nextStart.isPassed, let address = waiting.popFirst() {
                nextStart = .after(ConnectAttempts.headStart)
                if let connected = try start(address) { return connected }
                continue
            }
            if running.isEmpty { throw failure() }
            let limit = waiting.isEmpty ? deadline : Deadline.earlier(deadline, nextStart)
            var entries = running.map {
                pollfd(fd: $0.socket.fileDescriptor, events: Int16(POLLOUT), revents: 0)
            }
            switch try Poll.wait(&entries, until: limit, interrupt: interrupt) {
            case .interrupted:
                throw TransportError(.interrupted, "Connecting to \(place) was interrupted.")
            case .timedOut:
                if deadline.isPassed { throw timedOut() }
            case .ready:
                if let connected = settle(entries) { return connected }
                nextStart = .after(.zero)
            }
        }
    }

    /// Begins one attempt; returns its socket when it succeeded at once.
    private mutating func start(_ address: SocketAddress) throws(TransportError) -> Socket? {
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        let descriptor = socket(address.family, kind, 0)
        guard descriptor >= 0 else {
            let number = errno
            if [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(number) { throw Socket.creationFailure(number) }
            failures.append((address, number))  // For instance a kernel without IPv6.
            return nil
        }
        let socket = try Socket(
            adopting: descriptor, peer: address.text == host ? place : "\(place) (\(address.text))")
        switch address.beginConnecting(descriptor) {
        case 0: return socket
        case EINPROGRESS, EINTR: running.append((socket, address))
        case let number: failures.append((address, number))
        }
        return nil
    }

    /// Looks at the attempts that poll reported; returns the first that is connected and drops those that
    /// failed.
    private mutating func settle(_ entries: [pollfd]) -> Socket? {
        for (index, entry) in entries.enumerated().reversed() where entry.revents != 0 {
            var number: Int32 = 0
            var size = socklen_t(MemoryLayout<Int32>.size)
            if getsockopt(entry.fd, SOL_SOCKET, SO_ERROR, &number, &size) != 0 { number = errno }
            let attempt = running.remove(at: index)
            if number == 0 { return attempt.socket }
            failures.append((attempt.address, number))
        }
        return nil
    }

    private var place: String { "\(host) port \(port)" }

    private func timedOut() -> TransportError {
        TransportError(
            .timedOut, "\(place) did not answer in time; check host and port, the network and its firewalls.",
            cause: details)
    }

    private func failure() -> TransportError {
        let numbers = failures.map(\.number)
        if numbers.contains(ECONNREFUSED) {
            return TransportError(
                .refused, "\(place) refused the connection; check the port, and that the server runs.",
                cause: details)
        }
        if numbers.contains(ETIMEDOUT) { return timedOut() }
        return TransportError(
            .unreachable, "No address of \(place) can be reached; check the network.", cause: details)
    }

    private var details: String? {
        failures.isEmpty
            ? nil
            : failures.map { "\($0.address.text): \(systemErrorText($0.number))" }.joined(separator: "; ")
    }
}
