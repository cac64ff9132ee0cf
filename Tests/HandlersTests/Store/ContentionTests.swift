import Glibc
import Handlers
import TestThreads
import TestSupport
import Testing

@Suite(.serialized, .ownThread, .engines(.sqlite, .postgres)) struct ContentionTests {
    @Test(
        "H7 two stores on one file from several threads: every handler that was bound ended once or waits",
        .sqliteOnly,
        .timeLimit(.minutes(2)))
    func conservation() async throws {
        try await withFolder { folder in
            let rounds = 60
            let failures = Sink<String>()
            await concurrently(4) { index in
                do {
                    // Opened here, so that the openings meet as well.
                    let store = try openStore(folder.file(), busyTimeout: .seconds(60))
                    for round in 0..<rounds {
                        try store.step { step in
                            try step.bind(Greet(name: "a").durable)
                            try step.bind(Greet(name: "b").durable)
                        }
                        try Self.endOldest(store, failing: round % 5 == index)
                    }
                } catch { failures.append("\(error)") }
            }
            #expect(failures.values == [])
            let store = try openStore(folder.file())
            let waiting = try store.waiting().filter { $0.state == RowState.pending }.count
            let aside = try store.waiting().filter { $0.state == RowState.quarantined }.count
            let ended = try #require(try store.integer("SELECT count(*) FROM ending"))
            let created = try #require(
                try store.integer("SELECT seq FROM sqlite_sequence WHERE name = 'handler'"))
            #expect(created == 4 * Int64(rounds) * 2)
            #expect(Int(created) == Int(ended) + waiting + aside)
            #expect(aside > 0)
            #expect(try store.notes().count == Int(ended), "one effect for each ending")
        }
    }

    /// Ends the oldest pending handler; two threads often choose the same one, and one of them finds it gone.
    private static func endOldest(_ store: HandlerStore, failing: Bool) throws {
        let oldest = try store.step {
            try $0.first("SELECT min(id) FROM handler WHERE state = 0") { $0.optionalInteger(0) } ?? nil
        }
        guard let oldest else { return }
        let reply = Reply { _ in if failing { throw Failure() } }
        do {
            try store.end(HandlerID<Reply>(rawValue: oldest), with: reply)
        } catch let error as HandlerError where error.code == .noSuchHandler {}
    }

    @Test(
        "S7 eight processes that open a new file at once all succeed and find one database", .sqliteOnly,
        .timeLimit(.minutes(2)))
    func concurrentOpens() async throws {
        try await withFolder { folder in
            for round in 0..<3 {
                let path = folder.file("\(round).db")
                await withTaskGroup(of: Void.self) { group in
                    for index in 0..<8 {
                        group.addTask {
                            await #expect(processExitsWith: .success) {
                                [path = path as String, index = index as Int] in
                                // All wait for the last one, so that they open in the same instant.
                                close(open("\(path).ready\(index)", O_CREAT | O_WRONLY, 0o600))
                                while (0..<8).contains(where: { access("\(path).ready\($0)", F_OK) != 0 }) {
                                    usleep(100)
                                }
                                let id = try openStore(path, busyTimeout: .seconds(20)).bind(
                                    Greet(name: "\(index)").durable)
                                // Closing and opening again meets the others' first opening and last closing.
                                _ = try openStore(path, busyTimeout: .seconds(20)).end(id)
                            }
                        }
                    }
                }
                let store = try openStore(path)
                #expect(try store.notes().count == 8)
                #expect(try store.waiting() == [])
                #expect(try store.texts("PRAGMA journal_mode") == ["wal"])
            }
        }
    }

    @Test("S7 many threads that open and close a new file at once all succeed", .timeLimit(.minutes(2)))
    func concurrentOpensInOneProcess() async throws {
        try await withFolder { folder in
            let failures = Sink<String>()
            for round in 0..<3 {
                let barrier = Barrier(8)
                await concurrently(8) { _ in
                    barrier.wait()
                    do {
                        for _ in 0..<5 {
                            try openStore(folder.file("\(round).db"), busyTimeout: .seconds(20))
                                .bind(Count().durable)
                        }
                    } catch { failures.append("\(error)") }
                }
                let store = try openStore(folder.file("\(round).db"))
                #expect(try store.waiting().count == 40)
            }
            #expect(failures.values == [])
        }
    }

    @Test("H7 threads that share one store take turns", .timeLimit(.minutes(3)))
    func oneStore() async throws {
        try await withFolder { folder in
            let store = try openStore(folder.file())
            let id = try store.step { try $0.bindStanding(Count().durable) }
            let failures = Sink<String>()
            await concurrently(4) { _ in
                do {
                    for _ in 0..<50 { try store.step { try $0.call(id, with: Reply()) } }
                } catch { failures.append("\(error)") }
            }
            #expect(failures.values == [])
            #expect(try store.notes().count == 200)
        }
    }
}
