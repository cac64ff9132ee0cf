import Platform

/// getaddrinfo(3) calls that can be given up.
///
/// getaddrinfo knows neither deadline nor interruption, so each call runs on a thread of its own, which ends with the system's own
/// resolver timeout.
enum AddressLookup {
    /// The addresses of `host`, the system's preference kept, families interleaved.
    ///
    /// - Parameter servers: Name servers to ask instead of the machine's ways to resolve a name.
    static func addresses(
        of host: String, port: UInt16, servers: [String] = [], deadline: Deadline, on loop: EventLoop
    ) async throws(TransportError) -> [SocketAddress] {
        let name = DomainName.ascii(DomainName.withoutBrackets(host))
        // A C string ends at a zero byte: what is looked up would not be what was asked for.
        if name.isEmpty || name.utf8.contains(0) { throw failure(of: host, .noName) }
        if let addresses = try? NameLookup.addresses(of: name, port: port, isNumeric: true) {
            return addresses
        }
        if !servers.isEmpty {
            return try await ask(servers, name, host: host, port: port, deadline: deadline, on: loop)
        }
        let (result, outcome) = try await OutsideCall.wait(until: deadline, on: loop) {
            (call) throws(TransportError) in
            do throws(Errno) {
                _ = try SystemThread("name lookup", call)
            } catch {
                throw TransportError(
                    .systemFailure, "No thread could be started to look up \(name).", cause: error.detail)
            }
        } _: {
            Result { () throws(NameLookup.Failure) in try NameLookup.addresses(of: name, port: port) }
        }
        try check(result, host)
        switch outcome {
        case .success(let addresses)?: return SocketAddress.interleaved(addresses)
        case .failure(let reason)?: throw failure(of: host, reason)
        case nil: throw failure(of: host, .failed)
        }
    }

    private static func ask(
        _ servers: [String], _ name: String, host: String, port: UInt16, deadline: Deadline,
        on loop: EventLoop
    ) async throws(TransportError) -> [SocketAddress] {
        let query = try NameQuery(servers: servers)
        let question = query.addresses(of: name, port: port)
        try check(await query.wait(until: deadline, on: loop), host)
        switch question.answer {
        case .found(let addresses): return SocketAddress.interleaved(addresses)
        case .none?: throw failure(of: host, .noName)
        case .failed, nil: throw failure(of: host, .tryAgain)
        }
    }

    private static func check(_ result: WaitResult, _ host: String) throws(TransportError) {
        switch result {
        case .ready: return
        case .timedOut:
            throw TransportError(
                .timedOut, "Looking up the name \(host) took too long; check this machine's name servers.")
        case .interrupted:
            throw TransportError(.interrupted, "Looking up the name \(host) was interrupted.")
        }
    }

    private static func failure(of host: String, _ reason: NameLookup.Failure) -> TransportError {
        let cause = reason.description
        if reason.isNoName {
            return TransportError(
                .nameNotFound,
                "There is no host named \(host); check the name for a typing error.", cause: cause)
        }
        return TransportError(
            .lookupFailed,
            "The name \(host) could not be looked up; check the network and try again.", cause: cause)
    }
}

extension SocketAddress {
    /// The families in turn, starting with that of the first address (RFC 8305 section 4): one family that
    /// leads nowhere then costs one attempt, not all of its addresses.
    static func interleaved(_ addresses: [SocketAddress]) -> [SocketAddress] {
        guard let first = addresses.first else { return [] }
        let preferred = addresses.filter { $0.family == first.family }
        let others = addresses.filter { $0.family != first.family }
        return (0..<max(preferred.count, others.count)).flatMap { index in
            [preferred, others].compactMap { index < $0.count ? $0[index] : nil }
        }
    }
}
