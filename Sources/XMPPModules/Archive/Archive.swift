public import Handlers
public import XMPPAccount
public import XMPPCore

/// The archives that an account catches up with; see ``ArchiveModule``.
///
/// A value that refers to its account; make one whenever it is needed, through `Account.archive`.
///
/// ```swift
/// try await account.perform { step in
///     try account.archive.fetch(with: juliet, .end, limit: 20, then: History.shown(), in: step)
/// }
/// ```
public struct Archive: Sendable {
    let account: Account

    private var table: ArchiveTable { ArchiveTable(account: account.id) }

    // MARK: Catching up

    /// Fetches the messages of an archive that this account has not seen. A running catch-up is not started again.
    ///
    /// The account's own archive is caught up with in every new session without being asked; this is for rooms.
    ///
    /// - Parameters:
    ///   - archive: The account's bare address, or a room's.
    ///   - since: Where to begin when nothing was ever fetched from it; nil for what the
    ///     module was made with.
    ///   - step: The step that it commits with.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule`; ``/Handlers/HandlerError`` when the store fails.
    public func catchUp(_ archive: JID, since: Timestamp? = nil, in step: borrowing Step) throws {
        let module: ArchiveModule = try account.module()
        let now = step.now
        let earliest = since ?? module.history.map { max(Timestamp(milliseconds: 0), now - $0) }
        try table.enqueue(archive.bare, since: earliest, in: step)
        try askNext(in: step)
    }

    /// Returns the progress of the catch-ups, one for each archive that was ever queried.
    ///
    /// - Parameter source: The step or snapshot to read in.
    /// - Returns: One for each archive.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    public func progress(in source: borrowing some Readable) throws -> [ArchiveProgress] {
        try table.progress(of: nil, in: source)
    }

    /// Forgets an archive and its place, such as of a left room.
    ///
    /// - Parameters:
    ///   - archive: The account's bare address, or a room's.
    ///   - step: The step that it commits with.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    public func forget(_ archive: JID, in step: borrowing Step) throws {
        try table.remove(archive.bare, in: step)
    }

    // MARK: Looking back

    /// Requests a page of an archive, for example to scroll back. Its messages reach listeners like all messages of an
    /// archive, and do not count for the catch-up.
    ///
    /// - Parameters:
    ///   - archive: The account's bare address, or a room's; nil for the account's.
    ///   - peer: Only what was said with this address; nil for everything.
    ///   - position: Which page.
    ///   - limit: How many messages at most; 1 to 250.
    ///   - then: Called after the last message of the page.
    ///   - orElse: Called with the reason when the page can never come.
    ///   - step: The step that it commits with.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule`, `outboxFull`; ``/Handlers/HandlerError`` when the store fails.
    ///
    /// Source: XEP-0313 section 4.1, XEP-0059 section 2.3.
    public func fetch(
        of archive: JID? = nil, with peer: JID? = nil, _ position: ResultPage.Position = .end,
        limit: Int = 50,
        then: Durable<ArchivePage>, orElse: Durable<Invalidation>? = nil, in step: borrowing Step
    ) throws {
        let _: ArchiveModule = try account.module()
        let archive = archive?.bare ?? own
        let form = peer.map { [DataForm.Field("with", $0.description)] } ?? []
        try ask(
            archive, form, position, limit: min(max(1, limit), 250), isCatchUp: false, in: step
        ) { query in
            try ArchiveHistoryFetched(archive: archive, query: query, then: then.orElse(orElse)).durable
        }
    }

    // MARK: Inside

    /// Returns whether something was fetched from an archive and it has not refused since.
    func isInUse(_ archive: JID, in step: borrowing Step) throws -> Bool {
        guard account.moduleIfPresent(ArchiveModule.self) != nil else { return false }
        return try table.isInUse(archive, in: step)
    }

    private var own: JID { account.address }

    /// A message came that could not be read, perhaps out of an archive that is being fetched.
    func recordUnread(_ stanza: Element, in step: borrowing Step) throws {
        guard stanza.name == "message" else { return }
        guard let sender = stanza["from"] else { return try table.recordUnread(in: own, in: step) }
        if let archive = try? JID(received: sender) { try table.recordUnread(in: archive, in: step) }
    }

    /// Asks for the next page of those archives whose turn has come.
    func askNext(in step: borrowing Step) throws {
        let module: ArchiveModule = try account.module()
        for archive in try table.waiting(own: own, limit: module.concurrency, in: step) {
            try askPage(of: archive, module.pageSize, in: step)
        }
    }

    /// Requests the page after the fetched messages.
    func askPage(of archive: JID, _ pageSize: Int, in step: borrowing Step) throws {
        let place = try table.place(in: archive, in: step)
        var form: [DataForm.Field] = []
        // Where an id says from where on, a time would only exclude what belongs behind it.
        if place.lastID == nil, let since = place.since { form.append(.init("start", since.description)) }
        let position = place.lastID.map { ResultPage.Position.after($0) } ?? .start
        try ask(archive, form, position, limit: pageSize, isCatchUp: true, in: step) { query in
            try ArchivePageFetched(archive: archive, query: query).durable
        }
        try table.set(archive, .fetching, in: step)
    }

    @discardableResult
    private func ask(
        _ archive: JID, _ fields: [DataForm.Field], _ position: ResultPage.Position, limit: Int,
        isCatchUp: Bool, in step: borrowing Step, then: (String) throws -> Durable<IQReply>
    ) throws -> String {
        let page = ResultPage.request(position, limit: limit)
        let query = String(StanzaID.random().prefix(16))
        let form = DataForm(.submit, type: Namespaces.mam, fields).element
        let payload = Element(
            "query", namespace: Namespaces.mam, attributes: ["queryid": query],
            children: fields.isEmpty ? [page] : [form, page])
        let asked: ForeignText? =
            switch position {
            case .after(let id), .before(let id): id
            case .start, .end: nil
            }
        try table.add(query, of: archive, asked: asked?.token, isCatchUp: isCatchUp, in: step)
        try account.send(
            .iq(IQ(type: .set, to: archive == own ? nil : archive, id: StanzaID.random(), payload: payload)),
            then: then(query), in: step)
        return query
    }
}

/// The context of a handler that waits for a page of an archive; see
/// ``Archive/fetch(of:with:_:limit:then:orElse:in:)``.
///
/// ```swift
/// @Handler("history.shown")
/// static func shown(_ call: borrowing Call<ArchivePage>) throws {
///     guard case .page(let isLast, let page) = call.outcome, !isLast, let first = page.first else { return }
///     try call.account.archive.fetch(.before(first), then: History.shown(), in: call.step)
/// }
/// ```
public struct ArchivePage: Sendable {
    /// Outcome of the handler.
    public enum Outcome: Hashable, Sendable {
        /// The messages came. Whether there are more in the direction that was asked for, and the page's ends.
        case page(isLast: Bool, ResultPage)
        /// The server refuses, or does not know the place.
        case error(StanzaError)
        /// No answer came in time.
        case timeout
    }

    /// The account that asked.
    public let account: Account
    /// The address of the archive.
    public let archive: JID
    /// Outcome of the handler.
    public let outcome: Outcome
}
