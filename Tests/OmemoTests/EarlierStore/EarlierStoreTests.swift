import Foundation
import Handlers
@testable import Omemo
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import XMPPTestKit

/// A store that an earlier program left, with unfinished work of every kind.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct EarlierStoreTests {
    /// Tables whose names have changed since.
    private static let renamed = ["live_clock": "connected_clock"]
    /// Tables whose rows are about processes that have ended.
    private static let passing = ["live_seat", "module_schema", "sqlite_sequence"]

    private static func open(_ path: String) throws -> HandlerStore {
        let begin = TimeSource.systemWall()
        let time = TimeSource(wall: {
            Timestamp(milliseconds: EarlierStore.writtenAt + 60_000) + (TimeSource.systemWall() - begin)
        })
        return try HandlerStore(
            path: path, registry: HandlerRegistry(EarlierApp.handlers + [EarlierApp.Parked.self]),
            schemas: Account.schemas + OmemoService.schemas + [RefreshAccount.notes], synchronous: .normal,
            time: time)
    }

    @Test("X20 a store of an earlier program keeps every row of every table when it is opened")
    func rows() async throws {
        if ProcessInfo.processInfo.environment["EARLIER_STORE"] == "write" { try await EarlierStore.write() }
        let folder = try TemporaryFolder()
        let path = folder.path + "/store.db"
        try EarlierStore.restore(to: path)
        let store = try Self.open(path)
        let rows = try EarlierStore.rows()
        #expect(rows.count == 42)
        for (table, count) in rows where !Self.passing.contains(table) {
            let name = Self.renamed[table] ?? table
            #expect(try store.number("SELECT count(*) FROM \(name)") == count, "\(name)")
        }
    }

    /// What the handlers leave in the end, each exactly once; two were there before.
    private static let ends = [
        "acknowledged carried", "acknowledged offline", "answered offline result",
        "instead carried session-lost",
        "instead expiring timed-out", "job waiting 9", "leased 4", "message call fail", "message known seen",
        "message wait later", "message wait later", "not sent 0", "parked 3", "patient 1", "quarantined 2",
        "three blind", "tick due",
    ]

    @Test(
        "X20 a store of an earlier program finishes its work: each handler ends once, stanzas are sent, the device decrypts"
    )
    func finishes() async throws {
        let scene = try ScriptedScene()
        let path = scene.folder.path + "/store.db"
        try EarlierStore.restore(to: path)
        let store = try Self.open(path)
        var configuration = AccountConfiguration(
            jid: try JID(EarlierStore.own), password: ScriptedScene.password,
            server: .init(host: scene.server.host, port: scene.server.startTLSPort, security: .startTLS))
        configuration.trust = .file(path: scene.authorityFile)
        configuration.modules = .standard + [OmemoModule()]
        configuration.log = scene.log.log
        let account = try Account(configuration, store: store)
        let orchard = try JID(EarlierStore.friend + "/orchard")
        _ = scene.server.addBot(jid: orchard) { stanza, bot in
            if stanza.name == "iq", stanza["type"] == "get" { bot.answer(stanza) }
        }
        try await Self.expectKnown(account)

        try await account.connect()
        let resume = scene.server.log.entries.first { $0.name == "resume" }
        #expect(resume?.xml?.contains("previd='earlier-1'") == true && resume?.xml?.contains("h='3'") == true)
        for xml in [
            "<message to='\(EarlierStore.own)' id='known' type='chat'><body>seen</body></message>",
            "<message to='\(EarlierStore.own)' id='wait' type='chat'><body>later</body></message>",
        ] {
            scene.server.send(
                try Element(parsing: xml, defaultNamespace: Namespaces.client), from: orchard)
        }
        scene.server.send(try EarlierStore.messageOfRomeo(), from: orchard)
        try await Self.finish(store)
        #expect(try Self.notes(store) == Self.ends)
        #expect(
            try store.texts("SELECT name FROM handler WHERE name LIKE 'earlier.%' ORDER BY name")
                == ["earlier.received", "earlier.tick", "earlier.tick"])
        await account.close()
        await scene.close()
    }

    /// What the store says before anything is sent.
    private static func expectKnown(_ account: Account) async throws {
        #expect(try account.canResume())
        let (contacts, requests, nodes) = try account.store.read { source in
            (
                try account.roster.items(in: source).map(\.jid.description),
                try account.roster.requests(in: source).map(\.jid.description),
                try account.push.registrations(in: source).map(\.node)
            )
        }
        #expect(contacts == [EarlierStore.friend])
        #expect(requests == ["paris@localhost"])
        #expect(nodes == ["n1"])
        var events = account.store.events(EarlierApp.News.self).makeAsyncIterator()
        #expect(try await events.next()?.event.text == "not read yet")
    }

    /// Does what is left to the program, and waits until nothing is left.
    private static func finish(_ store: HandlerStore) async throws {
        try await eventually("the expiring handler ends") {
            try store.number("SELECT count(*) FROM handler WHERE name = 'earlier.job'") == 1
        }
        try store.step { step in
            let waiting = try step.first("SELECT id FROM handler WHERE name = 'earlier.job'") {
                (row) throws(HandlerError) in HandlerID<EarlierApp.Work>(rawValue: row.integer(0))
            }
            try step.end(try #require(waiting), .result, with: EarlierApp.Work(n: 9))
            #expect(try step.requeueAll(named: EarlierApp.Quarantined.id) == 1)
        }
        try await eventually("everything ends, after \(try notes(store))") {
            try notes(store).count >= ends.count && store.number("SELECT count(*) FROM outbox") == 0
        }
    }

    private static func notes(_ store: HandlerStore) throws -> [String] {
        try store.texts("SELECT text FROM note ORDER BY text").map {
            $0.hasPrefix("not sent 0") ? "not sent 0" : $0
        }
    }
}
