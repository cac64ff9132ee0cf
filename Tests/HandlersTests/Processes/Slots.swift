import Foundation
import Handlers
import Synchronization
import Testing
import TestServers

/// A child process on a slot, driven by lines.
final class SlotChild {
    let process: ChildProcess
    /// The answer to being started: "slot N" and what was recovered on the way.
    let greeting: String

    init(_ path: String, _ subcommand: String = "slot") throws {
        process = try ChildProcess(
            BuiltProduct.path("HandlersTestProgram"), [subcommand, path], input: .pipe, output: .pipe)
        greeting = try process.output?.readLine(deadline: .now + .seconds(60)) ?? ""
    }

    var slot: Int { greeting.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? -1 }

    /// Sends one command and returns the answer.
    @discardableResult
    func tell(_ command: String) throws -> String {
        try process.write(command + "\n")
        return try #require(try process.output?.readLine(deadline: .now + .seconds(60)))
    }

    func kill() { process.killAndWait() }
}

/// A slot in this process; what was recovered on the way is dropped.
func occupy(_ path: String) throws -> ProcessSlot {
    try ProcessSlot(path: path) { (_, _) throws(HandlerError) in }
}

/// Makes the slot file and recovers all its slots, so that only what comes afterwards is found.
func prepareSlots(_ path: String) throws {
    let slot = try occupy(path)
    slot.recoverDead { _, _ in }
    slot.leave()
}

/// One recovered slot.
struct Found: Hashable {
    let slot: Int
    let runningCall: RunningCall?
}

extension ProcessSlot {
    /// Watches the other stores on a thread of its own, apart from those of other tests.
    func watchOthers(_ changed: @escaping @Sendable () -> Void) throws -> any ProcessWatch {
        try watchOthers(OwnThreads(), changed)
    }

    /// Recovers every dead slot and says which.
    func found() -> [Found] {
        var found: [Found] = []
        recoverDead { found.append(Found(slot: $0, runningCall: $1)) }
        return found
    }
}

/// Gives each loop a thread of its own, also those that could share one.
private struct OwnThreads: LoopDriver {
    func start(
        _ name: String, blocksSignals: Bool, _ make: @escaping @Sendable () -> any DrivenLoop
    ) throws(HandlerError) -> any RunningLoop {
        try ThreadDriver().start(name, blocksSignals: blocksSignals, make)
    }
}

/// Counts calls, and lets a thread wait for the first.
final class Bell: Sendable {
    let rung = DispatchSemaphore(value: 0)
    private let total = Atomic<Int>(0)

    var count: Int { total.load(ordering: .sequentiallyConsistent) }

    /// Forgets the calls so far.
    func reset() {
        while rung.wait(timeout: .now()) == .success {}
        total.store(0, ordering: .sequentiallyConsistent)
    }

    func ring() {
        total.add(1, ordering: .sequentiallyConsistent)
        rung.signal()
    }

    /// Waits for one call that nobody has waited for; false when none comes within a minute.
    func wait() -> Bool { rung.wait(timeout: .now() + 60) == .success }
}
