import Glibc
import Synchronization

/// A getaddrinfo(3) call that can be given up.
///
/// getaddrinfo knows neither deadline nor interruption, so it runs on a thread of its own, which writes to a
/// socket pair when it is done. A caller that stops waiting leaves the thread behind; it ends with the
/// system's own resolver timeout and holds nothing but this object until then.
final class AddressLookup: Sendable {
    private enum Outcome {
        case found([SocketAddress])
        case failed(code: Int32, systemError: Int32)
    }

    private let name: String
    private let port: String
    private let outcome = Mutex<Outcome?>(nil)
    private let readyEnd: Int32
    private let doneEnd: Int32

    /// EAI_NODATA, which glibc declares only under _GNU_SOURCE: the name exists, but has no address.
    private static let noAddress: Int32 = -5

    /// The addresses of `host`, the system's preference kept, families interleaved.
    ///
    /// - Parameter servers: Name servers to ask instead of the machine's ways to resolve a name.
    static func addresses(
        of host: String, port: UInt16, servers: [String] = [], deadline: Deadline, interrupt: Int32?
    ) throws(TransportError) -> [SocketAddress] {
        let name = DomainName.ascii(DomainName.withoutBrackets(host))
        // A C string ends at a zero byte: what is looked up would not be what was asked for.
        if name.isEmpty || name.utf8.contains(0) { throw failure(of: host, code: EAI_NONAME, systemError: 0) }
        if case .found(let addresses) = lookUp(name, "\(port)", flags: AI_NUMERICHOST) { return addresses }
        if !servers.isEmpty {
            return try ask(servers, name, host: host, port: port, deadline: deadline, interrupt: interrupt)
        }
        let lookup = try AddressLookup(name: name, port: port)
        try lookup.start()
        var entries = [pollfd(fd: lookup.readyEnd, events: Int16(POLLIN), revents: 0)]
        try check(try Poll.wait(&entries, until: deadline, interrupt: interrupt), host)
        switch lookup.outcome.withLock({ $0 }) {
        case .found(let addresses)?: return SocketAddress.interleaved(addresses)
        case .failed(let code, let number)?: throw failure(of: host, code: code, systemError: number)
        case nil: throw failure(of: host, code: EAI_FAIL, systemError: 0)
        }
    }

    private static func ask(
        _ servers: [String], _ name: String, host: String, port: UInt16, deadline: Deadline, interrupt: Int32?
    ) throws(TransportError) -> [SocketAddress] {
        let query = try NameQuery(servers: servers)
        let question = query.addresses(of: name, port: port)
        try check(try query.wait(until: deadline, interrupt: interrupt), host)
        switch question.answer {
        case .found(let addresses): return SocketAddress.interleaved(addresses)
        case .none?: throw failure(of: host, code: EAI_NONAME, systemError: 0)
        case .failed, nil: throw failure(of: host, code: EAI_AGAIN, systemError: 0)
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

    private init(name: String, port: UInt16) throws(TransportError) {
        var ends: [Int32] = [-1, -1]
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { throw Socket.creationFailure(errno) }
        (readyEnd, doneEnd) = (ends[0], ends[1])
        self.name = name
        self.port = "\(port)"
    }

    deinit {
        close(readyEnd)
        close(doneEnd)
    }

    private func start() throws(TransportError) {
        let reference = Unmanaged.passRetained(self).toOpaque()
        var thread = pthread_t()
        let result = pthread_create(
            &thread, nil,
            { argument in
                Unmanaged<AddressLookup>.fromOpaque(argument!).takeRetainedValue().run()
                return nil
            }, reference)
        guard result == 0 else {
            Unmanaged<AddressLookup>.fromOpaque(reference).release()
            throw TransportError(
                .systemFailure,
                "No thread could be started to look up "
                    + "\(name).", cause: systemErrorText(result))
        }
        pthread_detach(thread)
    }

    private func run() {
        let result = AddressLookup.lookUp(name, port, flags: 0)
        outcome.withLock { $0 = result }
        var byte: UInt8 = 1
        _ = send(doneEnd, &byte, 1, Int32(MSG_NOSIGNAL))
    }

    private static func lookUp(_ name: String, _ port: String, flags: Int32) -> Outcome {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = flags | AI_NUMERICSERV
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(name, port, &hints, &list)
        guard code == 0 else { return .failed(code: code, systemError: code == EAI_SYSTEM ? errno : 0) }
        defer { freeaddrinfo(list) }
        let entries = sequence(first: list) { $0?.pointee.ai_next }.prefix { $0 != nil }
        return .found(entries.map { SocketAddress($0!.pointee) })
    }

    private static func failure(of host: String, code: Int32, systemError: Int32) -> TransportError {
        let cause = systemError != 0 ? systemErrorText(systemError) : String(cString: gai_strerror(code))
        if code == EAI_NONAME || code == noAddress {
            return TransportError(
                .nameNotFound,
                "There is no host named \(host); check the "
                    + "name for a typing error.", cause: cause)
        }
        return TransportError(
            .lookupFailed,
            "The name \(host) could not be looked up; check "
                + "the network and try again.", cause: cause)
    }
}
