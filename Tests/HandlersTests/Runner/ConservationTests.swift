import Foundation
import Glibc
import Handlers
import TestThreads
import TestSupport
import Testing
import TestServers

/// Two processes, one store, and kills: whatever was created has ended or is still there, and what ended has had its
/// effect once. The handlers stand in Tests/HandlersTestProgram/Work.swift.
@Suite(.serialized, .ownThread, .timeLimit(.minutes(10))) struct ConservationTests {
    private func start(_ words: String..., failpoint: String? = nil) throws -> ChildProcess {
        try ChildProcess(
            BuiltProduct.path("HandlersTestProgram"), words,
            environment: .inheriting(failpoint.map { ["HANDLERS_FAILPOINT": $0] } ?? [:]), output: .pipe)
    }

    private func run(_ words: String..., path: String) throws {
        let child = try start(words[0], path, words.count > 1 ? words[1] : "")
        #expect(try child.waitUntilExit(deadline: .now + .seconds(300)).status == 0, "\(words)")
    }

    /// What the store holds, read by itself.
    private struct Sums: Equatable {
        var created = 0, ended = 0, pending = 0, running = 0, parked = 0, quarantined = 0
        var effects = 0, keys = 0

        init(_ path: String) throws {
            let store = try HandlerStore(path: path, registry: HandlerRegistry())
            func count(_ sql: String) throws -> Int { Int(try store.integer(sql) ?? 0) }
            created = try count("SELECT seq FROM sqlite_sequence WHERE name = 'handler'")
            ended = try count("SELECT count(*) FROM ending")
            pending = try count("SELECT count(*) FROM handler WHERE state = 0")
            running = try count("SELECT count(*) FROM handler WHERE state = 3")
            parked = try count("SELECT count(*) FROM handler WHERE state = 1")
            quarantined = try count("SELECT count(*) FROM handler WHERE state = 2")
            effects = try count("SELECT count(*) FROM effect")
            keys = try count("SELECT count(DISTINCT key) FROM effect")
            #expect(try store.texts("PRAGMA integrity_check") == ["ok"])
        }
    }

    private func expectConserved(_ path: String, _ count: Int, parked: Int? = nil) throws {
        let sums = try Sums(path)
        #expect(
            sums.created == sums.ended + sums.pending + sums.running + sums.parked + sums.quarantined,
            "\(sums)")
        #expect(sums.effects == sums.ended, "\(sums)")
        #expect(sums.keys == sums.effects, "an effect came twice: \(sums)")
        // The standing one, the handlers, and what the chains ran.
        #expect(sums.created == 1 + count + count / 8, "\(sums)")
        #expect(sums.pending == 1 && sums.running == 0, "\(sums)")
        #expect(sums.parked == parked ?? (count / 8) && sums.quarantined == count / 8, "\(sums)")
    }

    @Test(
        "H12 H13 H14 H15 two workers and random kills: what was created is conserved, and had its effect once"
    )
    func twoWorkers() async throws {
        try await withFolder { folder in
            // `make torture` asks for more.
            let variables = ProcessInfo.processInfo.environment
            let count = variables["HANDLERS_COUNT"].flatMap { Int($0) } ?? 20_000
            let kills = variables["HANDLERS_KILLS"].flatMap { Int($0) } ?? 40
            let path = folder.file()
            try run("bind", "\(count)", path: path)
            var workers = [try start("work", path), try start("work", path)]
            var random = SystemRandomNumberGenerator()
            var killed = 0
            while killed < kills {
                try await Task.sleep(for: .milliseconds(.random(in: 5...60, using: &random)))
                let index = Int.random(in: 0...1, using: &random)
                if workers[index].isRunning {
                    workers[index].killAndWait()
                    killed += 1
                }
                // One that was killed, or found nothing left to do.
                workers[index] = try start("work", path)
            }
            for worker in workers {
                #expect(try worker.waitUntilExit(deadline: .now + .seconds(300)).status == 0)
            }
            try expectConserved(path, count)
        }
    }

    /// Where the runtime may be killed while it works on the handlers of this test.
    static let allPlaces: [Failpoint] = [
        .beforeCommit, .afterCommit, .beforeHandler, .afterHandler, .beforeInvalidation, .beforeTimeout,
        .beforeQuarantine, .beforeDue, .afterLease, .beforeClosing,
    ]

    @Test("H13 H14 H15 SIGKILL at each place of the runtime conserves what was created", arguments: allPlaces)
    func places(_ place: Failpoint) throws {
        try withFolder { folder in
            let path = folder.file()
            try run("bind", "80", path: path)
            for nth in 1...3 {
                let child = try start("work", path, failpoint: "\(place.rawValue):kill:\(nth)")
                let ending = try child.waitUntilExit(deadline: .now + .seconds(60))
                #expect(ending.signal == SIGKILL, "never came to \(place.rawValue) for the \(nth). time")
            }
            try run("work", path: path)
            try expectConserved(path, 80)
        }
    }

    @Test("H13 SIGKILL before handlers are requeued leaves them as they were")
    func requeue() throws {
        try withFolder { folder in
            let path = folder.file()
            try run("bind", "80", path: path)
            try run("work", path: path)
            let before = try Sums(path)
            let child = try start("requeue", path, failpoint: "before-requeue:kill:1")
            #expect(try child.waitUntilExit(deadline: .now + .seconds(60)).signal == SIGKILL)
            #expect(try Sums(path) == before)
            try run("requeue", path: path)
            #expect(try Sums(path).quarantined == 0)
            // They fail and are parked again.
            try run("work", path: path)
            try expectConserved(path, 80)
        }
    }

    @Test("H14 a stopped process keeps its leases; once it is killed they are free at once")
    func stopped() throws {
        try withFolder { folder in
            let path = folder.file()
            try run("bind", "80", path: path)
            let store = try HandlerStore(
                path: path, registry: HandlerRegistry(), busyTimeout: .milliseconds(100))
            func leased() throws -> Int64 {
                try store.integer("SELECT count(*) FROM handler WHERE state <> 0 AND state = 3") ?? 0
            }
            let child = try startStopped(path)
            defer { child.killAndWait() }
            let held = try leased()
            #expect(held > 0)
            // Another process comes, and takes nothing from one that lives.
            _ = try HandlerStore(path: path, registry: HandlerRegistry())
            #expect(try leased() == held)
            child.killAndWait()
            // No clock is asked: the next one to come finds the slot free.
            _ = try HandlerStore(path: path, registry: HandlerRegistry())
            #expect(try leased() == 0)
            try run("work", path: path)
            try expectConserved(path, 80)
        }
    }

    /// Its other thread may be inside a transaction when it stops: then it is killed, and the next one is stopped.
    private func startStopped(_ path: String) throws -> ChildProcess {
        for _ in 0..<20 {
            let child = try start("work", path, failpoint: "after-lease:stop:1")
            let end = ContinuousClock.now + .seconds(60)
            while !child.isStopped, ContinuousClock.now < end { usleep(1000) }
            do {
                try HandlerStore(path: path, registry: HandlerRegistry(), busyTimeout: .milliseconds(100))
                    .step { _ in }
                return child
            } catch let error as HandlerError where error.code == .databaseLocked {
                child.killAndWait()
            }
        }
        throw Failure(description: "stopped inside a transaction each time")
    }
}
