import CWorld
import Foundation
import Handlers
import HandlersTestKit
import World

/// A program whose tasks run when it says so.
///
/// - `WorldTestProgram SEED`: the tasks of three processes, in the order of a seed. The last process is killed after 6 choices.
/// - `WorldTestProgram close FOLDER`: a runner that is closed before the async handler that it leased starts, and a second
///   runner on the same database.
/// - `WorldTestProgram memory FOLDER`: a step for each of SQLite's allocations in it, which fails, and a step of another store
///   after each. The first step throws by itself, too.
@main enum Program {
    private actor Ledger {
        private(set) var lines: [String] = []
        func add(_ line: String) { lines.append(line) }
    }

    nonisolated(unsafe) private static var log: [String] = []
    /// The continuations that wait for the program, with the process.
    nonisolated(unsafe) private static var callers:
        [(SimulatedDisk.Process?, CheckedContinuation<Void, Never>)] = []

    private static func wait() async {
        await withCheckedContinuation { callers.append((WorldTasks.shared.current, $0)) }
    }

    private static func work(_ name: String) async {
        let ledger = Ledger()
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<4 {
                group.addTask {
                    await ledger.add("begin \(number)")
                    await wait()
                    await ledger.add("end \(number)")
                    log.append("\(name)\(number)")
                }
            }
        }
        log.append("\(name) \(await ledger.lines.count)")
    }

    private struct Noted: AsyncHandler {
        static let id = "world.noted"
        /// Long, so that SQLite needs memory to bind it.
        var text = String(repeating: "x", count: 5000)
        func run(_ call: AsyncCall<TimerFired>) async throws { log.append("called, attempt \(call.attempt)") }
    }

    private static func close(in folder: String) throws {
        let tasks = WorldTasks.shared
        let store = try HandlerStore(
            path: folder + "/app.db", registry: HandlerRegistry([Noted.self]), schemas: [], role: .main,
            synchronous: .full, busyTimeout: .seconds(5), time: .system, log: nil,
            system: SystemServices(asyncHandlers: nil))
        _ = try store.step { try $0.schedule(Noted().durable, after: .zero) }
        for name in ["first", "second"] {
            let runner = try HandlerRunner(store)
            try runner.runDue()
            if name == "first" { runner.close() }
            while let job = tasks.ready.first { tasks.run(job) }
            log.append("\(name) done")
            runner.close()
        }
        print(log.joined(separator: ", "))
    }

    private static func runOutOfMemory(in folder: String) throws {
        SimulatedWorld.prepareProcess()
        func open() throws -> HandlerStore {
            try HandlerStore(
                path: folder + "/app.db", registry: HandlerRegistry([Noted.self]), busyTimeout: .zero)
        }
        func write(_ store: HandlerStore) throws {
            _ = try store.step { try $0.schedule(Noted().durable, after: .seconds(3600)) }
        }
        let other = try open()
        try write(other)
        var (number, failures, locked): (Int32, Int, [Int32]) = (0, 0, [])
        var others: [String] = []
        var isDone = false
        while !isDone {
            number += 1
            let store = try open()
            _ = dh_fail_allocation(number)
            do {
                try store.step { step in
                    try step.schedule(Noted().durable, after: .seconds(3600))
                    throw CancellationError()
                }
            } catch is CancellationError {
            } catch {
                failures += 1
                if (error as? HandlerError)?.isStorageFailure != true { others.append("\(error)") }
            }
            isDone = dh_fail_allocation(0) > 0
            // The store that failed lives, and does nothing more.
            withExtendedLifetime(store) {
                do { try write(other) } catch { locked.append(number) }
            }
        }
        print(
            "\(failures > 20 ? "failed" : "\(failures) failures in \(number)"), locked out after \(locked), other errors \(others)"
        )
    }

    static func main() throws {
        if CommandLine.arguments.count == 3 {
            let folder = CommandLine.arguments[2]
            return try CommandLine.arguments[1] == "memory" ? runOutOfMemory(in: folder) : close(in: folder)
        }
        let seed = CommandLine.arguments.dropFirst().first.flatMap(UInt64.init) ?? 0
        var random = SeededGenerator(seed: seed)
        let tasks = WorldTasks.shared
        let disk = SimulatedDisk(seed: seed)
        let processes = ["a", "b", "c"].map(disk.startProcess)
        for process in processes {
            tasks.current = process
            let name = process.name
            Task.detached { await work(name) }
        }
        tasks.current = nil
        var count = 0
        while true {
            if let job = tasks.ready.randomElement(using: &random) {
                tasks.run(job)
            } else if let index = callers.indices.randomElement(using: &random) {
                let (process, continuation) = callers.remove(at: index)
                tasks.current = process
                continuation.resume()
                tasks.current = nil
            } else {
                break
            }
            count += 1
            if count == 6 { disk.kill(processes[2]) }
        }
        print(log.joined(separator: ", "))
    }
}
