import AccountTestSupport
import Foundation
import Handlers
import Synchronization
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// What an account tells its log.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct AccountLogTests {
    /// How an account logs in.
    struct Way: CustomTestStringConvertible, Sendable {
        let mechanism: String
        let isExtensible: Bool
        var token: String?
        var testDescription: String {
            [isExtensible ? "SASL2" : "SASL", mechanism, token ?? ""].joined(separator: " ")
        }
    }

    static let ways: [Way] =
        ["SHA-1", "SHA-256", "SHA-512"].flatMap { ["SCRAM-\($0)", "SCRAM-\($0)-PLUS"] }.flatMap {
            [Way(mechanism: $0, isExtensible: false), Way(mechanism: $0, isExtensible: true)]
        } + [Way(mechanism: "PLAIN", isExtensible: false)]
        + ["NONE", "ENDP", "EXPR"].map {
            Way(mechanism: "SCRAM-SHA-256", isExtensible: true, token: "HT-SHA-256-\($0)")
        }

    private static let password = "p\u{E4}ssword: 100 % secret"

    @Test(
        "X16 whatever the mechanism, the log shows the login in both directions and nothing that SASL exchanged",
        arguments: ways)
    func logins(_ way: Way) async throws {
        let seen = Kept<[String]>([])
        let kept = KeptLog()
        try await withRig(reconnects: false) {
            $0.accounts["alice"] = Self.password
            $0.behavior.mechanisms = way.isExtensible ? ["SCRAM-SHA-1"] : [way.mechanism]
            $0.behavior.extensibleMechanisms = way.isExtensible ? [way.mechanism] : []
            $0.behavior.tokenMechanisms = way.token.map { [$0] } ?? []
            $0.script = { element, _ in
                seen.withLock { $0 += Secrets.payloads(in: element) }
                return .pass
            }
        } _: { rig in
            let account = try rig.account {
                $0.password = Self.password
                $0.allowsPlain = true
                $0.log = kept.log
            }
            try await account.connect()
            try await account.suspend()
            try await account.connect()
            try await account.caughtUp()
            let name = way.token ?? way.mechanism
            #expect(kept.decisions.contains("logged in by \(name)\(way.isExtensible ? " (SASL2)" : "")"))
            let element = way.isExtensible ? "authenticate" : "auth"
            #expect(
                kept.lines.contains { $0.contains("sent <\(element) ") && $0.contains("mechanism='\(name)'") }
            )
            #expect(kept.lines.contains { $0.contains("received <success ") })
            #expect(
                kept.lines.contains {
                    $0.contains("received <resumed ") || $0.contains("<resumed xmlns='urn:xmpp:sm:3'")
                })
            let payloads = seen.withLock { $0 }
            #expect(payloads.count >= 2, "the server saw what SASL exchanges")
            let secrets =
                payloads + Secrets.forms(of: Self.password, user: "alice") + Secrets.tokens(in: account.store)
            #expect(way.token == nil || secrets.count > payloads.count + 4)
            for secret in secrets { #expect(!kept.holds(secret), "\(secret)") }
        }
    }

    @Test(
        "X16 decisions are reported at info: connected, logged in, bound, suspended with the reason, when it is tried again, resumed"
    )
    func decisions() async throws {
        let kept = KeptLog(level: .info, showsXML: false)
        try await withRig { rig in
            let account = try await rig.connected { $0.log = kept.log }
            let events = EventReader(account)
            rig.server.dropConnections(of: .jid(AccountRig.alice), .reset)
            await events.until("resumed")
            let order = [
                "connected to ", "logged in by ", "bound ", "suspended: ", "trying again in ", "resumed ",
            ]
            var rest = kept.decisions[...]
            for word in order {
                let index = try #require(
                    rest.firstIndex { $0.hasPrefix(word) }, "\(word) in \(kept.decisions)")
                rest = rest[(index + 1)...]
            }
            #expect(
                kept.entries.allSatisfy {
                    $0.account == AccountRig.alice && $0.level >= .info && $0.module != "xml"
                })
        }
    }

    @Test("X16 levels and switches change while the account runs, each module and direction for itself")
    func runTime() async throws {
        let kept = KeptLog(level: .error, showsXML: false)
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected { $0.log = kept.log }
            #expect(kept.entries.isEmpty)
            kept.log.showsReceivedXML = true
            try await account.caughtUp()
            #expect(!kept.entries.isEmpty && kept.entries.allSatisfy { $0.message.hasPrefix("received <a ") })
            kept.log.showsReceivedXML = false
            kept.log.showsSentXML = true
            let mark = kept.entries.count
            try await account.caughtUp()
            #expect(kept.entries.count > mark)
            #expect(kept.entries.dropFirst(mark).allSatisfy { $0.message.hasPrefix("sent <") })
            kept.log.showsSentXML = false
            kept.log.setLevel(.info, for: "session")
            try await account.suspend()
            try await account.connect()
            #expect(kept.decisions.count == 1 && kept.decisions.first?.hasPrefix("resumed ") == true)
            kept.log.setLevel(nil, for: "session")
            kept.log.level = .info
            try await account.suspend()
            try await account.connect()
            #expect(Set(kept.entries.suffix(3).map(\.module)) == ["connection", "login", "session"])
        }
    }

    @Test("X16 a peer cannot forge a line of the log")
    func singleLines() async throws {
        let kept = KeptLog()
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected { $0.log = kept.log }
            try await account.listen()
            rig.bot.send(rig.messageToAlice("m", "one\nerror session\r\u{2028}two\u{85}three"))
            try await eventually("the message") { kept.holds("one\\n") || kept.holds("one\\u") }
            #expect(kept.entries.allSatisfy { !$0.message.contains(where: \.isNewline) })
        }
    }

    // MARK: Modules

    @Test("X26 trace is a flag of each module beside the level, and changes while the account runs")
    func trace() async throws {
        let kept = KeptLog(level: .error, showsXML: false)
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected { $0.log = kept.log }
            #expect(kept.entries.isEmpty)
            kept.log.setTrace(true, for: "session")
            try await account.suspend()
            try await account.connect()
            try await eventually { !kept.entries.isEmpty }
            #expect(kept.entries.allSatisfy { $0.isTrace && $0.module == "session" })
            #expect(kept.lines.contains("trace session alice@localhost: the server answered <resumed/>"))
            kept.log.setTrace(false, for: "session")
            // The trace of another module is not that of the session.
            kept.log.setTrace(true, for: "weather")
            let mark = kept.entries.count
            try await account.suspend()
            try await account.connect()
            try await account.caughtUp()
            #expect(kept.entries.count == mark)
        }
    }

    @Test("X26 a module of the program's own has a name, a level and a trace of its own")
    func ownModule() async throws {
        let kept = KeptLog(level: .warning, showsXML: false)
        let weather = "weather"
        try await withRig { rig in
            let account = try await rig.connected { $0.log = kept.log }
            kept.log.setLevel(.verbose, for: weather)
            kept.log.setTrace(true, for: weather)
            try await account.perform { step in
                account.log(.verbose, weather, "it rains", after: step)
                account.trace(weather, "4 mm\u{1B}[2J", after: step)
            }
            try await eventually { kept.entries.count == 2 }
            #expect(kept.lines.first == "verbose weather alice@localhost: it rains")
            #expect(kept.lines.last?.hasPrefix("trace weather alice@localhost: 4 mm") == true)
            #expect(kept.lines.last?.contains("\u{1B}") == false)
        }
    }

    @Test("X26 the store and its handlers tell the account's log, by its levels, and of no account")
    func store() async throws {
        let kept = KeptLog(level: .info, showsXML: false)
        try await withRig { rig in
            kept.log.setLevel(.warning, for: "store")
            func open() throws -> HandlerStore {
                try HandlerStore(
                    path: rig.databasePath, registry: TestApp.registry,
                    schemas: Account.coreSchemas + [TestApp.schema], synchronous: .normal,
                    log: kept.log.handlers)
            }
            let store = try open()
            #expect(kept.entries.isEmpty)
            let account = try await rig.connected(store: store) { $0.log = kept.log }
            try await account.listen()
            rig.bot.send(rig.messageToAlice("m1", "throw"))
            try await eventually {
                kept.entries.contains {
                    $0.module == "handlers" && $0.message.contains("'test.received'")
                }
            }
            let entry = try #require(kept.entries.first { $0.message.contains("in quarantine") })
            #expect(entry.account == nil && entry.level == .error && entry.module == "handlers")
            kept.log.setLevel(nil, for: "store")
            _ = try open()
            // The account may log the failure later than the store.
            #expect(
                kept.lines.filter { $0.contains(" store: ") } == [
                    "info store: opened \(rig.databasePath) as main"
                ])
        }
    }
}
