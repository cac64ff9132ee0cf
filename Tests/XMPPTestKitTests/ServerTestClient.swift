import TestSupport
import Testing
import XMPPAccount
import XMPPTransport
import XMPPCore
import XMPPTestKit

/// A server with its certificate, in a fresh folder.
final class ServerFixture {
    let folder: TemporaryFolder
    let authority: String
    let server: ScriptedServer

    init(_ change: (inout ScriptedServer.Configuration, TemporaryFolder) -> Void = { _, _ in }) throws {
        folder = try TemporaryFolder()
        let certificates = try TestCertificates(in: folder.path)
        authority = certificates.authorityFile
        var configuration = ScriptedServer.Configuration(
            accounts: ["alice": "secret", "bob": "hidden"],
            certificate: try certificates.makeServerCertificate(for: ["localhost"]))
        change(&configuration, folder)
        server = try ScriptedServer(configuration)
        try server.start()
    }

    deinit { server.stop() }

    func client(direct: Bool = true) throws -> ServerTestClient {
        try ServerTestClient(server, authority: authority, direct: direct)
    }

    /// A client with a session.
    func session(
        _ account: String = "alice", _ resource: String = "r", enable: Bool = true, presence: Bool = true
    ) throws -> ServerTestClient {
        let client = try client()
        try client.logIn(account)
        try client.bind(resource)
        if enable { try client.enable() }
        if presence {
            try client.send(Presence().element)
            try client.settle()
        }
        return client
    }

