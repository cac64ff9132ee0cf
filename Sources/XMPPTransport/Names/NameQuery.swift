import CAres
import Platform

/// One SRV record (RFC 2782).
struct ServiceRecord: Hashable, Sendable {
    /// The host; empty for `.`, which says that the service is not offered.
    var host: String
    var port: UInt16
    var priority: UInt16
    var weight: UInt16
}

/// DNS questions that are asked together, on one c-ares channel, by the thread that waits for the answers.
///
/// Not `Sendable`: one thread asks, waits and reads.
final class NameQuery {
    /// The answer to a query.
    enum Answer<Value: Sendable>: Sendable {
        case found(Value)
        /// The name does not exist, or has no record of that type.
        case none
        /// It could not be found out; c-ares's words.
        case failed(String)
    }

    /// Receives one answer; c-ares holds an unretained reference to it until it has called back.
    final class Question<Value: Sendable> {
        fileprivate(set) var answer: Answer<Value>?
    }

    private var channel: ares_channel?
    private var services: [Question<[ServiceRecord]>] = []
    private var addresses: [Question<[SocketAddress]>] = []

    /// c-ares is initialized once for the process, and counts.
    private static let isReady = ares_library_init(ARES_LIB_INIT_NONE) == dh_ares_success

    /// - Parameter servers: Name servers as `address`, `address:port` or `[v6]:port`; empty for the machine's.
    init(servers: [String]) throws(TransportError) {
        var result = Self.isReady ? ares_init(&channel) : dh_ares_not_initialized
        if result == dh_ares_success, !servers.isEmpty {
            result = ares_set_servers_ports_csv(channel, servers.joined(separator: ","))
        }
        guard result == dh_ares_success else {
            throw TransportError(
                .lookupFailed, "Names cannot be looked up; check the configured name servers.",
                cause: Self.text(result))
        }
    }

    deinit {
        // Calls back for what is still open, so the questions must be there until here.
        if let channel { ares_destroy(channel) }
    }

    // MARK: - Asking

    /// Asks for the SRV records of a name; the answer is there after ``wait(until:on:)``.
    func services(of name: String) -> Question<[ServiceRecord]> {
        let question = Question<[ServiceRecord]>()
        services.append(question)
        // RFC 1035 section 3.2.4: class IN; RFC 2782: type 33.
        ares_query(
            channel, name, 1, 33,
            { argument, status, _, bytes, count in
                NameQuery.question(argument).answer = NameQuery.services(status, bytes, count)
            }, Unmanaged.passUnretained(question).toOpaque())
        return question
    }

    /// Asks for the addresses of a host, of both families.
    func addresses(of host: String, port: UInt16) -> Question<[SocketAddress]> {
        let question = Question<[SocketAddress]>()
        addresses.append(question)
        var hints = ares_addrinfo_hints()
        hints.ai_family = dh_ares_any_family
        hints.ai_socktype = dh_ares_stream_socket
        hints.ai_flags = ARES_AI_NUMERICSERV
        ares_getaddrinfo(
            channel, host, "\(port)", &hints,
            { argument, status, _, result in
                let question: Question<[SocketAddress]> = NameQuery.question(argument)
                question.answer = NameQuery.addresses(status, result)
                if let result { ares_freeaddrinfo(result) }
            }, Unmanaged.passUnretained(question).toOpaque())
        return question
    }

    private static func question<Value>(_ argument: UnsafeMutableRawPointer?) -> Question<Value> {
        Unmanaged<Question<Value>>.fromOpaque(argument!).takeUnretainedValue()
    }

    // MARK: - Waiting

    /// Waits until every question has its answer.
    ///
    /// - Parameter isNeeded: Whether to go on waiting, although some have none; looked at after each answer.
    /// - Returns: `timedOut` or `interrupted` when some have none.
    func wait(
        until deadline: Deadline, on loop: EventLoop, while isNeeded: () -> Bool = { true }
    ) async -> WaitResult {
        while isNeeded() {
            var sockets = [ares_socket_t](repeating: dh_ares_no_socket, count: Int(ARES_GETSOCK_MAXNUM))
            let bits = ares_getsock(channel, &sockets, ARES_GETSOCK_MAXNUM)
            guard bits != 0 else { return .ready }
            var entries: [PollEntry] = []
            for (index, socket) in sockets.enumerated() {
                var events: PollEvents = []
                if dh_ares_reads(bits, Int32(index)) != 0 { events.insert(.readable) }
                if dh_ares_writes(bits, Int32(index)) != 0 { events.insert(.writable) }
                if !events.isEmpty { entries.append(PollEntry(socket, for: events)) }
            }
            let limit = Deadline.earlier(deadline, nextTry(loop))
            let result = await loop.wait(&entries, until: limit)
            if result == .interrupted || loop.isPassed(deadline) {
                return result == .ready ? .timedOut : result
            }
            process(entries)
        }
        return .ready
    }

    /// Returns when c-ares wants to repeat a query or to query another server.
    private func nextTry(_ loop: EventLoop) -> Deadline {
        let microseconds = dh_ares_timeout(channel)
        return microseconds < 0 ? .never : loop.deadline(after: .milliseconds(microseconds / 1000 + 1))
    }

    private func process(_ entries: [PollEntry]) {
        var isIdle = true
        for entry in entries where entry.isReady {
            isIdle = false
            let writes = entry.found.contains(.writable)
            let reads = entry.found != .writable  // Errors are read.
            ares_process_fd(
                channel, reads ? entry.descriptor : dh_ares_no_socket,
                writes ? entry.descriptor : dh_ares_no_socket)
        }
        // The time alone is looked at.
        if isIdle { ares_process_fd(channel, dh_ares_no_socket, dh_ares_no_socket) }
    }

    // MARK: - Reading answers

    private static func services(
        _ status: Int32, _ bytes: UnsafeMutablePointer<UInt8>?, _ count: Int32
    ) -> Answer<[ServiceRecord]> {
        guard status == dh_ares_success, let bytes else { return failure(status) }
        var list: UnsafeMutablePointer<ares_srv_reply>?
        let result = ares_parse_srv_reply(bytes, count, &list)
        guard result == dh_ares_success else { return failure(result) }
        defer { if let list { ares_free_data(list) } }
        let records = sequence(first: list) { $0?.pointee.next }.prefix { $0 != nil }.map { entry in
            let record = entry!.pointee
            return ServiceRecord(
                host: String(cString: record.host), port: record.port, priority: record.priority,
                weight: record.weight)
        }
        return records.isEmpty ? .none : .found(records)
    }

    private static func addresses(
        _ status: Int32, _ result: UnsafeMutablePointer<ares_addrinfo>?
    ) -> Answer<[SocketAddress]> {
        guard status == dh_ares_success, let result else { return failure(status) }
        let nodes = sequence(first: result.pointee.nodes) { $0?.pointee.ai_next }.prefix { $0 != nil }
        let addresses = nodes.compactMap { node in
            let node = node!.pointee
            return node.ai_addr.map {
                SocketAddress(UnsafeRawBufferPointer(start: $0, count: Int(node.ai_addrlen)))
            }
        }
        return addresses.isEmpty ? .none : .found(addresses)
    }

    private static func failure<Value>(_ status: Int32) -> Answer<Value> {
        let absent = [dh_ares_not_found, dh_ares_no_data, dh_ares_no_name, dh_ares_bad_name]
        return absent.contains(status) ? .none : .failed(text(status))
    }

    private static func text(_ status: Int32) -> String { String(cString: ares_strerror(status)) }
}
