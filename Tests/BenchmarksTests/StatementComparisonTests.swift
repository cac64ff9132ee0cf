import TestThreads
import Testing

@testable import benchmarks

/// What the benchmarks of steps are measured against.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct StatementComparisonTests {
    // In a process of its own, because SQLite records what every connection of a process does.
    @Test("H18 the C floor of a step runs the statements of the store, with the settings of the store")
    func sameStatements() async {
        await #expect(processExitsWith: .success) {
            try Workspace.with(in: ".build") { try StatementComparison.check(in: $0) }
        }
    }
}
