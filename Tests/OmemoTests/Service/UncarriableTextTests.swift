import Handlers
import HandlersPostgres
import TestServers
import TestSupport
import TestThreads
import Testing
import XMPPCore

@testable import Omemo

/// Text that only encryption can bring: no stanza could hold it.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct UncarriableTextTests {
    /// Opens the store of one who receives.
    private func store(_ database: TestDatabase?, in folder: TemporaryFolder, _ world: World) throws
        -> HandlerStore
    {
        let registry = HandlerRegistry([World.Heard.self, World.Reported.self])
        guard let database else {
            return try HandlerStore(
                path: folder.path + "/store.db", registry: registry, schemas: World.Client.schemas,
                time: world.clock.source)
        }
        return try HandlerStore(
            postgres: database.connection(), registry: registry, schemas: World.Client.schemas,
            durability: .onPrimary, time: world.clock.source)
    }

    @Test(
        "O5 characters that XML cannot carry are replaced in what was decrypted, so that every store takes it",
        arguments: [false, true])
    func legacy(onPostgres: Bool) async throws {
        let database = onPostgres ? try PostgresServer.shared.makeDatabase() : nil
        let world = World()
        let a = try world.add(juliet + "/a")
        let folder = try TemporaryFolder()
        let b = try World.Client(romeo + "/a", store(database, in: folder, world), in: folder)
        world.clients.append(b)
        try b.start()
        try world.settle()
        // Only the legacy version has text without XML around it.
        world.nodes["\(romeo) \(OmemoVersion.omemo2.deviceListNode)"] = nil
        try a.send("plain", to: romeo)
        try world.settle()
        let text = "a\u{0}b\u{1B}[1m\u{FFFE}\u{FFFF}\t\r\n\u{FFFD}é"
        try world.receive(a.message(Array(text.utf8), to: b, .legacy), b)
        #expect(
            try b.heard() == [
                "plain blind", "a\u{FFFD}b\u{FFFD}[1m\u{FFFD}\u{FFFD}\t\r\n\u{FFFD}é blind",
            ])
        await world.close()
        withExtendedLifetime(database) {}
    }
}
