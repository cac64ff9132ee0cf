import Handlers
import TestSupport
import TestThreads
import Testing

@Suite(.ownThread, .timeLimit(.minutes(10)))
struct BuiltInFaultTests {
    /// The last line of the worlds of some seeds.
    private func world(_ words: String...) throws -> String {
        let ending = try ProgramEnding(
            of: "WorldTestProgram", ["world"] + words, environment: ["SWIFT_DETERMINISTIC_HASHING": "1"])
        #expect(ending.status == 0, "\(ending)")
        return ending.output.split(separator: "\n").last.map(String.init) ?? ""
    }

    @Test(
        "Z6 the world finds a fault that is built into the shipped code",
        arguments: [
            (BuiltInFault.ackTooHigh, "were sent"), (.shareLease, "at the same time"),
            (.runBoth, "ended twice"), (.earlyTimer, "before its time"),
            (.resendAcknowledged, "was sent twice"),
        ])
    func finds(fault: BuiltInFault, sentence: String) throws {
        let line = try world("1", "10", "20", "fault=\(fault.rawValue)")
        #expect(line.contains(sentence), "the world did not notice \(fault.rawValue): \(line)")
    }

    @Test("Z6 without a fault nothing is wrong in the same worlds")
    func healthy() throws {
        let line = try world("1", "5", "20")
        #expect(line.hasPrefix("seed 5:") && line.hasSuffix(" ok"), "\(line)")
    }
}
