import Foundation
import Handlers
import Synchronization
import Testing
import TestServers

/// A child process on a seat, driven by lines.
final class SeatedChild {
    let process: ChildProcess
    /// The answer to being started: "seat N" and what was recovered on the way.
    let greeting: String

    init(_ path: String, _ subcommand: String = "seat") throws {
        process = try ChildProcess(
            BuiltProduct.path("HandlersTestProgram"), [subcommand, path], input: .pipe, output: .pipe)
        greeting = try process.output?.readLine(deadline: .now + .seconds(60)) ?? ""
    }

    var seat: Int { greeting.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? -1 }

    /// Sends one command and returns the answer.
    @discardableResult
    func tell(_ command: String) throws -> String {
        try process.write(command + "\n")
        return try #require(try process.output?.readLine(deadline: .now + .seconds(60)))
    }

    func kill() { process.killAndWait() }
}

/// A seat in this process; what was recovered on the way is dropped.
func sitDown(_ path: String) throws -> ProcessSlot {
    try ProcessSlot(path: path) { (_, _) throws(HandlerError) in }
}

/// Makes the seat file and recovers all its seats, so that only what comes afterwards is found.
func prepareSeats(_ path: String) throws {
    let slot = try sitDown(path)
    slot.recoverDead { _, _ in }
    slot.leave()
}

/// One recovered seat.
struct Found: Hashable {
    let seat: Int
    let mark: Mark?
}

extension ProcessSlot {
    /// Recovers every dead seat and says which.
    func found() -> [Found] {
        var found: [Found] = []
        recoverDead { found.append(Found(seat: $0, mark: $1)) }
        return found
    }
}

/// Counts calls, and lets a thread wait for the first.
final class Bell: Sendable {
    private let rung = DispatchSemaphore(value: 0)
    private let total = Atomic<Int>(0)

    var count: Int { total.load(ordering: .sequentiallyConsistent) }

    func ring() {
        total.add(1, ordering: .sequentiallyConsistent)
        rung.signal()
    }

    /// Waits for one call that nobody has waited for; false when none comes within a minute.
    func wait() -> Bool { rung.wait(timeout: .now() + 60) == .success }
}
