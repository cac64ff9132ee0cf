import Synchronization
import Testing
import XMPPCore
import XMPPTestKit

/// A server's protocol state with its actions sorted by connection: no sockets, no threads, a clock set by hand.
struct ServerDomainHarness {
    var domain: ServerDomain
    /// What each connection was sent and nobody has looked at.
    private(set) var sent: [Int: [Element]] = [:]
    private(set) var closed: Set<Int> = []
    private(set) var dropped: Set<Int> = []
    private(set) var delivered: [Element] = []
    private(set) var log: [ServerLogEntry.Event] = []
    private var resumptionIDs: [Int: ForeignText] = [:]

    init(_ change: (inout ServerBehavior) -> Void = { _ in }) {
        var behavior = ServerBehavior()
        behavior.mechanisms = ["PLAIN"]
        behavior.resumptionWindow = .seconds(60)
        behavior.requestsAcks = false
        change(&behavior)
        let ids = Ids()
        domain = ServerDomain(
            name: "localhost", behavior: behavior,
            credentials: ServerCredentials(passwords: ["alice": "secret", "bob": "hidden"], iterations: 1),
            makeID: { ids.next() })
        domain.advance(to: ServerTime(wall: Timestamp(milliseconds: 1_750_000_000_000), monotonic: 0))
    }

    private final class Ids: Sendable {
        private let last = Mutex(0)
        func next() -> String {
            last.withLock {
                $0 += 1
                return "id\($0)"
            }
        }
    }

    // MARK: Input

    mutating func connect(_ connection: Int, isSecure: Bool = true) {
        domain.connected(connection, isSecure: isSecure)
        drain()
    }

    mutating func open(_ connection: Int, to: String = "localhost") {
        domain.opened(
            Element("stream", namespace: Namespaces.stream, attributes: ["to": to]), on: connection)
        drain()
    }

    mutating func receive(_ element: Element, on connection: Int, verdict: ServerVerdict = .pass) {
        domain.receive(element, on: connection, verdict: verdict)
        drain()
    }

    /// A connection that has proved itself and started its last stream.
    mutating func logIn(_ connection: Int, _ account: String = "alice") {
        let secret = account == "alice" ? "AGFsaWNlAHNlY3JldA==" : "AGJvYgBoaWRkZW4="
        connect(connection)
        open(connection)
        receive(
            Element("auth", namespace: Namespaces.sasl, attributes: ["mechanism": "PLAIN"], text: secret),
            on: connection)
        open(connection)
        _ = take(connection)
    }

    /// A connection with a session.
    mutating func start(
        _ connection: Int, _ account: String = "alice", _ resource: String = "r", enable: Bool = true,
        presence: Bool = true
    ) {
        logIn(connection, account)
        let payload = Element(
            "bind", namespace: Namespaces.bind,
            children: [Element("resource", namespace: Namespaces.bind, text: resource)])
        receive(IQ(type: .set, id: "bind", payload: payload).element, on: connection)
        if enable { self.enable(connection) }
        if presence { receive(Presence().element, on: connection) }
        _ = take(connection)
    }

    mutating func enable(_ connection: Int) {
        receive(Element("enable", namespace: Namespaces.sm, attributes: ["resume": "true"]), on: connection)
    }

    mutating func resume(_ connection: Int, _ id: ForeignText, h: UInt32) {
        receive(
            Element("resume", namespace: Namespaces.sm, attributes: ["previd": id, "h": String(h)]),
            on: connection)
    }

    mutating func lose(_ connection: Int) {
        domain.lost(connection)
        drain()
    }

    mutating func close(_ connection: Int) {
        domain.closed(connection)
        drain()
    }

    mutating func advance(_ milliseconds: Int64) {
        var time = domain.time
        time.wall = time.wall + .milliseconds(milliseconds)
        time.monotonic += milliseconds
        domain.advance(to: time)
        drain()
    }

    mutating func send(_ element: Element, from sender: String) throws {
        domain.send(element, from: try JID(sender))
        drain()
    }

    // MARK: Output

    mutating func drain() {
        for action in domain.removeActions() {
            switch action {
            case .send(let connection, let element):
                sent[connection, default: []].append(element)
                if element.name == "enabled" { resumptionIDs[connection] = element["id"] }
            case .close(let connection): closed.insert(connection)
            case .drop(let connection, _): dropped.insert(connection)
            case .deliver(_, let element): delivered.append(element)
            case .header, .startTLS, .restart: break
            }
        }
        log += domain.removeLog().rows.map(\.event)
    }

    /// What a connection was sent since the last call.
    mutating func take(_ connection: Int) -> [Element] { sent.removeValue(forKey: connection) ?? [] }

    /// The ids of the stanzas that a connection was sent since the last call.
    mutating func ids(_ connection: Int) -> [ForeignText] {
        take(connection).filter(Stanza.isStanza).map { $0["id"] ?? "" }
    }

    /// The id with which the session that started on a connection can be resumed.
    func resumptionID(_ connection: Int) -> ForeignText { resumptionIDs[connection] ?? "" }
}
