import Synchronization
package import XMPPCore

/// An archive (XEP-0313) on a ``ScriptedServer``, of an account or of a room, as large as wanted.
///
/// ```swift
/// let archive = ArchiveService(count: 100_000) { number in
///     Message(to: alice, from: peer, id: "m\(number)", body: "message \(number)").element
/// }
/// archive.serve(at: alice, on: server)
/// ```
///
/// It makes messages when they are asked for, so that a large one costs no memory. Their ids are `0`, `1`, ….
package final class ArchiveService: Sendable {
    private struct State {
        var count: Int
        var queries: [Query] = []
        var firstKept = 0
    }

    /// A query that was answered.
    ///
    /// ```swift
    /// #expect(archive.queries.map(\.after) == [nil, 249, 499])
    /// ```
    package struct Query: Hashable, Sendable {
        /// Id after which messages were requested; nil for the start.
        package var after: Int?
        /// The number of messages that were sent.
        package var count: Int
        /// The earliest time that was asked for.
        package var start: Timestamp?
    }

    private let state: Mutex<State>
    private let make: @Sendable (Int) -> Element
    private let pageLimit: Int
    private let storedAt: @Sendable (Int) -> Timestamp

    /// When the message of that number was stored: a second after the one before.
    ///
    /// - Parameter number: The message's number, from 0.
    /// - Returns: The time.
    package static func time(of number: Int) -> Timestamp {
        Timestamp(milliseconds: 1_700_000_000_000) + .seconds(number)
    }

    /// Makes an archive.
    ///
    /// - Parameters:
    ///   - count: How many messages it holds.
    ///   - pageLimit: How many it sends at once at most.
    ///   - storedAt: When the message of a number was stored; not before the one before.
    ///   - make: Makes the message of a number.
    package init(
        count: Int, pageLimit: Int = 250,
        storedAt: @escaping @Sendable (Int) -> Timestamp = ArchiveService.time(of:),
        make: @escaping @Sendable (Int) -> Element
    ) {
        state = Mutex(State(count: count))
        self.pageLimit = pageLimit
        self.storedAt = storedAt
        self.make = make
    }

    /// The queries so far.
    package var queries: [Query] { state.withLock { $0.queries } }

    /// Adds messages at the end.
    ///
    /// - Parameter count: How many, 0 or more.
    package func grow(by count: Int) { state.withLock { $0.count += count } }

    /// Removes the oldest messages: their ids are not known any more.
    ///
    /// - Parameter count: How many, 0 or more.
    package func drop(first count: Int) { state.withLock { $0.firstKept += count } }

    /// Answers for an address.
    ///
    /// - Parameters:
    ///   - jid: An account's bare address, or one that the test answers for, such as a room's.
    ///   - server: The server, running or not.
    package func serve(at jid: JID, on server: ScriptedServer) {
        let isAccount = jid.domain == server.configuration.domain
        server.addService(at: jid, for: isAccount ? [Namespaces.mam] : nil) { stanza, service in
            self.handle(stanza, service)
        }
    }

    /// Answers a query; anything else that is a request is refused.
    ///
    /// - Parameters:
    ///   - stanza: What was sent to the archive's address.
    ///   - service: The service that answers.
    package func handle(_ stanza: Element, _ service: ScriptedServer.Bot) {
        for reply in replies(to: stanza) { service.send(reply) }
    }

    /// Returns the messages that a query asks for and its result, or an error; nothing for what is no request.
    package func replies(to stanza: Element) -> [Element] {
        guard let request = try? IQ(element: stanza), request.type.isRequest else { return [] }
        func refusal(_ condition: OpenName<StanzaError>) -> [Element] {
            request.errorReply(StanzaError(condition)).map { [$0.element] } ?? []
        }
        guard let query = request.payload, query.has(name: "query", namespace: Namespaces.mam) else {
            return refusal(.serviceUnavailable)
        }
        let set = query.child("set", Namespaces.rsm)
        let wanted = set?.child("max", Namespaces.rsm).flatMap { Int($0.text) } ?? pageLimit
        let after = set?.child("after", Namespaces.rsm).flatMap { Int($0.text) }
        let start = query.child("x", Namespaces.dataForms).flatMap { DataForm($0)?["start"] }
            .flatMap { Timestamp($0) }
        let (count, firstKept) = state.withLock { ($0.count, $0.firstKept) }
        if let after, after < firstKept || after >= count { return refusal(.itemNotFound) }
        var first = max(after.map { $0 + 1 } ?? 0, firstKept)
        if let start { while first < count, storedAt(first) < start { first += 1 } }
        let end = min(count, first + min(wanted, pageLimit))
        state.withLock { $0.queries.append(Query(after: after, count: end - first, start: start)) }
        let range = first..<max(first, end)
        let results = range.map { result($0, query["queryid"], to: stanza["from"]) }
        let fin = Self.fin(range, of: count - first, isComplete: end >= count)
        return results + (request.result(payload: fin).map { [$0.element] } ?? [])
    }

    /// Returns the message of a number, as the archive sends it.
    ///
    /// - Parameters:
    ///   - number: The message's number.
    ///   - query: The id of the query; nil for an unrequested result.
    ///   - recipient: The recipient, as text; nil for none.
    /// - Returns: `<message/>` with `<result/>` inside (XEP-0313 section 4.2).
    package func result(_ number: Int, _ query: ForeignText?, to recipient: ForeignText?) -> Element {
        let delay = Element(
            "delay", namespace: Namespaces.delay, attributes: ["stamp": storedAt(number).description])
        let forwarded = Element("forwarded", namespace: Namespaces.forward, children: [delay, make(number)])
        let result = Element(
            "result", namespace: Namespaces.mam, attributes: ["queryid": query, "id": String(number)],
            children: [forwarded])
        return Element(
            "message", namespace: Namespaces.client, attributes: ["to": recipient], children: [result])
    }

    private static func fin(_ range: Range<Int>, of total: Int, isComplete: Bool) -> Element {
        var set = Element("set", namespace: Namespaces.rsm)
        if let last = range.last {
            set.append(Element("first", namespace: Namespaces.rsm, text: String(range.lowerBound)))
            set.append(Element("last", namespace: Namespaces.rsm, text: String(last)))
        }
        set.append(Element("count", namespace: Namespaces.rsm, text: String(total)))
        return Element(
            "fin", namespace: Namespaces.mam, attributes: ["complete": isComplete ? "true" : nil],
            children: [set])
    }
}
