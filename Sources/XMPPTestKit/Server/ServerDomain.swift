package import XMPPCore

/// All of a server's protocol state, without sockets: streams, sessions, accounts, offline messages.
///
/// Its owner tells it what came (``opened(_:on:)``, ``receive(_:on:verdict:)``, ``lost(_:)``, ``send(_:from:)``,
/// ``advance(to:)``) and then performs ``removeActions()`` in order. The same input gives the same actions, so every rule
/// is tested with tables.
///
/// ```text
/// bytes ─▶ ServerLoop ─▶ ServerDomain ─┬─ ServerNegotiation   until a session begins
///                ▲                     ├─ ServerSession       counts, queue, resumption
///                └──── [Action] ◀──────┴─ accounts            resources, offline store, routing
/// ```
package struct ServerDomain: Sendable {
    /// An action for the owner to perform.
    package enum Action: Hashable, Sendable {
        /// Send a stream header on a connection.
        case header(Int, to: ForeignText?, id: String)
        case send(Int, Element)
        /// Start TLS once everything before it is sent.
        case startTLS(Int)
        /// Expect a new stream.
        case restart(Int)
        /// Send the stream's end and close once everything is sent.
        case close(Int)
        /// Close at once.
        case drop(Int, ConnectionEnding)
        /// Give a stanza to a bot.
        case deliver(JID, Element)
    }

    struct Stream {
        var negotiation: ServerNegotiation
        /// The session, once there is one.
        var session: Int?
        /// A `<success/>` that is being written (XEP-0388).
        var success: Element?
        /// Whether a resource is being bound inside of it (XEP-0386).
        var isBindingInline = false
        /// The content of its `<bound/>`.
        var inlineAnswers: [Element] = []
    }

    enum Endpoint: Hashable {
        case session(Int)
        case bot
    }

    struct Account {
        var resources: [(name: ForeignText, endpoint: Endpoint)] = []
        var offline: [Element] = []
    }

    struct Refusal {
        var withCount: Bool
    }

    package let name: String
    package var behavior: ServerBehavior
    package var credentials: ServerCredentials
    /// The tokens that clients may log in with.
    package var tokens = ServerTokens()
    /// The current times.
    package internal(set) var time = ServerTime(wall: Timestamp(milliseconds: 0), monotonic: 0)

    let keepsXML: Bool
    let makeID: @Sendable () -> String

    var streams: [Int: Stream] = [:]
    var sessions: [Int: ServerSession] = [:]
    var accounts: [ForeignText: Account] = [:]
    /// The bare addresses that programs of the test answer for; of an account only what concerns these namespaces.
    package var services: [JID: Set<String>?] = [:]
    /// The session that an id of resumption belongs to.
    var resumable: [ForeignText: Int] = [:]
    /// The last count of sessions that are over, by their id.
    var lostCounts: [ForeignText: UInt32] = [:]
    /// Resumptions that are to be refused, by account; "" means all.
    var refusals: [ForeignText: Refusal] = [:]
    /// When sessions without connection end.
    var expiries: [Int: Int64] = [:]
    /// No session ends before; nil when none has no connection.
    var firstExpiry: Int64?
    /// When delayed acknowledgements are due.
    var dueAnswers: [(due: Int64, session: Int)] = []
    /// Sessions that may owe an `<r/>` at the end of the turn.
    var deliveredTo: [Int] = []

    private(set) var actions: [Action] = []
    private(set) var rows: [ServerLogRow] = []
    private(set) var addresses: [(session: Int32, jid: JID)] = []
    var lastSession = 0
    /// Addresses read before: most stanzas have the same few.
    private var knownAddresses: [ForeignText: JID] = [:]

    private static let knownAddressLimit = 4096
    static let lostCountLimit = 10_000

    /// - Parameters:
    ///   - name: The domain that is served.
    ///   - keepsXML: Whether the log gets the elements themselves.
    ///   - makeID: Makes unique ids, for streams, sessions and resources.
    package init(
        name: String, behavior: ServerBehavior = ServerBehavior(), credentials: ServerCredentials,
        keepsXML: Bool = false, makeID: @escaping @Sendable () -> String
    ) {
        self.name = name
        self.behavior = behavior
        self.credentials = credentials
        self.keepsXML = keepsXML
        self.makeID = makeID
        for account in credentials.accounts { accounts[ForeignText(account)] = Account() }
    }

    // MARK: Taking what came of it

    /// Returns and removes the actions, in order.
    package mutating func removeActions() -> [Action] {
        defer { actions = [] }
        return actions
    }

    /// Returns and removes the log rows, in order, with the addresses of new sessions.
    package mutating func removeLog() -> (rows: [ServerLogRow], addresses: [(session: Int32, jid: JID)]) {
        defer {
            rows.removeAll(keepingCapacity: rows.capacity <= 4096)
            addresses = []
        }
        return (rows, addresses)
    }

    mutating func perform(_ action: Action) { actions.append(action) }

    // MARK: Logging

    mutating func log(
        _ event: ServerLogEntry.Event, connection: Int?, session: Int? = nil, id: ForeignText? = nil
    ) {
        rows.append(
            ServerLogRow(
                time: time.wall, event: event, connection: Int32(connection ?? 0),
                session: Int32(session ?? 0), id: id))
    }

    mutating func log(
        _ event: ServerLogEntry.Event, _ element: Element, connection: Int?, session: Int?, isCounted: Bool,
        isResent: Bool = false
    ) {
        var row = ServerLogRow(
            time: time.wall, event: event, isCounted: isCounted, isResent: isResent,
            connection: Int32(connection ?? 0), session: Int32(session ?? 0), name: element.name)
        let peer = event == .received ? "to" : "from"
        for attribute in element.attributes where attribute.namespace == nil {
            switch attribute.name {
            case peer: row.peer = attribute.value
            case "type": row.type = attribute.value
            case "id": row.id = attribute.value
            case "h" where element.namespace == Namespaces.sm:
                row.hasH = true
                row.h = UInt32(attribute.value) ?? 0
            default: break
            }
        }
        if keepsXML { row.xml = Serializer().bytes(element) }
        rows.append(row)
    }

    mutating func nameSession(_ number: Int, _ jid: JID) { addresses.append((Int32(number), jid)) }

    /// Returns whether a connection carries a session.
    package func hasSession(_ connection: Int) -> Bool { streams[connection]?.session != nil }

    // MARK: Addresses

    /// Reads an address; nil when it is none.
    mutating func address(_ text: ForeignText) -> JID? {
        if let known = knownAddresses[text] { return known }
        guard let jid = try? JID(received: text) else { return nil }
        if knownAddresses.count >= Self.knownAddressLimit { knownAddresses.removeAll(keepingCapacity: true) }
        knownAddresses[text] = jid
        return jid
    }

    /// Returns the current session with this full address.
    func endpoint(_ account: ForeignText, _ resource: ForeignText) -> Endpoint? {
        accounts[account]?.resources.first { $0.name == resource }?.endpoint
    }

    // MARK: Sending to a client

    /// Sends an element as it is, outside of stream management.
    mutating func sendPlain(_ element: Element, on connection: Int) {
        if isEnclosed(element, on: connection) { return }
        log(
            .delivered, element, connection: connection, session: streams[connection]?.session,
            isCounted: false)
        actions.append(.send(connection, element))
    }

    /// Performs what a session wants.
    mutating func perform(_ action: ServerSession.Action, session number: Int) {
        switch action {
        case .send(let element, let isResent):
            guard let session = sessions[number], let connection = session.connection else { return }
            if isEnclosed(element, on: connection) { return }
            log(
                .delivered, element, connection: connection, session: number,
                isCounted: session.isEnabled && Stanza.isStanza(element), isResent: isResent)
            actions.append(.send(connection, element))
        case .route(let element): route(element, from: number)
        case .answerLater(let delay): dueAnswers.append((time.monotonic + delay, number))
        case .enabled:
            guard let session = sessions[number] else { return }
            if let id = session.resumptionID { resumable[ForeignText(id)] = number }
            log(.enabled, connection: session.connection, session: number)
        case .end(let error): giveUp(number, error)
        }
    }

    /// Brings a stanza to a session.
    mutating func deliver(_ stanza: Element, to number: Int) {
        guard let action = sessions[number]?.deliver(stanza, time: time.wall) else { return }
        if sessions[number]?.owesRequest == true, deliveredTo.last != number { deliveredTo.append(number) }
        perform(action, session: number)
    }
}
