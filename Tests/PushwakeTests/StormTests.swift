import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPTestKit

@testable import pushwake

/// A login after a long absence, small enough for every day; `pushwake storm` is the whole one.
@Suite(.ownThread, .timeLimit(.minutes(5)))
struct StormTests {
    @Test(
        "X17 a client that is killed in a storm has each message once and in order, and its user's own get through"
    )
    func killedInTheStorm() throws {
        let folder = try TemporaryFolder()
        let child = try ChildProcess(
            BuiltProduct.path("pushwake"),
            [
                "storm", "--messages", "6000", "--rooms", "5", "--room-messages", "3000", "--kills", "4",
                "--seed",
                "11", "--json", "--keep", folder.path,
            ], output: .pipe)
        let output = try #require(try child.output?.readToEnd(deadline: .now + .seconds(200)))
        try child.waitUntilExit(deadline: .now + .seconds(20))
        let verdict = try JSONDecoder().decode(StormVerdict.self, from: Data(output.utf8))
        #expect(verdict.isFinished)
        #expect(verdict.kills == 4)
        #expect(verdict.received == 9000)
        #expect(verdict.lost == 0)
        #expect(verdict.repeated == 0)
        #expect(verdict.outOfOrder == 0)
        #expect(verdict.own > 0)
        #expect(verdict.ownWrong == 0)
        // The memory of a debug build says nothing; the release build of the whole storm is held to it.
        #expect(verdict.peakKibibytes > 0)
    }

    @Test("X17 the verdict on a storm can be bad: what is missing, twice or late is counted")
    func badVerdict() throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/store.db"
        let store = try HandlerStore(
            path: path, registry: HandlerRegistry(), schemas: Account.schemas + [StormApp.schema])
        try store.step { step in
            for number in [0, 1, 1, 4, 3] {
                try step.execute("INSERT INTO stormed(place, number) VALUES ('direct', ?)", number)
            }
            // Delivered and told; delivered and told twice; not delivered.
            for (id, delivered, told) in [("a", 1, 1), ("b", 1, 2), ("c", 0, 0)] {
                try step.execute("INSERT INTO storm_sent(stanza_id) VALUES (?)", id)
                try step.execute(
                    """
                    INSERT INTO delivery(account, stanza_id, peer, recipient, sent_at, acknowledged_at, delivered_at, tries,
                        wait) VALUES (1, ?1, 'p', 'p', 1000, 4000, nullif(?2, 0), 1, 1)
                    """, id, delivered)
                for _ in 0..<told {
                    try step.execute("INSERT INTO storm_ended(stanza_id, delivered) VALUES (?, 1)", id)
                }
            }
        }
        var verdict = StormVerdict(seed: 1)
        verdict.isFinished = true
        verdict.isWithinMemory = true
        try verdict.count(store: path, expected: ["direct": 5])
        #expect(verdict.lost == 1)
        #expect(verdict.repeated == 1)
        #expect(verdict.outOfOrder == 1)
        #expect(verdict.ownWrong == 2)
        #expect(verdict.ownP99 == 3000)
        #expect(!verdict.isGood)
    }
}
