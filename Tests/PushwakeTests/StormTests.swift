import Foundation
import Handlers
import Simulation
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPModules
import TestServers

/// A login after a long absence, small enough for every day; `pushwake storm` is the whole one.
@Suite(.ownThread, .timeLimit(.minutes(5)))
struct StormTests {
    /// How much more memory a large storm may take than a small one, in KiB.
    private static let growth = 4 << 10
    /// Behind how many messages the user's own may be: some pages of what is asked for.
    private static let behind = 2500

    private func storm(messages: Int, roomMessages: Int, kills: Int) throws -> StormVerdict {
        let folder = try TemporaryFolder()
        let child = try ChildProcess(
            BuiltProduct.path("pushwake"),
            [
                "storm", "--messages", "\(messages)", "--rooms", "5", "--room-messages", "\(roomMessages)",
                "--kills", "\(kills)", "--seed", "11", "--json", "--keep", folder.path,
            ], output: .pipe)
        let output = try #require(try child.output?.readToEnd(deadline: .now + .seconds(200)))
        try child.waitUntilExit(deadline: .now + .seconds(20))
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return try decoder.decode(StormVerdict.self, from: Data(output.utf8))
    }

    @Test(
        "X17 X13 a client that is killed in a storm has each message once and in order, takes no more memory than in a small one, and its user's own messages get through meanwhile"
    )
    func killedInTheStorm() throws {
        let verdict = try storm(messages: 6000, roomMessages: 3000, kills: 4)
        #expect(verdict.finished)
        #expect(verdict.kills == 4)
        #expect(verdict.received == 9000)
        #expect(verdict.lost == 0)
        #expect(verdict.repeated == 0)
        #expect(verdict.outOfOrder == 0)
        #expect(verdict.own > 0)
        #expect(verdict.ownWrong == 0)
        #expect(verdict.ownBehind < Self.behind)
        // The whole storm holds the release build to a phone's 24 MiB.
        let small = try storm(messages: 300, roomMessages: 300, kills: 0)
        #expect(small.finished && small.peakKib > 0)
        #expect(
            verdict.peakKib <= small.peakKib + Self.growth,
            "\(verdict.peakKib) KiB, \(small.peakKib) KiB in a small one")
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
                try step.execute("INSERT INTO storm_sent(stanza_id, stormed) VALUES (?, 1)", id)
                try step.execute(
                    """
                    INSERT INTO delivery(account, stanza_id, peer, recipient, sent_at, acknowledged_at, delivered_at, tries,
                        wait) VALUES (1, ?1, 'p', 'p', 1000, 4000, nullif(?2, 0), 1, 1)
                    """, id, delivered)
                for _ in 0..<told {
                    try step.execute(
                        "INSERT INTO storm_ended(stanza_id, delivered, stormed) VALUES (?, 1, 5)", id)
                }
            }
        }
        var verdict = StormVerdict(seed: 1)
        verdict.finished = true
        verdict.withinMemory = true
        try verdict.count(store: path, expected: ["direct": 5])
        #expect(verdict.lost == 1)
        #expect(verdict.repeated == 1)
        #expect(verdict.outOfOrder == 1)
        #expect(verdict.ownWrong == 2)
        #expect(verdict.ownP99Ms == 3000)
        #expect(verdict.ownBehind == 4)
        #expect(!verdict.isGood)
    }
}
