import Handlers
import HandlersTestKit

/// A program of a workflow: each of its nodes runs at most once, and its number is a part of what it writes.
indirect enum RandomProgram: Sendable {
    case step(Int)
    case fail(Int)
    case call(Int)
    case wait(Int)
    case sequence([RandomProgram])
    /// In the order in which they end.
    case group([RandomProgram])
    case pair(RandomProgram, RandomProgram)
    /// The first counts, and the others are canceled.
    case race([RandomProgram])
    case attempt(Int, RandomProgram)

    init(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var number = 0
        let parts = (0..<4).map { _ in RandomProgram(&random, depth: 3, &number) }
        self = .attempt(-1, .sequence(parts))
    }

    private init(_ random: inout SeededGenerator, depth: Int, _ number: inout Int) {
        func some(_ random: inout SeededGenerator) -> [RandomProgram] {
            (0...Int.random(in: 0...3, using: &random)).map { _ in
                RandomProgram(&random, depth: depth - 1, &number)
            }
        }
        number += 1
        let own = number
        switch Int.random(in: 0..<(depth == 0 ? 6 : 14), using: &random) {
        case 0, 1: self = .step(own)
        case 2: self = .call(own)
        case 3, 4: self = .wait(own)
        case 5: self = Int.random(in: 0..<4, using: &random) == 0 ? .fail(own) : .wait(own)
        case 6, 7, 8: self = .sequence(some(&random))
        case 9: self = .group(some(&random))
        case 10, 11:
            self = .pair(
                RandomProgram(&random, depth: depth - 1, &number),
                RandomProgram(&random, depth: depth - 1, &number))
        case 12: self = .race(some(&random))
        default: self = .attempt(own, .sequence(some(&random)))
        }
    }

    func run(_ flow: Flow, seed: UInt64) async throws -> Int {
        switch self {
        case .step(let number):
            return try await flow.step("s\(number)") { try $0.note("s\(number)", of: seed) }
        case .fail(let number):
            return try await flow.step("f\(number)") { (_) throws -> Int in throw Boom() }
        case .call(let number): return try await flow.run(Twice(number: number).durable, as: Int.self)
        case .wait(let number):
            return try await flow.signal("\(seed)-\(number)", as: Int.self) ?? -1
        case .sequence(let all):
            var sum = 1
            for program in all { sum = sum &* 31 &+ (try await program.run(flow, seed: seed)) }
            return sum
        case .group(let all):
            return try await withThrowingTaskGroup(of: Int.self) { group in
                for program in all { group.addTask { try await program.run(flow, seed: seed) } }
                var sum = 3
                for try await value in group { sum = sum &* 37 &+ value }
                return sum
            }
        case .pair(let one, let other):
            async let first = one.run(flow, seed: seed)
            async let second = other.run(flow, seed: seed)
            return try await first &* 41 &+ second
        case .race(let all):
            return try await withThrowingTaskGroup(of: Int.self) { group in
                for program in all { group.addTask { try await program.run(flow, seed: seed) } }
                defer { group.cancelAll() }
                return try await group.next() ?? 0
            }
        case .attempt(let number, let program):
            do { return try await program.run(flow, seed: seed) } catch {
                let word = error is CancellationError ? "canceled" : "failed"
                try await flow.step("\(word) \(number)") { try $0.note("\(word) \(number)", of: seed) }
                return -number
            }
        }
    }
}

struct Boom: Error {}

/// Runs a random program.
struct Randomly: Workflow {
    static let id = "flow.random"
    static let retry = RetryPolicy(attempts: 1_000_000, firstDelay: .zero, factor: 1)
    var seed: UInt64

    func run(_ flow: Flow) async throws -> Int {
        try await RandomProgram(seed: seed).run(flow, seed: seed)
    }
}

struct Twice: Handler {
    static let id = "flow.twice"
    static let retry = RetryPolicy(attempts: 1_000_000, firstDelay: .zero, factor: 1)
    var number: Int
    func run(_ call: borrowing Call<TimerFired>) throws { try call.setResult(number * 2) }
}

let effects = Schema(
    module: "effects",
    migrations: [
        """
        CREATE TABLE effect(id INTEGER PRIMARY KEY, seed INTEGER NOT NULL, text TEXT NOT NULL);
        CREATE INDEX effect_seed ON effect(seed);
        """
    ])

extension Step {
    /// Writes what a workflow does, and returns a number that depends on all that it did before.
    @discardableResult
    func note(_ text: String, of seed: UInt64) throws -> Int {
        try execute("INSERT INTO effect(seed, text) VALUES (?, ?)", Int(seed), text)
        return try first("SELECT count(*) FROM effect WHERE seed = ?", Int(seed)) { Int($0.integer(0)) } ?? 0
    }
}
