import Handlers
import TestSupport
import TestThreads
import Testing

@Suite(.ownThread, .timeLimit(.minutes(10)))
struct BuiltInFaultTests {
    @Test(
        "Z6 the world finds a fault that is built into the shipped code",
        arguments: [
            (BuiltInFault.ackTooHigh, 1, "were sent|is not stored"), (.shareLease, 1, "at the same time"),
            (.runBoth, 1, "ended twice"), (.earlyTimer, 1, "before its time"),
            (.resendAcknowledged, 1, "was sent twice"), (.staleLists, 1, "at the server"),
            (.repeatItems, 1, "was stored twice"),
            (.crowdLane, 59, "of a lane run at the same time"), (.forgetOrder, 160, "later in its lane"),
            (.forgetChain, 21, "(chain) never ended"),
            (.trustLog, 40, "is not in the store|is older than what was sent"),
        ])
    func finds(fault: BuiltInFault, seed: Int, sentence: String) throws {
        let ending = try ProgramEnding(
            of: "pushwake-world", ["--seed", "\(seed)", "--worlds", "10", "--fault", fault.rawValue],
            within: .seconds(120))
        let isFound = sentence.split(separator: "|").contains { ending.output.contains($0) }
        #expect(ending.status == 1 && isFound, "\(ending)")
        #expect(ending.output.contains("--fault \(fault.rawValue) --trace"), "\(ending)")
    }

    @Test("Z6 a fault that does not exist is refused, with the names of those that do")
    func unknown() throws {
        let ending = try ProgramEnding(of: "pushwake-world", ["--fault", "none-such"])
        #expect(ending.status == 64 && ending.complaint.contains("ack-too-high"), "\(ending)")
    }
}
