import FoundationEssentials
import Glibc
import Simulation
import TestSupport
import TestThreads
import Testing
import TestServers
import XMPPTestKit

/// A worker says when it got how far.
@Suite(.ownThread, .timeLimit(.minutes(5)))
struct WorkerTimingsTests {
    private struct Report: Decodable { let timings: [String: Int64] }

    private static let way = [
        "main", "opened", "owned", "connected", "protected", "resumed", "handled", "drained", "released",
    ]

    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    @Test(
        "W3 a worker says when it got how far, in the order of its way, and says nothing of it unless asked")
    func order() throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        let simulation = SimulationRun(
            .init(rounds: 1, kills: 1, seed: 1), world: world, folder: folder.path,
            program: try BuiltProduct.path("pushwake"), complain: { print($0) })
        try simulation.startMain(untilConnected: true)
        try simulation.killMain()
        // Sent while nobody is there, so that something waits; and only so much that a slow machine comes to an end.
        world.send(20)
        let before = ServerTime.monotonicNanoseconds
        let text = try output(of: simulation.start("worker", ["--timings"]))
        let after = ServerTime.monotonicNanoseconds
        let line = try #require(text.split(separator: "\n").last)
        let marks = try JSONDecoder().decode(Report.self, from: Data(line.utf8)).timings
        #expect(Set(marks.keys) == Set(Self.way))
        #expect(([before] + Self.way.compactMap { marks[$0] } + [after]).isSorted)
        #expect(!(try output(of: simulation.start("worker"))).contains("timings"))
    }

    private func output(of process: ChildProcess) throws -> String {
        let text = try process.output?.readToEnd(deadline: .now + .seconds(60)) ?? ""
        #expect(try process.waitUntilExit(deadline: .now + .seconds(30)).succeeded)
        return text
    }
}

extension [Int64] {
    fileprivate var isSorted: Bool { zip(self, dropFirst()).allSatisfy { $0 <= $1 } }
}
