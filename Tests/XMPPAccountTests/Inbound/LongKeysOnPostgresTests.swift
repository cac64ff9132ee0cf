import AccountTestSupport
import Handlers
import HandlersPostgres
import TestServers
import TestSupport
import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

@testable import XMPPAccount

/// Stanzas of strangers whose texts are longer than an entry of an index of PostgreSQL.
@Suite(.ownThread, .timeLimit(.minutes(3))) struct LongKeysOnPostgresTests {
    /// Random letters, which PostgreSQL cannot make shorter.
    private static func letters(_ count: Int) -> String {
        String(
            decoding: (0..<count).map { _ in UInt8.random(in: UInt8(ascii: "a")...UInt8(ascii: "z")) },
            as: UTF8.self)
    }

    @Test(
        "G6 a request whose address and id have 3 kB is refused, and the messages around it are handled on the same stream"
    )
    func request() async throws {
        let database = try PostgresServer.shared.makeDatabase()
        try await withRig { rig in
            let store = try HandlerStore(
                PostgresSettings(database.connection(), durability: .onPrimary), registry: TestApp.registry,
                schemas: Account.coreSchemas + [TestApp.schema], role: .main, time: .system, log: nil)
            let account = try await rig.connected(store: store)
            try await account.listen()
            try await account.answer("question", in: TestApp.namespace, with: TestApp.Served().durable)
            let to = try #require(rig.server.boundAddresses.first { $0.bare == AccountRig.alice })
            let ids = (0..<3).map { _ in Self.letters(1000) }
            for (number, id) in ids.enumerated() {
                var request = rig.question(id).element
                request["to"] = to.foreignText
                rig.server.send(
                    request, from: try JID("\(Self.letters(1000))@evil.example/\(Self.letters(1000))"))
                rig.bot.send(rig.messageToAlice("m\(number)", "hello"))
            }
            try await eventually { try account.store.notes("message") == (0..<3).map { "m\($0): hello" } }
            try await account.caughtUp()
            for id in ids {
                #expect(rig.xml(ofID: id).count { $0.contains("<resource-constraint") } == 1)
            }
            #expect(try account.store.notes("served").isEmpty)
            #expect(rig.server.log.entries.count { $0.event == .connected } == 1, "the stream ended")
        }
        withExtendedLifetime(database) {}
    }
}
