package import Handlers
package import TestSupport
import TestThreads
package import Testing
package import XMPPAccount
package import XMPPCore
package import XMPPTestKit

/// A server with its certificate, a peer on it, and accounts on one database in a fresh folder.
package final class AccountRig: Sendable, TestResource {
    /// How long anything may take before a test gives up.
    package static let limit = Duration.seconds(40)
    package static let alice = try! JID("alice@localhost")  // A constant that is an address.
    package static let peer = try! JID("peer@localhost/bot")  // The same.

    package let folder: TemporaryFolder
    package let certificates: TestCertificates
    package let server: ScriptedServer
    package let clock: VirtualClock?
    /// Whether accounts connect again by themselves.
    package let reconnects: Bool
    package let bot: ScriptedServer.Bot
    private let schemas: [Schema]
    private let registry: HandlerRegistry
    /// The accounts made so far, to close them at the end.
    private let accounts = Kept<[Account]>([])

    /// - Parameters:
    ///   - schemas: The tables of a store beside those of ``TestApp``.
    ///   - handlers: The handlers of a store beside those of ``TestApp``.
    package init(
        schemas: [Schema] = Account.coreSchemas, handlers: [any DurableHandler.Type] = [],
        clock: VirtualClock? = nil, reconnects: Bool = true, flaw: TestCertificates.Flaw = .none,
        _ change: (inout ScriptedServer.Configuration) -> Void = { _ in }
    ) throws {
        folder = try TemporaryFolder()
        certificates = try TestCertificates(in: folder.path)
        var configuration = ScriptedServer.Configuration(
            accounts: ["alice": "secret", "peer": "hidden"],
            certificate: try certificates.makeServerCertificate(for: ["localhost"], flaw: flaw))
        configuration.logsXML = true
        configuration.clock = clock
        change(&configuration)
        self.schemas = schemas + [TestApp.schema]
        registry = HandlerRegistry(TestApp.handlers + handlers)
        self.clock = clock
        self.reconnects = reconnects
        server = try ScriptedServer(configuration)
        try server.start()
        bot = server.addBot(jid: Self.peer, handler: Self.answer)
    }

    /// The peer answers as the question wants.
    private static func answer(_ stanza: Element, _ bot: ScriptedServer.Bot) {
        switch stanza.firstElement?["want"] {
        case "result": bot.answer(stanza, payload: Element("answer", namespace: TestApp.namespace))
        case "error": bot.refuse(stanza, StanzaError(.itemNotFound))
        default: break
        }
    }

    // MARK: Making accounts

    package var databasePath: String { folder.path + "/app.db" }

    package func store(
        busyTimeout: Duration = .seconds(5), system: SystemServices = SystemServices()
    ) throws -> HandlerStore {
        if TestEngine.isPostgres {
            return try TestEngine.open(databasePath, registry: registry, schemas: schemas, time: .system)
        }
        return try HandlerStore(
            path: databasePath, registry: registry, schemas: schemas, role: .main, synchronous: .normal,
            busyTimeout: busyTimeout, time: .system, log: nil, system: system)
    }

    package func configuration(_ change: (inout AccountConfiguration) -> Void = { _ in })
        -> AccountConfiguration
    {
        var configuration = AccountConfiguration(
            jid: Self.alice, password: "secret",
            server: .init(host: server.host, port: server.directTLSPort, security: .directTLS))
        configuration.trust = .file(path: certificates.authorityFile)
        // Standing still, the clock lets no reconnection come between a test's own steps.
        if let clock {
            configuration.time = clock.timeSource
            // What a test turns its clock for is something else.
            configuration.keepAlive = nil
        } else if !reconnects {
            configuration.time = VirtualClock().timeSource
        }
        change(&configuration)
        return configuration
    }

    package func account(
        store: HandlerStore? = nil, _ change: (inout AccountConfiguration) -> Void = { _ in }
    ) throws -> Account {
        let account = try Account(configuration(change), store: try store ?? self.store())
        accounts.withLock { $0.append(account) }
        return account
    }

    /// An account that is connected.
    package func connected(
        store: HandlerStore? = nil, _ change: (inout AccountConfiguration) -> Void = { _ in }
    ) async throws -> Account {
        let account = try account(store: store, change)
        try await account.connect()
        return account
    }

    /// Lets go of the accounts made so far, which were closed, and so of their stores.
    package func forgetAccounts() { accounts.withLock { $0 = [] } }

    /// Closes the accounts made so far and lets go of them.
    package func closeAccounts() async {
        for account in accounts.withLock({ $0 }) { await account.close() }
        forgetAccounts()
    }

    package func close() async {
        for account in accounts.withLock({ $0 }) { await account.close() }
        server.stop(.reset)
        folder.remove()
    }

    /// Loses the session and what the server keeps of it: a server with an archive leaves messages to that.
    package func loseSession(of account: Account, _ events: EventReader) async throws {
        server.refuseNextResumption()
        server.dropConnections()
        await events.until("suspended")
        server.expireSessions()
        let other = try JID("alice@localhost/other")
        _ = server.addBot(jid: other) { _, _ in }
        server.removeBot(jid: other)
        try await account.connect()
        await events.until("bound")
    }

    // MARK: What the server saw

    /// Waits for an entry of the log on a thread that may block.
    @discardableResult
    package func saw(
        from index: Int = 0, _ what: Comment? = nil, sourceLocation: SourceLocation = #_sourceLocation,
        _ matches: @escaping @Sendable (ServerLogEntry) -> Bool
    ) async throws -> ServerLogEntry {
        let log = server.log
        let entry = try await onThread { log.wait(for: Self.limit, from: index, until: matches) }
        return try #require(entry, what, sourceLocation: sourceLocation)
    }

    /// The stanzas that clients sent, from an entry of the log on: kind and id.
    package func sent(from index: Int = 0) -> [String] {
        server.log.entries(from: index).filter { $0.event == .received && $0.isStanza && $0.session != 0 }
            .map { "\($0.name ?? "") \($0.id ?? "")" }
    }

    /// Expects that everything that the server has sent in its newest session is counted, once.
    package func expectAllCounted(_ account: Account, sourceLocation: SourceLocation = #_sourceLocation)
        async throws
    {
        try await account.caughtUp()
        let entries = server.log.entries
        let newest = entries.map(\.session).max()
        let sent = entries.count {
            $0.event == .delivered && $0.session == newest && $0.isCounted && !$0.isResent
        }
        #expect(
            try account.store.number("SELECT received FROM session") == sent, sourceLocation: sourceLocation)
    }

    /// The XML of the elements with that id that clients sent.
    package func xml(ofID id: String) -> [String] {
        server.log.entries.filter { $0.event == .received && $0.id == id }.compactMap(\.xml)
    }

    // MARK: Sending as the peer

    package func messageToAlice(_ id: String?, _ body: String) -> Element {
        Message(to: Self.alice, id: id, body: body).element
    }

    /// A question that the peer answers as `want` says.
    package func question(_ id: String, want: String = "result", to peer: JID? = AccountRig.peer) -> IQ {
        IQ(
            type: .get, to: peer, id: id,
            payload: Element("question", namespace: TestApp.namespace, attributes: ["want": want]))
    }

    // MARK: Time

    /// Turns the hand-turned clock on, a second at a time, until something has happened.
    package func turnUntil(_ what: String = "what was awaited", _ condition: () throws -> Bool) async throws {
        try await eventually(what) {
            if try condition() { return true }
            clock?.advance(by: .seconds(1))
            return false
        }
    }
}

