@testable import Handlers
import FoundationEssentials
import Glibc
import Platform
import Synchronization
import TestServers
import TestSupport
import TestThreads
import Testing

@testable import HandlersPostgres

/// Notifications of others.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct NotificationTests {
    private final class Listener: Sendable {}

    /// Waits for what others do meanwhile.
    private static func eventually(_ isTrue: () throws -> Bool) throws {
        try #require(try becomesTrue(before: .now + .seconds(40), isTrue))
    }

    /// Lends a store that counts how often it is woken.
    private func withListener(
        _ scene: RoleScene, _ body: (HandlerStore, _ calls: () -> Int) throws -> Void
    ) throws {
        let store = try scene.open()
        let calls = Atomic<Int>(0)
        let listener = Listener()
        store.addNeighborListener(listener) { calls.add(1, ordering: .relaxed) }
        try store.watchChanges()
        try body(store) { calls.load(ordering: .relaxed) }
        withExtendedLifetime(listener) {}
    }

    @Test(
        "G5 a flood of notifications of other roles wakes no store, and costs it less than a twentieth of a processor"
    )
    func flood() throws {
        let scene = try RoleScene()
        let program = try ChildProcess(
            BuiltProduct.path("NodeTestProgram"), [scene.settings(scene.owner), "wait"], input: .pipe,
            output: .pipe)
        _ = try program.output?.readLine(deadline: .now + .seconds(40)) { $0 == "begun" }
        let guest = try scene.connectGuest()
        let (before, start) = (try Self.ticks(program.processID), ContinuousClock.now)
        while start.duration(to: .now) < .seconds(4) {
            try guest.executeOnce(
                """
                SELECT pg_notify(channel, repeat('x', 7000) || n)
                FROM generate_series(1, 500) AS n, unnest(ARRAY['durable_handlers', 'step_lock']) AS channel
                """)
        }
        let took = start.duration(to: .now)
        let share =
            Double(try Self.ticks(program.processID) - before) / Double(sysconf(Int32(_SC_CLK_TCK)))
            / (Double(took.components.seconds) + 1)
        #expect(share < 0.05, "\(share)")
        program.killAndWait()
    }

    /// The processor time that a process has taken, in ticks.
    private static func ticks(_ process: Int32) throws -> Int {
        let text = try String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)
        let words = text.split(separator: ")").last?.split(separator: " ") ?? []
        return (Int(words[11]) ?? 0) + (Int(words[12]) ?? 0)
    }

    @Test("G5 many notifications of other nodes wake a store a few times, the first at once")
    func many() throws {
        let scene = try RoleScene()
        try withListener(scene) { store, calls in
            let channel = try scene.database.query("SELECT channel FROM \(scene.owner).step_lock")
            #expect(channel.hasPrefix("durable_handlers_") && channel.count == 49)
            let owner = PostgresConnection(
                try PostgresSettings(scene.settings(scene.owner), durability: nil), isReader: false)
            let (before, start) = (calls(), ContinuousClock.now)
            for number in 0..<1000 {
                try owner.executeOnce("SELECT pg_notify(?, ?)", [channel, "\(1000 + number)"])
            }
            let isThere = becomesTrue(before: .now + .seconds(20)) { store.notificationsByOthers == 1000 }
            #expect(isThere)
            // One in 20 ms at most, and those that come without a notification.
            let most = Int(start.duration(to: .now) / .milliseconds(20)) + 10
            #expect((1...most).contains(calls() - before), "\(calls() - before)")
        }
    }

    @Test("G5 a commit with work for others wakes them, and its own store is not woken")
    func wakes() throws {
        let database = try PostgresServer.shared.makeDatabase()
        let (first, second) = (try openStore(database), try openStore(database))
        let calls = Atomic<Int>(0)
        let listener = Listener()
        second.addNeighborListener(listener) { calls.add(1, ordering: .relaxed) }
        try second.watchChanges()
        // Its own are no news; that of the first comes after them.
        second.notifyOthers()
        try Self.eventually { first.notificationsByOthers == 1 }
        first.notifyOthers()
        try Self.eventually { second.notificationsByOthers == 1 }
        try Self.eventually { calls.load(ordering: .relaxed) > 0 }
        withExtendedLifetime((listener, database)) {}
    }
}
