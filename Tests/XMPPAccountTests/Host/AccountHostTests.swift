import AccountTestSupport
import Foundation
import Glibc
import Handlers
import Platform
import TestSupport
import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

@testable import XMPPAccount

/// Runs `body` with a host, and closes it before the server.
private func withHost(
    accounts count: Int, _ limits: AccountHost.Configuration = .init(),
    _ body: (AccountRig, AccountHost) async throws -> Void
) async throws {
    try await withRig { configuration in
        for number in 0..<count { configuration.accounts["u\(number)"] = "secret" }
    } _: { rig in
        let host = try AccountHost(limits)
        let result: Result<Void, any Error>
        do { result = .success(try await body(rig, host)) } catch { result = .failure(error) }
        await host.close()
        try result.get()
    }
}

private func jid(_ number: Int) throws -> JID { try JID("u\(number)@localhost") }

private func configuration(_ rig: AccountRig, _ number: Int) throws -> AccountConfiguration {
    let jid = try jid(number)
    return rig.configuration {
        let (server, trust) = ($0.server, $0.trust)
        $0 = AccountConfiguration(jid: jid, password: "secret", server: server)
        $0.trust = trust
    }
}

/// Adds accounts and waits until all of them are connected.
private func connect(_ count: Int, to host: AccountHost, _ rig: AccountRig, _ store: HandlerStore)
    async throws -> [Account]
{
    var accounts: [Account] = []
    for number in 0..<count {
        let account = try host.add(try configuration(rig, number), store: store)
        try await account.listen()
        accounts.append(account)
    }
    for account in accounts { host.connect(account) }
    for account in accounts { try await account.connect(retrying: true) }
    return accounts
}

/// Adds an account with a database of its own and connects it.
private func connect(_ number: Int, to host: AccountHost, _ rig: AccountRig) async throws -> Account {
    let store = try HandlerStore(
        path: "\(rig.databasePath)-\(number)", registry: HandlerRegistry(TestApp.handlers),
        schemas: Account.coreSchemas + [TestApp.schema])
    let account = try host.add(try configuration(rig, number), store: store)
    try await account.listen()
    try await account.connect(retrying: true)
    return account
}

/// The names of this process's threads.
private func threads() -> [String] {
    let tasks = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
    return tasks.compactMap {
        try? String(contentsOfFile: "/proc/self/task/\($0)/comm", encoding: .utf8)
            .trimmingCharacters(in: .newlines)
    }
}