/// Runs a test with a rig that is closed in any case.
package func withRig(
    schemas: [Schema] = Account.coreSchemas, handlers: [any DurableHandler.Type] = [],
    clock: VirtualClock? = nil, reconnects: Bool = true, flaw: TestCertificates.Flaw = .none,
    _ change: (inout ScriptedServer.Configuration) -> Void = { _ in },
    _ body: (AccountRig) async throws -> Void
) async throws {
    let rig = try AccountRig(
        schemas: schemas, handlers: handlers, clock: clock, reconnects: reconnects, flaw: flaw, change)
    try await closing(rig, after: body)
}

// MARK: - Waiting

/// The events of an account, one after the other.
package final class EventReader {
    private var iterator: AsyncStream<AccountEvent>.Iterator
    /// What came so far, but for what there may be any number of.
    package private(set) var seen: [String] = []

    package init(_ account: Account) { iterator = account.events.makeAsyncIterator() }

    /// Takes events until one of that name comes; fails when the account was closed before.
    @discardableResult
    package func until(_ name: String, sourceLocation: SourceLocation = #_sourceLocation) async
        -> AccountEvent?
    {
        let event = await first { $0.name == name || $0.name.hasPrefix(name + " ") }
        if event == nil { Issue.record("no event '\(name)' after \(seen)", sourceLocation: sourceLocation) }
        return event
    }

    /// Takes the events that are left of a closed account.
    package func untilClosed() async { _ = await first { _ in false } }

    private func first(where matches: (AccountEvent) -> Bool) async -> AccountEvent? {
        while let event = await iterator.next() {
            if !event.isFrequent { seen.append(event.name) }
            if matches(event) { return event }
        }
        return nil
    }
}

extension AccountEvent {
    /// Whether there may be any number of them between others.
    package var isFrequent: Bool {
        switch self {
        case .retrying, .enabled, .notEnabled, .streamManagementAnswered, .acknowledgementRequested,
            .acknowledged, .module:
            true
        default: false
        }
    }

    /// The case, with the code of an error.
    package var name: String {
        switch self {
        case .bound: "bound"
        case .resumed: "resumed"
        case .suspended(let error): "suspended \(error.code)"
        case .retrying: "retrying"
        case .enabled: "enabled"
        case .notEnabled: "notEnabled"
        case .acknowledgementRequested: "acknowledgementRequested"
        case .acknowledged: "acknowledged"
        case .sessionLost: "sessionLost"
        case .refused(let stanza, _): "refused \(stanza.id ?? "")"
        case .ignored: "ignored"
        case .unfinished: "unfinished"
        case .moduleFailed(let module, _): "moduleFailed \(module)"
        case .module: "module"
        case .streamManagementAnswered(let element): "answered \(element.name)"
        case .dropped(let count): "dropped \(count)"
        case .handedOver: "handedOver"
        case .stopped(let error): "stopped \(error.code)"
        }
    }
}

extension Account {
    /// What the account ignores from now on: id and reason.
    package func ignored() -> Kept<[String]> {
        let kept = Kept<[String]>([])
        let events = events
        Task {
            for await case .ignored(let root, let reason) in events {
                kept.withLock { $0.append("\(root["id"] ?? "-"): \(reason)") }
            }
        }
        return kept
    }
}

/// The error that `body` throws.
package func errorOf(_ body: () async throws -> Void) async -> (any Error)? {
    do {
        try await body()
        return nil
    } catch {
        return error
    }
}
