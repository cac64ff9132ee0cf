import TestSupport
import TestThreads
import Testing

@testable import XMPPAccount

/// How many streams are opened at the same time, of one server and of all.
@Suite(.ownThread, .timeLimit(.minutes(1))) struct OpeningGateTests {
    private func server(_ number: Int = 0) -> ServerPlace { .domain("d\(number).test") }

    @Test(
        "A4 as many streams as are allowed are opened at the same time, and a canceled wait leaves its place")
    func limit() async throws {
        let gate = OpeningGate(2)
        try await gate.enter(server())
        try await gate.enter(server())
        let canceled = Task { try await gate.enter(server()) }
        try await eventually("it waits") { gate.count(of: server()).waiting == 1 }
        let entered = Kept<[Int]>([])
        var tasks: [Task<Void, any Error>] = []
        for number in 0..<3 {
            tasks.append(
                Task {
                    try await gate.enter(server())
                    entered.withLock { $0.append(number) }
                })
            try await eventually("it waits") { gate.count(of: server()).waiting == 2 + number }
        }
        canceled.cancel()
        await #expect(throws: CancellationError.self) { try await canceled.value }
        #expect(entered.withLock { $0.isEmpty })
        for (number, task) in tasks.enumerated() {
            gate.leave(server())
            try await task.value
            #expect(entered.withLock { $0 } == Array(0...number), "in the order in which they came")
        }
    }

    @Test("A4 a server whose openings do not end takes its own places, and those of others are free")
    func others() async throws {
        let gate = OpeningGate(2)
        for _ in 0..<2 { try await gate.enter(server()) }
        let waiting = Task { try await gate.enter(server()) }
        try await eventually("it waits") { gate.count(of: server()).waiting == 1 }
        for number in 1..<OpeningGate.servers { try await gate.enter(server(number)) }
        #expect(gate.count(of: server()) == (2, 1))
        gate.leave(server())
        try await waiting.value
    }

    @Test("A4 where places are few, a server takes half of them at most, and the next one half of the rest")
    func few() async throws {
        let gate = OpeningGate(16, total: 16)
        var tasks: [Task<Void, any Error>] = []
        for number in 0..<4 {
            for _ in 0..<16 { tasks.append(Task { try await gate.enter(server(number)) }) }
            try await eventually("they are in or wait") {
                let count = gate.count(of: server(number))
                return count.inside + count.waiting == 16
            }
        }
        #expect((0..<4).map { gate.count(of: server($0)).inside } == [8, 4, 2, 1])
        // One more server still gets in.
        try await gate.enter(server(4))
        // Each place that becomes free is taken by a server that has fewer than are left.
        for _ in 0..<4 { gate.leave(server(0)) }
        try await eventually("others are in") {
            (1..<4).reduce(0) { $0 + gate.count(of: server($1)).inside } > 7
        }
        for task in tasks { task.cancel() }
        for task in tasks { _ = await task.result }
        #expect((0..<4).allSatisfy { gate.count(of: server($0)).waiting == 0 })
    }

    @Test("A4 servers whose accounts wait are let in by turns")
    func turns() async throws {
        let gate = OpeningGate(1, total: 1)
        try await gate.enter(server(9))
        let order = Kept<[Int]>([])
        var tasks: [Task<Void, any Error>] = []
        for number in [0, 0, 1, 2, 1] {
            let before = gate.count(of: server(number)).waiting
            tasks.append(
                Task {
                    try await gate.enter(server(number))
                    order.withLock { $0.append(number) }
                    gate.leave(server(number))
                })
            try await eventually("it waits") { gate.count(of: server(number)).waiting == before + 1 }
        }
        gate.leave(server(9))
        for task in tasks { try await task.value }
        #expect(order.withLock { $0 } == [0, 1, 2, 0, 1])
    }

    @Test("A4 a place that is free again lets in all that may enter then")
    func both() async throws {
        let gate = OpeningGate(2, total: 3)
        for number in [0, 1] { try await gate.enter(server(number)) }
        var tasks: [Task<Void, any Error>] = []
        for number in [1, 0] {
            tasks.append(Task { try await gate.enter(server(number)) })
            try await eventually("it waits") { gate.count(of: server(number)) == (1, 1) }
        }
        gate.leave(server(0))
        #expect(gate.count(of: server(1)) == (2, 0) && gate.count(of: server(0)) == (1, 0))
        for task in tasks { task.cancel() }
        for task in tasks { _ = await task.result }
    }

    @Test("A4 more places for all let in those that wait for them, and at least one server has its own")
    func total() async throws {
        let gate = OpeningGate(2, total: 2)
        try await gate.enter(server(0))
        let waiting = [0, 1, 1].map { number in Task { try await gate.enter(server(number)) } }
        try await eventually("they are in or wait") {
            let counts = [0, 1].map { gate.count(of: server($0)) }
            return counts.reduce(0) { $0 + $1.inside + $1.waiting } == 4
        }
        #expect(gate.count(of: server(1)).inside <= 1)
        gate.setTotal(1000)
        for task in waiting { try await task.value }
        #expect(gate.count(of: server(0)).inside == 2 && gate.count(of: server(1)).inside == 2)
        gate.setTotal(0)
        let more = Task { try await gate.enter(server(2)) }
        try await eventually("it waits") { gate.count(of: server(2)).waiting == 1 }
        for number in [0, 0, 1] { gate.leave(server(number)) }
        try await more.value
    }
}
