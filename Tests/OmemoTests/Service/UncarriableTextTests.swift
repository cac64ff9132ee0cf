import Handlers
import HandlersPostgres
import TestServers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore

@testable import Omemo

/// Text that only encryption can bring: no stanza could hold it.
@Suite(.ownThread) struct UncarriableTextTests {
    /// A world with Juliet's device and one of Romeo's, whose store is on an engine.
    private func world(onPostgres: Bool, _ databases: Kept<[TestDatabase]>) throws -> (
        World, World.Client, World.Client
    ) {
        let world = World()
        let a = try world.add(juliet + "/a")
        let folder = try TemporaryFolder()
        let registry = HandlerRegistry([World.Heard.self, World.Reported.self])
        let store: HandlerStore
        if onPostgres {
            let database = try PostgresServer.shared.makeDatabase()
            databases.withLock { $0.append(database) }
            store = try HandlerStore(
                postgres: database.connection(), registry: registry, schemas: World.Client.schemas,
                durability: .onPrimary, time: world.clock.source)
        } else {
            store = try HandlerStore(
                path: folder.path + "/store.db", registry: registry, schemas: World.Client.schemas,
                time: world.clock.source)
        }
        let b = try World.Client(romeo + "/a", store, in: folder)
        world.clients.append(b)
        try b.start()
        try world.settle()
        return (world, a, b)
    }

    @Test(
        "O5 characters that XML cannot carry are replaced in what was decrypted, so that every store takes it",
        arguments: [false, true])
    func legacy(onPostgres: Bool) async throws {
        let databases = Kept<[TestDatabase]>([])
        let (world, a, b) = try world(onPostgres: onPostgres, databases)
        // Only the legacy version has text without XML around it.
        world.nodes["\(romeo) urn:xmpp:omemo:2:bundles"] = nil
        try a.send("a\u{0}b\u{1B}[1m\u{FFFE}\u{FFFF}\t\r\n\u{FFFD}é", to: romeo)
        try a.send("plain", to: romeo)
        try world.settle()
        let legacy = a.sent.count { sent in
            sent.elements.contains { $0.namespace == OmemoVersion.legacy.namespace }
        }
        #expect(legacy == 2)
        #expect(
            try b.heard() == [
                "a\u{FFFD}b\u{FFFD}[1m\u{FFFD}\u{FFFD}\t\r\n\u{FFFD}é blind", "plain blind",
            ])
        await world.close()
    }
}
