import HandlersTestKit
import TestThreads
import Testing

@testable import Handlers

/// Returns more than a store keeps of a result.
private struct Big: Workflow {
    static let id = "flow-result.big"
    func run(_ flow: Flow) async throws -> String {
        try await flow.compensate(with: Regret().durable)
        return String(repeating: "x", count: 65_536)
    }
}

private struct NotANumber: Workflow {
    static let id = "flow-result.not-a-number"
    func run(_ flow: Flow) async throws -> Double { .nan }
}

private struct Regret: Handler {
    static let id = "flow-result.regret"
    func run(_ call: borrowing Call<Invalidation>) throws {
        try call.step.note("compensated: \(call.reason)")
    }
}

private struct Parent: Workflow {
    static let id = "flow-result.parent"
    func run(_ flow: Flow) async throws -> [String] {
        var ends: [String] = []
        do { ends.append(try await flow.run(Big().durable, as: String.self)) } catch { ends.append("failed") }
        do { ends.append("\(try await flow.run(NotANumber().durable, as: Double.self))") } catch {
            ends.append("failed")
        }
        return ends
    }
}

private struct Round: Workflow {
    static let id = "flow-result.round"
    func run(_ flow: Flow) async throws -> Nothing {
        try await flow.sleep(for: .milliseconds(500))
        try await flow.step("note") { try $0.note("round") }
        return Nothing()
    }
}

@Suite(.ownThread, .engines(.sqlite, .postgres)) struct WorkflowResultTests {
    @Test("H31 each call of a periodic workflow is a workflow of its own")
    func periodic() throws {
        try withFolder { folder in
            let rig = try Rig(folder.file(), [Round.self])
            defer { rig.runner.close() }
            let id = try rig.store.step { try $0.schedule(Round().durable, after: .zero, every: .seconds(2)) }
            for _ in 0..<5 {
                while try rig.runner.runDue() == .zero {}
                rig.clock.advance(by: .seconds(1))
            }
            #expect(try rig.store.notes() == ["round", "round"])
            // The third waits for its timer.
            #expect(Set(try rig.handlers().map(\.name)) == [Round.id, FlowWoken.id])
            #expect(try rig.status(of: id)?.dueAt == rig.clock.wall + .seconds(1))
        }
    }

    @Test(
        "H31 a workflow whose result cannot be stored has failed: it is compensated, and its parent goes on")
    func unstorable() throws {
        try withFolder { folder in
            let rig = try Rig(
                folder.file(), [Big.self, NotANumber.self, Regret.self, Parent.self])
            defer { rig.runner.close() }
            let id = try rig.store.step { try $0.start(Parent().durable) }
            while try rig.runner.runDue() == .zero {}
            #expect(try rig.store.keptEnding(of: id)?.result(as: [String].self) == ["failed", "failed"])
            #expect(try rig.store.notes() == ["compensated: failed"])
            #expect(try rig.handlers().isEmpty)
        }
    }
}
