import AccountTestSupport
import Handlers
import HandlersPostgres
import Platform
import Synchronization
import TestServers
import TestSupport
import TestThreads
import Testing
@testable import XMPPAccount
import XMPPCore
import XMPPTestKit

/// Accounts whose machines, database servers and lines die.
@Suite(.ownThread, .timeLimit(.minutes(3))) struct AccountOnPostgresTests {
    private static func store(
        _ connection: String, log: HandlerLog? = nil
    ) throws -> HandlerStore {
        try HandlerStore(
            PostgresSettings(connection, durability: .onPrimary), registry: TestApp.registry,
            schemas: Account.coreSchemas + [TestApp.schema], role: .main, time: .system, log: log)
    }

    /// A process that keeps the account of a rig connected.
    private static func keep(_ connection: String, _ rig: AccountRig) throws -> ChildProcess {
        let program = try ChildProcess(
            BuiltProduct.path("NodeTestProgram"),
            [
                connection, "account", "\(AccountRig.alice)", "secret", "\(rig.server.directTLSPort)",
                rig.certificates.authorityFile,
            ], input: .pipe, output: .pipe)
        try expect("connected", of: program)
        return program
    }

    private static func expect(_ line: String, of program: ChildProcess) throws {
        _ = try program.output?.readLine(deadline: .now + AccountRig.limit) { $0 == line }
    }

    @Test(
        "G6 the session of a process that was killed or frozen is resumed on another machine, by its rows alone",
        arguments: [Signal.kill, Signal.stop])
    func resumes(signal: Int32) async throws {
        let database = try PostgresServer.shared.makeDatabase()
        try await withRig { rig in
            let account = try rig.account(store: Self.store(database.connection()))
            let events = EventReader(account)
            try await account.listen()
            let program = try await onThread { try Self.keep(database.connection(), rig) }
            rig.bot.send(rig.messageToAlice("m1", "hello"))
            try await eventually { try account.store.notes("message") == ["m1: hello"] }
            program.signal(signal)
            rig.bot.send(rig.messageToAlice("m2", "hello"))
            // Meanwhile the other one counts as alive.
            try await account.connect(retrying: true)
            await events.until("resumed")
            try await account.caughtUp()
            #expect(try account.store.notes("message") == ["m1: hello", "m2: hello"])
            #expect(try account.store.number("SELECT epoch FROM ownership") == 2)
            if signal == Signal.kill { return }
            program.signal(Signal.resume)
            try await onThread { try Self.expect("stopped", of: program) }
            rig.bot.send(rig.messageToAlice("m3", "hello"))
            try await account.caughtUp()
            #expect(try account.store.notes("message").count == 3)
        }
        withExtendedLifetime(database) {}
    }

    @Test("G6 an account that lives on another machine is left alone")
    func held() async throws {
        let database = try PostgresServer.shared.makeDatabase()
        try await withRig { rig in
            let program = try await onThread { try Self.keep(database.connection(), rig) }
            let account = try rig.account(store: Self.store(database.connection()))
            let error = await errorOf { try await account.connect() } as? AccountError
            #expect(error?.code == .ownershipHeld)
            program.closeInput()
            _ = try await onThread { try program.waitUntilExit(deadline: .now + AccountRig.limit) }
            // It has given the account back.
            try await account.connect()
        }
        withExtendedLifetime(database) {}
    }

    @Test(
        "G6 a database that is away for seconds drops no stream, and nothing that was read meanwhile is lost")
    func outage() async throws {
        let server = try PostgresServer()
        try server.start()
        defer { server.close() }
        let database = try server.makeDatabase()
        try await withRig { rig in
            let account = try rig.account(store: Self.store(database.connection()))
            try await account.connect()
            try await account.listen()
            try await account.caughtUp()
            server.kill()
            rig.bot.send(rig.messageToAlice("m1", "hello"))
            try await onThread {
                SystemThread.sleep(microseconds: 5_000_000)
                try server.start()
            }
            rig.bot.send(rig.messageToAlice("m2", "hello"))
            try await account.caughtUp()
            #expect(try account.store.notes("message") == ["m1: hello", "m2: hello"])
            #expect(rig.server.log.entries.count { $0.event == .connected } == 1)
            #expect(try account.store.number("SELECT copies FROM place") == 0)
        }
        withExtendedLifetime(database) {}
    }

    @Test(
        "G6 a standby that was promoted without the last commits is noticed and named, and sessions start again"
    )
    func lostCommits() async throws {
        let server = try PostgresServer()
        try server.start()
        defer { server.close() }
        let database = try server.makeDatabase()
        let older = try server.makeStandby(name: "older")
        defer { older.close() }
        let line = try LoopbackProxy(to: server.port)
        let connection = database.connection(over: .tcp) + " port=\(line.port)"
        let reports = Kept<[String]>([])
        let log = HandlerLog { entry in reports.withLock { $0.append(entry.message) } }
        try await withRig { rig in
            let account = try rig.account(store: Self.store(connection, log: log))
            let events = EventReader(account)
            try await account.connect()
            try await account.listen()
            rig.bot.send(rig.messageToAlice("m1", "hello"))
            try await account.caughtUp()
            // Before it is promoted it must have what there is so far.
            let notes = "SELECT count(*) FROM note"
            try await eventually { try older.query(notes, in: database.name) == "1" }
            try older.promote()
            rig.bot.send(rig.messageToAlice("m2", "hello"))
            try await account.caughtUp()
            #expect(try account.store.notes("message").count == 2)
            line.lead(to: older.port)
            line.cut()
            rig.bot.send(rig.messageToAlice("m3", "hello"))
            await events.until("bound")
            await events.until("bound")
            // What the earlier session has not acknowledged is delivered to the next one.
            rig.server.expireSessions()
            await events.until("bound")
            try await account.caughtUp()
            // The second was told to be handled; the last was not.
            #expect(try account.store.notes("message") == ["m1: hello", "m3: hello"])
            #expect(try account.store.number("SELECT copies FROM place") == 1)
            #expect(reports.withLock { $0.contains { $0.contains("lacks commits that were acknowledged") } })
        }
        withExtendedLifetime(database) {}
    }

    // MARK: Shares

    private static let count = 12

    /// Hosts that share accounts, each with its store. They are closed however a test ends: only then the database goes.
    private final class SharingHosts: TestResource {
        private(set) var shares: [AccountShare] = []
        private let hosts: [AccountHost]
        let stores: [HandlerStore]

        init(_ count: Int, _ database: TestDatabase) throws {
            stores = try (0..<count).map { _ in try AccountOnPostgresTests.store(database.connection()) }
            hosts = try stores.map { _ in try AccountHost() }
        }

        /// The next host takes its part.
        @discardableResult
        func share(
            _ configurations: [AccountConfiguration],
            prepare: @escaping @Sendable (Account) async throws -> Void = { _ in }
        ) -> AccountShare {
            let index = shares.count
            let share = hosts[index].share(configurations, in: stores[index], prepare: prepare) {
                jid, error in
                Issue.record("\(jid?.description ?? "-"): \(error)")
            }
            shares.append(share)
            return share
        }

        func close() async {
            for share in shares { await share.close() }
            for host in hosts { await host.close() }
        }
    }

    private static func sharing(
        _ count: Int = count, hosts: Int,
        _ body: (AccountRig, TestDatabase, [AccountConfiguration], SharingHosts) async throws -> Void
    )
        async throws
    {
        let database = try PostgresServer.shared.makeDatabase()
        try await withRig {
            for number in 0..<count { $0.accounts["u\(number)"] = "secret" }
        } _: { rig in
            let configurations = try (0..<count).map { number in
                let known = rig.configuration()
                var new = AccountConfiguration(
                    jid: try JID("u\(number)@localhost"), password: "secret", server: known.server)
                new.trust = known.trust
                return new
            }
            try await closing(SharingHosts(hosts, database)) { hosts in
                try await body(rig, database, configurations, hosts)
            }
        }
        withExtendedLifetime(database) {}
    }

    private static func sendToAll(_ name: String, _ rig: AccountRig) throws {
        for number in 0..<count {
            rig.bot.send(
                Message(to: try JID("u\(number)@localhost"), id: "\(name)\(number)", body: name).element)
        }
    }

    @Test("G5 hosts share accounts; what a killed one ran goes on elsewhere with the same sessions")
    func shares() async throws {
        try await Self.sharing(hosts: 1) { rig, database, configurations, hosts in
            let store = hosts.stores[0]
            let share = hosts.share(configurations) { try await $0.listen() }
            try await eventually { rig.server.log.entries.count { $0.event == .bound } == Self.count }
            let program = try ChildProcess(
                BuiltProduct.path("NodeTestProgram"),
                [
                    database.connection(), "share", "\(Self.count)", "secret", "\(rig.server.directTLSPort)",
                    rig.certificates.authorityFile,
                ], input: .pipe)
            // It takes what its number makes its own.
            let owners = "SELECT count(DISTINCT slot) FROM ownership WHERE slot IS NOT NULL"
            let isOwned = "SELECT count(slot) FROM ownership"
            try await eventually {
                try store.number(owners) == 2 && store.number(isOwned) == Int64(Self.count)
            }
            try Self.sendToAll("one", rig)
            try await eventually { try store.notes("message").count == Self.count }
            program.signal(Signal.kill)
            try Self.sendToAll("two", rig)
            try await eventually { try store.notes("message").count == 2 * Self.count }
            #expect(share.accounts.count == Self.count)
            #expect(try Set(store.notes("message")).count == 2 * Self.count)
            // Each session was started once, and resumed from then on.
            #expect(rig.server.log.entries.count { $0.event == .bound } == Self.count)
            await share.close()
            #expect(try store.number(isOwned) == 0)
        }
    }

    @Test(
        "G6 a host that opens streams keeps the accounts of others for that time, but for no more than ten seconds"
    )
    func keepsWhileOpening() async throws {
        try await Self.sharing(hosts: 2) { rig, _, configurations, hosts in
            let nodes = hosts.stores.map(\.slotNumber)
            let stuck = try #require(
                configurations.firstIndex { AccountShare.node(of: $0.jid, among: nodes) == nodes[0] })
            var own = configurations
            // Nobody answers there.
            own[stuck].server?.port = 1
            hosts.share(own)
            try await eventually {
                rig.server.log.entries.count { $0.event == .bound } == Self.count - 1
            }
            let start = ContinuousClock.now
            hosts.share(configurations)
            let moved = "SELECT count(*) FROM ownership WHERE slot = \(nodes[1])"
            try await eventually { try hosts.stores[0].number(moved) > 0 }
            #expect(start.duration(to: .now) >= .seconds(10))
        }
    }

    @Test("G6 a host goes on with an account at once when another machine keeps it no longer")
    func takesOverInTime() async throws {
        let database = try PostgresServer.shared.makeDatabase()
        // An account that waits for a clock waits for ever.
        try await withRig(reconnects: false) { rig in
            let program = try await onThread { try Self.keep(database.connection(), rig) }
            try await closing(SharingHosts(1, database)) { hosts in
                // The other process shares nothing, so this host takes the account for free.
                let share = hosts.share([rig.configuration()])
                try await eventually {
                    share.accounts.first?.isHeldElsewhere.load(ordering: .relaxed) == true
                }
                program.closeInput()
                try await eventually { rig.server.log.entries.contains { $0.event == .resumed } }
            }
        }
        withExtendedLifetime(database) {}
    }

    /// Keeps its account from being closed, without a thread: a thread of Swift's tasks is one of few, which all tests share.
    private struct Clinging: AccountModule {
        static let name = "clinging"
        /// Ends when the account may be closed; nil for at once.
        let isHeld: AsyncStream<Never>?
        func register(in hooks: inout ModuleHooks) {
            guard let isHeld else { return }
            hooks.stop = { _ in for await _ in isHeld {} }
        }
    }

    @Test("G6 a host takes what is free while it gives others back, however long that takes")
    func takesWhileGivingBack() async throws {
        // Enough that each of three has some.
        try await Self.sharing(24, hosts: 3) { _, _, configurations, hosts in
            let nodes = hosts.stores.map(\.slotNumber)
            let jids = configurations.map(\.jid)
            let clinging = try #require(
                jids.firstIndex {
                    AccountShare.node(of: $0, among: Array(nodes[..<2])) == nodes[0]
                        && AccountShare.node(of: $0, among: nodes) == nodes[2]
                })
            let (isHeld, letGo) = AsyncStream.makeStream(of: Never.self)
            defer { letGo.finish() }
            func hasPart(_ index: Int, among live: [Int]) throws -> Bool {
                let part = Set(jids.filter { AccountShare.node(of: $0, among: live) == nodes[index] })
                let owned = try hosts.stores[0].read { snapshot in
                    try snapshot.all(
                        "SELECT jid FROM account JOIN ownership ON account = account.id WHERE slot = ?",
                        nodes[index]
                    ) { $0.text(0) }
                }
                return part.count > 0 && Set(owned) == Set(part.map(\.description))
            }
            func share(_ isHeld: AsyncStream<Never>?) -> AccountShare {
                var configurations = configurations
                configurations[clinging].modules.append(Clinging(isHeld: isHeld))
                return hosts.share(configurations)
            }
            let (first, second) = (share(isHeld), share(nil))
            try await eventually {
                try (0..<2).allSatisfy { try hasPart($0, among: Array(nodes[..<2])) }
            }
            _ = share(nil)
            try await eventually { try (0..<3).allSatisfy { try hasPart($0, among: nodes) } }
            // Its first one still holds the account that it has given back.
            #expect(first.accounts.contains { $0.configuration.jid == jids[clinging] })
            await second.close()
            try await eventually { try hasPart(0, among: [nodes[0], nodes[2]]) }
            #expect(first.accounts.contains { $0.configuration.jid == jids[clinging] })
        }
    }

    @Test("G5 which of several machines runs an account changes with a machine for its own part alone")
    func rendezvous() throws {
        let jids = try (0..<1000).map { try JID("user\($0)@example.com") }
        let before = jids.map { AccountShare.node(of: $0, among: [1, 2, 3, 4]) }
        let after = jids.map { AccountShare.node(of: $0, among: [1, 2, 4]) }
        for (before, after) in zip(before, after) { #expect(before == 3 || before == after) }
        for node in 1...4 { #expect((150...350).contains(before.count { $0 == node })) }
        #expect(AccountShare.node(of: jids[0], among: []) == nil)
    }
}
