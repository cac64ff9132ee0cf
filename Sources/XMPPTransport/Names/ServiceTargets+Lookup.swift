import Platform

// The questions to name servers about a domain, and what follows from their answers.
extension ServiceTargets {
    typealias Answer = NameQuery.Answer<[ServiceRecord]>

    /// The time that a lookup waits for the answer about one name once the other answer leads to a server.
    static let grace = Duration.seconds(1)

    /// Looks up where the domain's service for clients is.
    ///
    /// Without records it is the domain itself, port 5222 (RFC 6120 section 3.2.2). A name server that stays silent about one
    /// name holds up the answer for the other by ``grace``; if that answer leads nowhere, by half of the time.
    ///
    /// - Parameter servers: Name servers; empty for the machine's.
    /// - Throws: `serviceNotOffered` when the domain says that it has none; `lookupFailed` when that may be so, and is not known;
    ///   `timedOut`, `interrupted`.
    package static func lookUp(
        _ domain: String, servers: [String], deadline: Deadline, on loop: EventLoop
    ) async throws(TransportError) -> [ServiceTarget] {
        let name = DomainName.ascii(DomainName.withoutBrackets(domain))
        if name.isEmpty || SocketAddress.isNumeric(name) {
            return [ServiceTarget(host: name, port: 5222, isDirectTLS: false)]
        }
        let query = try NameQuery(servers: servers)
        let secure = query.services(of: "_xmpps-client._tcp.\(name)")
        let plain = query.services(of: "_xmpp-client._tcp.\(name)")
        try check(
            await query.wait(until: deadline, on: loop) { secure.answer == nil && plain.answer == nil },
            domain)
        var generator = Randomness()
        let isEnough = !ordered(secure: secure.records, plain: plain.records, using: &generator).isEmpty
        let patience = isEnough ? grace : loop.remaining(until: deadline) / 2
        let result = await query.wait(
            until: .earlier(deadline, loop.deadline(after: patience)), on: loop)
        // Time that is over leaves one answer, which must do.
        if result == .interrupted { try check(result, domain) }
        return try targets(
            of: domain, name, secure: secure.answer, plain: plain.answer, using: &generator)
    }

    private static func check(_ result: WaitResult, _ domain: String) throws(TransportError) {
        switch result {
        case .ready: return
        case .timedOut:
            throw TransportError(
                .timedOut,
                "Looking up the service of \(domain) took too long; check this machine's name servers.")
        case .interrupted:
            throw TransportError(.interrupted, "Looking up the service of \(domain) was interrupted.")
        }
    }

    /// Returns where the service is.
    ///
    /// A single target `.` says "decidedly not here" (RFC 2782), of the service that was asked for. A domain has none if it says so of
    /// STARTTLS, and direct TLS is not there either. While one of the two is unknown, that is not known.
    ///
    /// - Parameters:
    ///   - name: The domain as DNS writes it.
    ///   - secure: The answer about direct TLS; nil for none in time.
    ///   - plain: The answer about STARTTLS; nil for none in time.
    /// - Throws: `serviceNotOffered`, `lookupFailed`.
    static func targets(
        of domain: String, _ name: String, secure: Answer?, plain: Answer?,
        using generator: inout some RandomNumberGenerator
    ) throws(TransportError) -> [ServiceTarget] {
        let targets = ordered(secure: records(secure), plain: records(plain), using: &generator)
        guard targets.isEmpty else { return targets }
        switch (Offer(secure), Offer(plain)) {
        case (.refused, .refused), (.none, .refused):
            throw TransportError(
                .serviceNotOffered,
                "\(domain) says in DNS that it has no XMPP service for clients; check the account's address.")
        case (.unknown, .refused), (.refused, .unknown):
            throw TransportError(
                .lookupFailed,
                "Name servers say only in part where the service of \(domain) is; it is asked again.",
                cause: failure(secure) ?? failure(plain))
        // Nothing is said about STARTTLS, or no answer came (RFC 6120 section 3.2.1).
        case (_, .none), (.none, .unknown), (.unknown, .unknown):
            return [ServiceTarget(host: name, port: 5222, isDirectTLS: false)]
        }
    }

    /// What is known of a service without a usable record.
    private enum Offer {
        /// The name has no such records.
        case none
        /// The domain says that it has no such service.
        case refused
        case unknown

        init(_ answer: Answer?) {
            switch answer {
            case .none?: self = .none
            case .found(let records)?: self = records.contains(where: \.isRefusal) ? .refused : .unknown
            case .failed, nil: self = .unknown
            }
        }
    }

    fileprivate static func records(_ answer: Answer?) -> [ServiceRecord] {
        if case .found(let records)? = answer { records } else { [] }
    }

    private static func failure(_ answer: Answer?) -> String? {
        if case .failed(let words)? = answer { words } else { nil }
    }
}

extension ServiceRecord {
    /// Whether its target is `.`, as c-ares or a test writes it.
    fileprivate var isRefusal: Bool { host.isEmpty || host == "." }
}

extension NameQuery.Question<[ServiceRecord]> {
    /// The records; none when there are none or when they are not known.
    fileprivate var records: [ServiceRecord] { ServiceTargets.records(answer) }
}
