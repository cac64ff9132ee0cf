import Handlers
import HandlersPostgres
import TestServers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore

/// A store with ratchets that is moved to PostgreSQL and back, while everybody else knows the device as it was.
@Suite(.ownThread) struct MovedTests {
    /// Two clients with a session, of which only the world keeps the first.
    private static func world() throws -> World {
        let (world, _, _) = try World.pairInSession()
        return world
    }

    /// Ends the first client's program, moves its store, and starts it there.
    private func move(_ world: World, _ source: StoreMove.Place, _ target: StoreMove.Place) async throws {
        let (jid, folder) = (world.clients[0].jid, world.clients[0].folder)
        await world.clients[0].account.close()
        let inbox = world.clients.removeFirst().inbox
        try StoreMove(from: source, to: target, schemas: World.Client.schemas, durability: .onPrimary).run()
        let registry = HandlerRegistry([World.Heard.self, World.Reported.self])
        let store =
            switch target {
            case .file(let path):
                try HandlerStore(
                    path: path, registry: registry, schemas: World.Client.schemas, time: world.clock.source)
            case .postgres(let settings):
                try HandlerStore(
                    postgres: settings, registry: registry, schemas: World.Client.schemas,
                    durability: .onPrimary, time: world.clock.source)
            }
        let client = try World.Client(jid.description, store, in: folder)
        client.inbox = inbox
        world.clients.insert(client, at: 0)
    }

    @Test(
        "G8 ratchets go on after a move: both sides read each other without a new session, also what was sent meanwhile"
    )
    func ratchets() async throws {
        let database = try PostgresServer.shared.makeDatabase()
        let world = try Self.world()
        let folder = world.clients[0].folder.path
        let places: [StoreMove.Place] = [
            .file(folder + "/store.db"), .postgres(database.connection()), .file(folder + "/back.db"),
        ]
        for (number, (source, target)) in zip(places, places.dropFirst()).enumerated() {
            // It waits while the store is moved.
            try world.clients[1].send("before \(number)", to: juliet)
            try await move(world, source, target)
            try world.settle()
            #expect(try world.clients[0].heard() == ["before \(number) blind"])
            world.clients[0].sent = []
            for text in ["to", "and again"] {
                try world.clients[0].send("\(text) \(number)", to: romeo)
                try world.settle()
            }
            #expect(try world.clients[1].heard() == ["to \(number) blind", "and again \(number) blind"])
            try world.clients[1].send("back \(number)", to: juliet)
            try world.settle()
            #expect(try world.clients[0].heard() == ["back \(number) blind"])
            #expect(world.clients[0].sent.count == 2)
            for sent in world.clients[0].sent {
                let xml = sent.serialized()
                // The attributes of a message that starts a session.
                #expect(!xml.contains("kex=") && !xml.contains("prekey="))
            }
            let store = world.clients[0].store
            #expect(try store.texts("SELECT id FROM omemo_session WHERE is_old <> 0") == [])
            #expect(try store.texts("SELECT id FROM omemo_prekey WHERE retired_at IS NOT NULL") == [])
        }
        await world.close()
        withExtendedLifetime(database) {}
    }
}
