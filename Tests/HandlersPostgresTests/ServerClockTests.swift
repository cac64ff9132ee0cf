@testable import Handlers
import TestServers
import TestSupport
import TestThreads
import Testing

@testable import HandlersPostgres

/// Machines whose clocks differ.
@Suite(.ownThread, .timeLimit(.minutes(3))) struct ServerClockTests {
    /// A clock that is wrong by so many seconds.
    private func clock(wrongBy seconds: Int64) -> ServerClock {
        ServerClock(machine: { TimeSource.systemWall() + .seconds(seconds) })
    }

    private func open(
        _ database: TestDatabase, wrongBy seconds: Int64, log: HandlerLog? = nil, time: TimeSource = .system
    ) throws -> HandlerStore {
        var settings = try PostgresSettings(database.connection(), durability: .onPrimary)
        settings.clock = clock(wrongBy: seconds)
        return try HandlerStore(
            settings, registry: HandlerRegistry([Note.self, Remark.self]), schemas: [notes], role: .main,
            time: time, log: log)
    }

    private func isNow(_ time: Timestamp) -> Bool {
        abs(time.milliseconds - TimeSource.systemWall().milliseconds) < 1000
    }

    @Test("G6 a machine whose clock is ahead calls no timer before its time by the server's clock")
    func due() throws {
        let database = try PostgresServer.shared.makeDatabase()
        let (right, ahead) = (try openStore(database), try open(database, wrongBy: 300))
        try right.step { _ = try $0.schedule(Remark(text: "late").durable, after: .seconds(60)) }
        try ahead.step { _ = try $0.schedule(Remark(text: "now").durable, after: .zero) }
        let runners = try [HandlerRunner(ahead), HandlerRunner(right)]
        for runner in runners {
            try runner.runDue()
            runner.close()
        }
        #expect(try right.texts() == ["now"])
        for now in [try ahead.step { $0.now }, try ahead.read { $0.now }] { #expect(isNow(now)) }
    }

    @Test(
        "G6 a machine whose clock differs from the server's by more than a second is reported, in the log and to readers",
        arguments: [0, 300, -300])
    func reported(seconds: Int64) throws {
        let database = try PostgresServer.shared.makeDatabase()
        let lines = LogLines()
        let store = try open(database, wrongBy: seconds, log: lines.log)
        let found = lines.with("the clock of this machine is")
        #expect(found.count == (seconds == 0 ? 0 : 1), "\(found)")
        if seconds != 0 {
            let words = "300 s \(seconds > 0 ? "ahead of" : "behind") that of the server"
            let isSaid = found.first?.contains(words) == true || found.first?.contains("299 s") == true
            #expect(isSaid, "\(found)")
        }
        let reader = try StoreReader(postgres: database.connection())
        let known = try reader.read { try reader.processes(in: $0).first?.clockAhead }
        #expect(known.map { abs($0 - seconds * 1000) < 900 } == true)
        withExtendedLifetime(store) {}
    }

    @Test("G6 the ages that a reader shows are by the server's clock")
    func reader() throws {
        let database = try PostgresServer.shared.makeDatabase()
        let store = try openStore(database)
        var settings = try PostgresSettings(database.connection(), durability: nil)
        settings.clock = clock(wrongBy: 300)
        let now = try StoreReader(settings, schemas: [], time: .system).read { $0.now }
        #expect(isNow(now))
        withExtendedLifetime(store) {}
    }

    @Test("G6 a wall clock that a program has made itself stays its own")
    func own() throws {
        let database = try PostgresServer.shared.makeDatabase()
        let time = TimeSource(wall: { Timestamp(milliseconds: 4711) })
        let store = try open(database, wrongBy: 0, time: time)
        #expect(try store.step { $0.now } == Timestamp(milliseconds: 4711))
    }

    @Test("G6 a look at the server that what is known explains changes nothing, and another one does")
    func looks() {
        let clock = clock(wrongBy: 0)
        #expect(isNow(clock.now) && abs(clock.ahead) < 1000 && clock.complaint("a") == nil)
        let start = ServerClock.monotonic
        clock.adopt(1_000_000, between: start - 10, and: start)
        let first = clock.now.milliseconds
        #expect((1_000_005...1_000_900).contains(first))
        // Half of what it took, and the noise.
        clock.adopt(1_000_000 + 50, between: start - 100, and: start + 90)
        #expect(clock.now.milliseconds - first < 45)
        clock.adopt(2_000_000, between: start, and: start)
        #expect((2_000_000...2_000_900).contains(clock.now.milliseconds))
        #expect(clock.ahead > 1000 && clock.complaint("a")?.contains("ahead of") == true)
    }
}
