import AccountTestSupport
import Glibc
import Handlers
import HandlersPostgres
import TestServers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// Accounts whose store is moved to another engine while no program runs.
@Suite(.ownThread, .timeLimit(.minutes(3))) struct AccountMoveTests {
    private static let schemas = Account.coreSchemas + [TestApp.schema]

    private static func open(_ place: StoreMove.Place) throws -> HandlerStore {
        switch place {
        case .file(let path):
            try HandlerStore(path: path, registry: TestApp.registry, schemas: schemas)
        case .postgres(let settings):
            try HandlerStore(
                postgres: settings, registry: TestApp.registry, schemas: schemas, durability: .onPrimary)
        }
    }

    private static func move(_ source: StoreMove.Place, _ target: StoreMove.Place) throws {
        try StoreMove(from: source, to: target, schemas: schemas, durability: .onPrimary).run()
    }

    @Test(
        "G8 a session is resumed from the other engine and back again; what was not sent is sent once, and a request that waits meanwhile ends once"
    )
    func resumes() async throws {
        let database = try PostgresServer.shared.makeDatabase()
        try await withRig(reconnects: false) { rig in
            let places: [StoreMove.Place] = [
                .file(rig.databasePath), .postgres(database.connection()),
                .file(rig.folder.path + "/back.db"),
            ]
            do {
                let account = try await rig.connected(store: Self.open(places[0]))
                try await account.listen()
                try await account.caughtUp()
            }
            for (number, (source, target)) in zip(places, places.dropFirst()).enumerated() {
                do {
                    let account = try await Self.running(source, rig, isFirst: number == 0)
                    let events = EventReader(account)
                    // Nobody answers it yet.
                    try await account.ask(rig.question("q\(number)", want: "nothing"))
                    try await account.caughtUp()
                    rig.server.pause([.reading])
                    try await account.tell("o\(number)")
                    rig.server.dropConnections()
                    await events.until("suspended")
                    await rig.closeAccounts()
                }
                let jid = try Self.open(source).texts("SELECT full_jid FROM session").first ?? ""
                // As the death of a process leaves it. At the target the slot may be that of another store.
                try Self.open(source).change("UPDATE ownership SET owner = 'process 1', slot = 1")
                try Self.move(source, target)
                #expect(try Self.open(target).number("SELECT count(slot) FROM ownership") == 0)
                rig.bot.send(rig.messageToAlice("m\(number)", "hello"))
                rig.bot.send(
                    IQ(
                        type: .result, to: try JID(jid), id: "q\(number)",
                        payload: Element("answer", namespace: TestApp.namespace)
                    ).element)
                let account = try rig.account(store: Self.open(target))
                let events = EventReader(account)
                try await account.connect()
                await events.until("resumed")
                try await account.caughtUp()
                try await eventually { try account.store.outboxCount == 0 }
                let count = number + 1
                #expect(try account.store.notes("message").count == count)
                #expect(try account.store.notes("ended").count == count)
                #expect(try account.store.notes("acknowledged").count == count)
                #expect(rig.xml(ofID: "o\(number)").count == 1)
                #expect(try account.store.waitingHandlers == 0)
                #expect(try account.store.number("SELECT copies FROM place") == 0)
            }
            #expect(rig.server.log.entries.repeatedStanzas.isEmpty)
            #expect(rig.server.log.entries.count { $0.event == .bound } == 1)
        }
        withExtendedLifetime(database) {}
    }

    /// The account on its store, which is open already but for the first time.
    private static func running(
        _ place: StoreMove.Place, _ rig: AccountRig, isFirst: Bool
    ) async throws -> Account {
        await rig.closeAccounts()
        let account = try rig.account(store: open(place))
        let events = EventReader(account)
        try await account.connect()
        await events.until("resumed")
        return account
    }

    @Test("G8 a store that was put back from a backup is not moved before its program has noticed that")
    func restored() async throws {
        let database = try PostgresServer.shared.makeDatabase()
        try await withRig(reconnects: false) { rig in
            let backup = rig.folder.path + "/backup.db"
            do {
                let account = try await rig.connected(store: Self.open(.file(rig.databasePath)))
                try await account.tell("m0")
                try await account.caughtUp()
                try await eventually { try account.store.outboxCount == 0 }
                await rig.closeAccounts()
            }
            try copy(rig.databasePath, to: backup)
            do {
                let account = try await rig.connected(store: Self.open(.file(rig.databasePath)))
                try await account.tell("m1")
                try await account.caughtUp()
                await rig.closeAccounts()
            }
            // As its content is written over, the file is the same.
            try copy(backup, to: rig.databasePath)
            let target = StoreMove.Place.postgres(database.connection())
            let error = await errorOf { try Self.move(.file(rig.databasePath), target) } as? HandlerError
            #expect(error?.code.rawValue == "database-foreign")
            #expect(error?.message.contains("is older than what account") == true)
            do {
                let account = try await rig.connected(store: Self.open(.file(rig.databasePath)))
                try await account.caughtUp()
                await rig.closeAccounts()
            }
            try Self.move(.file(rig.databasePath), target)
        }
        withExtendedLifetime(database) {}
    }

    /// Writes what one file holds into another, which stays the same file.
    private func copy(_ path: String, to other: String) throws {
        let (from, to) = (try #require(fopen(path, "r")), try #require(fopen(other, "w")))
        defer {
            fclose(from)
            fclose(to)
        }
        var bytes = [UInt8](repeating: 0, count: 16 << 20)
        let count = fread(&bytes, 1, bytes.count, from)
        #expect(fwrite(bytes, 1, count, to) == count)
    }
}