/// Accounts that share threads, commits and the order in which they connect.
@Suite(.serialized, .ownThread, .timeLimit(.minutes(3))) struct AccountHostTests {
    @Test(
        "A2 forty accounts run on two threads, in one store, through an outage and a restart of one of them")
    func fewThreads() async throws {
        // In a process of its own, where no other tests have threads.
        await #expect(processExitsWith: .success) {
            var limits = AccountHost.Configuration()
            limits.threads = 2
            try await withHost(accounts: 40, limits) { rig, host in
                let store = try rig.store()
                let before = threads().count
                let accounts = try await connect(40, to: host, rig, store)
                // Two, those that do steps, those of the store, and some of Swift's own pool.
                #expect(threads().count <= before + 12 && !threads().contains("account"), "\(threads())")
                for number in 0..<40 {
                    rig.bot.send(Message(to: try jid(number), id: "m\(number)", body: "one").element)
                }
                try await eventually("all were handled") { try store.notes("message").count == 40 }

                let index = rig.server.log.entries.count
                rig.server.dropConnections()
                for account in accounts { try await account.caughtUp() }
                #expect(rig.server.log.entries(from: index).count { $0.event == .resumed } == 40)

                await host.remove(accounts[7])
                #expect(host.accounts.count == 39)
                #expect(try host.account(jid(7)) == nil)
                let again = try host.add(try configuration(rig, 7), store: store)
                host.connect(again)
                try await again.connect(retrying: true)
                rig.bot.send(Message(to: try jid(7), id: "again", body: "one").element)
                try await eventually("it was handled") { try store.notes("message").count == 41 }
                #expect(Set(try store.notes("message")).count == 41)
            }
        }
    }

    @Test("A2 an account that receives very much lets the others have their turn after each slice")
    func slices() async throws {
        var limits = AccountHost.Configuration()
        limits.threads = 1
        try await withHost(accounts: 2, limits) { rig, host in
            let store = try rig.store()
            let accounts = try await connect(2, to: host, rig, store)
            for account in accounts { try await account.caughtUp() }
            // Read at once, and more than a second of work: each handler takes 30 ms.
            TestApp.told.withLock { $0["flood"] = "0" }
            rig.server.pause([.writing])
            for number in 0..<50 {
                rig.bot.send(Message(to: try jid(0), id: "f\(number)", body: "slow flood 0").element)
            }
            rig.bot.send(Message(to: try jid(1), id: "other", body: "one").element)
            rig.server.unpause()
            try await eventually("all were handled") { try store.notes("message").count == 51 }
            let order = try store.notes("message")
            let place = try #require(order.firstIndex { $0.hasPrefix("other") })
            #expect(place < 10, "\(order)")
        }
    }

    @Test("A2 an account that gives up for good says so, and the others go on")
    func failures() async throws {
        try await withHost(accounts: 2) { rig, host in
            let store = try rig.store()
            var wrong = try configuration(rig, 0)
            wrong.password = "wrong"
            let bad = try host.add(wrong, store: store)
            let good = try host.add(try configuration(rig, 1), store: store)
            var failures = host.failures.makeAsyncIterator()
            host.connect(bad)
            host.connect(good)
            let failure = try #require(await failures.next())
            #expect(failure.account === bad && (failure.error as? AccountError)?.code == .notAuthorized)
            // As often as it is tried again, also while an attempt has not quite ended.
            for _ in 0..<20 {
                host.connect(bad)
                #expect(await failures.next()?.account === bad)
            }
            // Both may ask for the same attempt.
            host.connect(bad)
            host.connect(bad)
            #expect(await failures.next()?.account === bad)
            try await good.connect(retrying: true)
            #expect(throws: AccountError.self) { try host.add(try configuration(rig, 1), store: store) }
        }
    }

    @Test(
        "A2 accounts with a database each share the threads of the host, also for what calls their handlers")
    func fewThreadsForManyStores() async throws {
        await #expect(processExitsWith: .success) {
            var limits = AccountHost.Configuration()
            limits.threads = 2
            try await withHost(accounts: 8, limits) { rig, host in
                var accounts: [Account] = []
                for number in 0..<8 { accounts.append(try await connect(number, to: host, rig)) }
                for account in accounts { try await account.tell("m") }
                let names = threads()
                try #require(names.count { $0 == "accounts" } == 2, "\(names)")
                try #require(names.count { $0 == "handler runners" } == 1, "\(names)")
                try #require(1...16 ~= names.count { $0 == "stores" }, "\(names)")
                try #require(Set(names).isDisjoint(with: ["account", "handler runner"]), "\(names)")
            }
        }
    }

    @Test("A2 a handler that sleeps in its step holds up the accounts of its own database alone")
    func sleepingHandler() async throws {
        var limits = AccountHost.Configuration()
        (limits.threads, limits.stores) = (1, 2)
        try await withHost(accounts: 3, limits) { rig, host in
            let asleep = try await connect(0, to: host, rig)
            let awake = try await connect(1, to: host, rig)
            TestApp.told.withLock { $0["sleeper"] = "0" }
            rig.bot.send(Message(to: try jid(0), id: "m", body: "slow sleeper 1").element)
            try await eventually("it sleeps") { TestApp.waiting.withLock { $0.contains("sleeper") } }
            for number in 0..<20 {
                rig.bot.send(Message(to: try jid(1), id: "m\(number)", body: "one").element)
            }
            try await eventually("the others were handled") {
                try awake.store.notes("message").count == 20
            }
            // Another one can still connect.
            _ = try await connect(2, to: host, rig)
            #expect(TestApp.waiting.withLock { $0.contains("sleeper") })
            TestApp.told.withLock { $0["sleeper"] = "1" }
            try await eventually("it was handled") { try asleep.store.notes("message").count == 1 }
        }
    }

    @Test("A2 the keys of a password are derived where no account waits for it")
    func derivations() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            try await account.suspend()
            let derivations = KeyDerivations()
            let opener = StreamOpener(
                configuration: account.configuration, login: try StoredLogin(account),
                memory: LoginMemory(), resource: "other", derivations: derivations)
            let index = rig.server.log.entries.count
            let responses = { @Sendable [server = rig.server] in
                server.log.entries(from: index).count { $0.name == "response" }
            }
            let (isBusy, early) = (Kept(false), Kept<Int?>(nil))
            occupy(derivations, ServerPlace(account.configuration)) {
                isBusy.withLock { $0 = true }
                // Long enough for a login that does not wait for this.
                let end = ContinuousClock.now + .milliseconds(500)
                while responses() == 0, ContinuousClock.now < end { usleep(1000) }
                early.withLock { $0 = responses() }
            }
            try await eventually("it is busy") { isBusy.withLock { $0 } }
            let opened = try await opener.opened()
            opened.connection.closeDirty()
            #expect(early.withLock { $0 } == 0)
            #expect(responses() == 1)
        }
    }

    @Test("A2 an account that is removed while keys are derived for it leaves nothing that waits")
    func removedWhileDeriving() async throws {
        var limits = AccountHost.Configuration()
        limits.openings = 1
        try await withHost(accounts: 2, limits) { rig, host in
            let derivations = host.services.derivations
            let mayEnd = Monitor(false)
            // The server has its turn.
            let isBusy = Kept(false)
            occupy(derivations, ServerPlace(try configuration(rig, 0))) {
                isBusy.withLock { $0 = true }
                _ = mayEnd.wait(limit: .seconds(30)) { $0 ? true : nil }
            }
            try await eventually("it is busy") { isBusy.withLock { $0 } }
            weak var removed: Account?
            do {
                let account = try host.add(try configuration(rig, 0), store: try rig.store())
                removed = account
                host.connect(account)
                try await eventually("the server wants the keys") {
                    rig.server.log.entries.contains { $0.event == .delivered && $0.name == "challenge" }
                }
                await host.remove(account)
            }
            try await eventually("nothing keeps it") { removed == nil }
            mayEnd.withLock { $0 = true }
            // The only place for opening a stream is free again.
            _ = try await connect(1, to: host, rig)
        }
    }

    @Test("A2 an account for which the process may not open enough files is refused before it is made")
    func fileLimit() async throws {
        await #expect(processExitsWith: .success) {
            try await withRig { rig in
                var limit = rlimit(rlim_cur: 101, rlim_max: 101)
                let store = try rig.store()
                let other = try HandlerStore(
                    path: rig.databasePath + "-other", registry: HandlerRegistry([]),
                    schemas: Account.coreSchemas)
                try #require(setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0)
                var limits = AccountHost.Configuration()
                (limits.threads, limits.openings) = (1, 1)
                let host = try AccountHost(limits)
                var count = 0
                let error =
                    await errorOf {
                        for number in 0..<100 {
                            let jid = try JID("u\(number)@localhost")
                            try host.add(AccountConfiguration(jid: jid, password: "secret"), store: store)
                            count += 1
                        }
                    } as? HandlerError
                #expect(
                    error?.code == .resourcesExhausted && count == 9, "\(count) \(String(describing: error))"
                )
                #expect(error?.message.contains("ulimit -n") == true)
                for account in host.accounts.dropFirst() { await host.remove(account) }
                let one = AccountConfiguration(jid: try JID("one@localhost"), password: "secret")
                #expect(throws: HandlerError.self, "a second database needs files, too") {
                    try host.add(one, store: other)
                }
                try host.add(one, store: store)
                await host.close()
            }
        }
    }
}