    /// A client that is logged in and has resumed a session.
    func resume(_ client: ServerTestClient, h: UInt32, account: String = "alice") throws -> (
        client: ServerTestClient, answer: Element
    ) {
        let next = try self.client()
        try next.logIn(account)
        return (next, try next.resume(try #require(client.resumptionID), h: h))
    }
}

/// A client that does what a test says, and nothing else: it sends no acknowledgement by itself.
final class ServerTestClient {
    static let passwords = ["alice": "secret", "bob": "hidden"]

    private let connection: Connection
    private let authority: String
    private var parser: StreamParser
    private var events: ArraySlice<StreamParser.Event> = []
    private let deadline = Deadline.after(.seconds(30))
    private(set) var features = Element("none", namespace: "")
    private(set) var resumptionID: ForeignText?
    private(set) var serverSignatureIsRight: Bool?
    private(set) var iterations: Int?
    private var pings = 0

    /// The connection ended.
    struct Ended: Error {}
    /// Nothing came in time.
    struct Late: Error {}

    init(_ server: ScriptedServer, authority: String, direct: Bool) throws {
        self.authority = authority
        let port = direct ? server.directTLSPort : server.startTLSPort
        let deadline = deadline
        connection = try EventLoop.run {
            try await Connection.connect(host: server.host, port: port, deadline: deadline, on: $0)
        }
        parser = try StreamParser()
        if direct { try startTLS(offersProtocol: true) }
    }

    deinit { connection.closeDirty() }

    private func startTLS(offersProtocol: Bool) throws {
        // This thread waits, and uses it afterwards.
        nonisolated(unsafe) let connection = connection
        let (context, deadline) = (try TLSContext.client(trust: .file(authority)), deadline)
        try EventLoop.run {
            try await connection.startTLS(
                context, domain: "localhost", offersProtocol: offersProtocol, deadline: deadline, on: $0)
        }
    }

    // MARK: The stream

    /// Starts a stream; what the server offers.
    @discardableResult
    func open(to domain: String = "localhost") throws -> Element {
        parser = try StreamParser()
        events = []
        try send(bytes: Serializer.streamHeader(to: domain))
        guard case .opened = try nextEvent() else { throw Ended() }
        features = try next()
        return features
    }

    func starttls() throws {
        try open()
        try send(Element("starttls", namespace: Namespaces.tls))
        #expect(try next() == Element("proceed", namespace: Namespaces.tls))
        try startTLS(offersProtocol: false)
    }

    /// Logs in; the server's last answer.
    @discardableResult
    func logIn(_ account: String, password: String? = nil, mechanism: String = "SCRAM-SHA-256") throws
        -> Element
    {
        try open()
        let isPlus = mechanism.hasSuffix("-PLUS")
        let bindings = isPlus ? connection.tls?.channelBindings ?? ChannelBindings() : ChannelBindings()
        let best = try LoginChoice.best(
            LoginOffer(mechanisms: [mechanism], bindingTypes: isPlus ? ["tls-exporter"] : []),
            LoginPolicy(), bindings: bindings)
        guard case .scram(let choice) = best else {
            throw SASLError(.noCommonMechanism, "\(mechanism) is not SCRAM")
        }
        let password = password ?? Self.passwords[account] ?? ""
        var scram = try SCRAMClient(choice, user: account, password: password)
        try send(
            Element(
                "auth", namespace: Namespaces.sasl, attributes: ["mechanism": mechanism],
                text: Crypto.base64(scram.initialResponse)))
        let challenge = try next()
        guard challenge.name == "challenge" else { return challenge }
        let response = try scram.received(try #require(Crypto.bytes(base64: challenge.text)))
        try send(Element("response", namespace: Namespaces.sasl, text: Crypto.base64(response)))
        let answer = try next()
        guard answer.name == "success" else { return answer }
        iterations = scram.keys?.iterations
        serverSignatureIsRight = (try? scram.finish(Crypto.bytes(base64: answer.text))) != nil
        if serverSignatureIsRight == true { try open() }
        return answer
    }

    /// Binds a resource; the full address.
    @discardableResult
    func bind(_ resource: String?) throws -> JID {
        let children = resource.map { [Element("resource", namespace: Namespaces.bind, text: $0)] } ?? []
        let payload = Element("bind", namespace: Namespaces.bind, children: children)
        try send(IQ(type: .set, id: "bind", payload: payload).element)
        let answer = try IQ(element: next())
        return try JID(try #require(answer.payload?.child("jid", Namespaces.bind)).text)
    }

    @discardableResult
    func enable(max: String? = nil) throws -> Element {
        try send(Element("enable", namespace: Namespaces.sm, attributes: ["resume": "true", "max": max]))
        let answer = try next()
        resumptionID = answer["id"]
        return answer
    }

    func resume(_ id: ForeignText, h: UInt32) throws -> Element {
        try send(
            Element("resume", namespace: Namespaces.sm, attributes: ["previd": id, "h": String(h)]))
        return try next()
    }

    // MARK: Elements

    func send(_ element: Element) throws { try send(bytes: Serializer().bytes(element)) }

    func send(raw text: String) throws { try send(bytes: Array(text.utf8)) }

    private func send(bytes: [UInt8]) throws {
        connection.write(bytes)
        try connection.flush(until: deadline)
    }

    func acknowledge(_ count: UInt32) throws {
        try send(Element("a", namespace: Namespaces.sm, attributes: ["h": String(count)]))
    }

    /// The count that the server has handled.
    func requestCount() throws -> UInt32? {
        try send(Element("r", namespace: Namespaces.sm))
        return try next { $0.name == "a" }["h"].flatMap { UInt32($0) }
    }

    /// The next element that is no request for acknowledgement.
    func next() throws -> Element {
        while true {
            let element = try nextOfAll()
            if !element.has(name: "r", namespace: Namespaces.sm) { return element }
        }
    }

    /// The next element.
    func nextOfAll() throws -> Element {
        guard case .element(let element) = try nextEvent() else { throw Ended() }
        return element
    }

    /// The next element that matches; what comes before is dropped.
    func next(where matches: (Element) -> Bool) throws -> Element {
        while true {
            let element = try next()
            if matches(element) { return element }
        }
    }

    /// The next stanza.
    func stanza() throws -> Element { try next(where: Stanza.isStanza) }

    /// The ids of the stanzas that come before the answer to a ping: everything that was under way.
    @discardableResult
    func settle() throws -> [ForeignText] {
        pings += 1
        let id = "settle-\(pings)"
        try send(IQ(type: .get, id: id, payload: Element("ping", namespace: Namespaces.ping)).element)
        var ids: [ForeignText] = []
        while case let stanza = try stanza(), stanza["id"] != id { ids.append(stanza["id"] ?? "") }
        return ids
    }

    /// What the server says until it closes, requests for acknowledgement left out; ends with the stream's end if it was
    /// sent.
    func rest() throws -> [StreamParser.Event] {
        var rest: [StreamParser.Event] = []
        while let event = try? nextEvent() { rest.append(event) }
        return rest.filter { $0 != .element(Element("r", namespace: Namespaces.sm)) }
    }

    /// How many bytes come until the connection ends.
    func restOfBytes() throws -> Int {
        var input: [UInt8] = []
        while try connection.wait(until: deadline) == .ready {
            if case .closed? = try? connection.read(into: &input) { return input.count }
        }
        throw Late()
    }

    /// Whether something has come in that nobody has looked at.
    var hasArrived: Bool {
        guard events.isEmpty else { return true }
        var input: [UInt8] = []
        guard case .bytes? = try? connection.read(into: &input) else { return false }
        events = (try? ArraySlice(parser.parse(input))) ?? []
        return true
    }

    private func nextEvent() throws -> StreamParser.Event {
        while true {
            if let event = events.popFirst() { return event }
            guard try connection.wait(until: deadline) == .ready else { throw Late() }
            var input: [UInt8] = []
            switch try connection.read(into: &input) {
            case .bytes: events = try ArraySlice(parser.parse(input))
            case .closed: throw Ended()
            case .wouldBlock: break
            }
        }
    }

    // MARK: Ends

    /// Goes away as a killed process does.
    func drop() { connection.closeDirty() }

    /// Ends stream and session.
    func close() throws { try send(bytes: Serializer.streamEnd) }
}
