import Handlers
@testable import Omemo
import TestThreads
import Testing
import XMPPAccount
import XMPPCore

/// A database with ratchets and keys that is put back from a backup, while everybody else remembers newer ones.
@Suite(.ownThread) struct RestoredTests {
    private static let tables = ["omemo_session", "omemo_prekey", "omemo_signed_prekey", "omemo_publication"]

    /// Keeps the keys of a client aside.
    private func backUp(_ client: World.Client) throws {
        try client.step { step in
            for table in Self.tables {
                try step.execute("CREATE TABLE kept_\(table) AS SELECT * FROM \(table)")
            }
            try step.execute("CREATE TABLE kept_own AS SELECT next_prekey, next_signed_prekey FROM omemo_own")
        }
    }

    /// Puts them back, as a backup of the whole database would.
    private func putBack(_ client: World.Client) throws {
        try client.step { step in
            for table in Self.tables {
                try step.execute("DELETE FROM \(table)")
                try step.execute("INSERT INTO \(table) SELECT * FROM kept_\(table)")
            }
            try step.execute(
                "UPDATE omemo_own SET (next_prekey, next_signed_prekey) = (SELECT * FROM kept_own)")
            try step.recordCopy()
        }
    }

    @Test("O5 a device that got messages that the backup knows nothing of reads the next ones too, both ways")
    func sending() async throws {
        let (world, a, b) = try World.pairInSession()
        try backUp(a)
        for number in 0..<3 { try a.send("lost \(number)", to: romeo) }
        try world.settle()
        // What came since the backup comes again out of the archive.
        b.sent = []
        try b.send("again", to: juliet)
        try world.settle()
        let again = try #require(b.sent.last)
        #expect(try a.heard() == ["again blind"])
        _ = try b.heard()

        try putBack(a)
        try a.send("three", to: romeo)
        try world.settle()
        try a.send("four", to: romeo)
        try world.settle()
        #expect(try b.heard() == ["three blind", "four blind"])
        try a.step { _ = try $0.execute("DELETE FROM seen_mark") }
        try world.receive(again, a)
        try b.send("five", to: juliet)
        try world.settle()
        let heard = try a.heard()
        #expect(heard == ["again blind", "five blind"])
        try a.send("six", to: romeo)
        try world.settle()
        #expect(try b.heard() == ["six blind"])
        await world.close()
    }

    @Test("O5 a message that comes again in a session from before the backup makes it none for sending")
    func sessionFromBefore() async throws {
        let (world, a, b) = try World.pairInSession()
        try backUp(a)
        b.sent = []
        try b.send("again", to: juliet)
        try world.settle()
        let again = try #require(b.sent.last)
        // The answer starts a chain, of which the backup knows nothing.
        try a.send("lost", to: romeo)
        try world.settle()

        try putBack(a)
        try a.send("begins anew", to: romeo)
        try world.settle()
        try a.step { _ = try $0.execute("DELETE FROM seen_mark") }
        try world.receive(again, a)
        try a.send("goes on", to: romeo)
        try world.settle()
        #expect(try b.heard() == ["lost blind", "begins anew blind", "goes on blind"])
        #expect(try a.heard() == ["again blind", "again blind"])
        // Once both are past it, no more sessions start.
        try b.send("answer", to: juliet)
        try world.settle()
        let records = try a.texts("SELECT count(*) FROM omemo_session WHERE is_old <> 0")
        #expect(records == ["0"])
        await world.close()
    }

    @Test(
        "O5 a session started with a prekey of the backup, which went on since, comes again and is none for sending"
    )
    func sessionUnknownToBackup() async throws {
        let (world, a, b) = try World.pair()
        try backUp(a)
        b.sent = []
        try b.send("again", to: juliet)
        try world.settle()
        let again = try #require(b.sent.first)
        try a.send("lost", to: romeo)
        try world.settle()

        try putBack(a)
        try a.start()
        try world.settle()
        // Put back twice in a row, as with NORMAL by two boots: what was published before can still be used.
        try a.step { try $0.recordCopy() }
        try a.start()
        try world.settle()
        try a.step { _ = try $0.execute("DELETE FROM seen_mark") }
        try world.receive(again, a)
        try a.send("after", to: romeo)
        try world.settle()
        try b.send("answer", to: juliet)
        try world.settle()
        let heard = (a: try a.heard(), b: try b.heard())
        #expect(heard.b == ["lost blind", "after blind"])
        #expect(heard.a == ["again blind", "again blind", "answer blind"])
        let records = try a.texts("SELECT count(*) FROM omemo_session WHERE is_old <> 0")
        #expect(records == ["0"])
        // Both times the keys of before were replaced, and they do not stay for ever.
        let keys = try a.texts(
            "SELECT count(*) FROM omemo_prekey GROUP BY retired_at IS NULL ORDER BY retired_at IS NULL")
        #expect(keys == ["199", "100"])
        world.clock.now += 31 * 24 * 3_600_000
        try a.start()
        let left = try a.texts("SELECT count(*) FROM omemo_prekey WHERE retired_at IS NOT NULL")
        #expect(left == ["0"])
        await world.close()
    }

    @Test("O3 prekeys from before a backup are bounded, however often the database is put back")
    func boundOfRetired() async throws {
        let (world, a, _) = try World.pair()
        for _ in 0..<12 {
            try a.step { try $0.recordCopy() }
            try a.start()
        }
        let keys = try a.texts(
            "SELECT count(*) FROM omemo_prekey GROUP BY retired_at IS NULL ORDER BY retired_at IS NULL")
        #expect(keys == ["1000", "100"])
        await world.close()
    }

    @Test("O2 keys that were published after the backup are replaced on the server by those that are there")
    func keys() async throws {
        let (world, a, b) = try World.pair()
        try backUp(a)
        // Each start takes a prekey, and others are published instead.
        try b.send("one", to: juliet)
        try world.settle()
        _ = try a.heard()
        try a.step { step in
            let own = try #require(try a.omemo.ownDevice.own(in: step))
            try a.omemo.ownDevice.rotateSignedPreKey(own, in: step)
            try a.omemo.publications.raiseRevision(in: step)
        }
        try world.settle()
        let newer = try world.bundle(a, .omemo2)

        try putBack(a)
        try a.start()
        try world.settle()
        let bundle = try world.bundle(a, .omemo2)
        #expect(bundle.signedPreKey.id != newer.signedPreKey.id)
        let c = try world.add("mercutio@verona.lit/a")
        try world.settle()
        try c.send("hello", to: juliet)
        try world.settle()
        #expect(try a.heard() == ["hello blind"])
        await world.close()
    }
}
