import Handlers
import HandlersPostgres
import TestServers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPModules

/// `pushwake store move`, which does not know the tables of the program.
@Suite(.ownThread, .timeLimit(.minutes(5)))
struct StoreMoveCommandTests {
    private static let orders = Schema(
        module: "orders",
        migrations: [
            "CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT NOT NULL)",
            """
            CREATE TABLE shop_order(
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                customer INTEGER NOT NULL REFERENCES customer(id),
                handler INTEGER REFERENCES handler(id) DEFERRABLE INITIALLY DEFERRED,
                total REAL);
            CREATE INDEX shop_order_customer ON shop_order(customer) WHERE total IS NOT NULL;
            """,
        ])
    private static let schemas = Account.schemas + [orders]

    private func move(_ words: String...) throws -> ProgramEnding {
        try ProgramEnding(of: "pushwake", ["store", "move"] + words)
    }

    @Test(
        "G8 pushwake moves a store with tables that it does not know to PostgreSQL and back, and says what to do where it cannot"
    )
    func bothWays() throws {
        let folder = try TemporaryFolder()
        let database = try PostgresServer.shared.makeDatabase()
        let (first, last) = (folder.path + "/a.db", folder.path + "/b.db")
        do {
            let store = try HandlerStore(path: first, registry: HandlerRegistry(), schemas: Self.schemas)
            try store.step { step in
                try step.execute("INSERT INTO account(jid) VALUES ('alice@localhost')")
                try step.execute("INSERT INTO customer(name) VALUES ('Ada')")
                try step.execute("INSERT INTO shop_order(customer, total) VALUES (1, 12.5)")
            }
        }
        let server = database.connection()
        let refused = try move("--from", first, "--to", server)
        #expect(refused.status == 1)
        #expect(refused.complaint.contains("no synchronous standby"))
        let there = try move("--from", first, "--to", server, "--without-standby")
        #expect(there.status == 0, "\(there)")
        #expect(there.output.contains("moved and compared"))
        let undone = try move("--from", first, "--to", server, "--undo")
        #expect(undone.status == 1)
        #expect(undone.complaint.contains("was moved to postgresql://"))
        #expect(
            try ProgramEnding(of: "pushwake", ["inspect", "--store", first]).complaint.contains(
                "was moved to"))

        let back = try move("--from", server, "--to", last)
        #expect(back.status == 0, "\(back)")
        let store = try HandlerStore(path: last, registry: HandlerRegistry(), schemas: Self.schemas)
        let order = "SELECT name || total FROM customer JOIN shop_order ON customer.id = shop_order.customer"
        #expect(try store.texts(order) == ["Ada12.5"])
        #expect(try store.texts("SELECT jid FROM account") == ["alice@localhost"])
        #expect(
            try store.number("SELECT count(*) FROM sqlite_schema WHERE name = 'shop_order_customer'") == 1)
        withExtendedLifetime(database) {}
    }

    @Test("G8 pushwake store takes the word move and nothing else")
    func words() throws {
        for words in [[], ["copy"], ["move", "--from", "a"], ["move", "--to", "a"]] {
            #expect(try ProgramEnding(of: "pushwake", ["store"] + words).status == 64, "\(words)")
        }
    }
}
