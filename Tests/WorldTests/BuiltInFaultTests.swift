import Handlers
import TestSupport
import TestThreads
import Testing

@Suite(.ownThread, .timeLimit(.minutes(10)))
struct BuiltInFaultTests {
    @Test(
        "Z6 the world finds a fault that is built into the shipped code",
        arguments: [
            (BuiltInFault.ackTooHigh, "were sent"), (.shareLease, "at the same time"),
            (.runBoth, "ended twice"), (.earlyTimer, "before its time"),
            (.resendAcknowledged, "was sent twice"), (.staleLists, "at the server"),
            (.repeatItems, "was stored twice"),
        ])
    func finds(fault: BuiltInFault, sentence: String) throws {
        let ending = try ProgramEnding(
            of: "pushwake-world", ["--seed", "1", "--worlds", "10", "--fault", fault.rawValue],
            within: .seconds(120))
        #expect(ending.status == 1 && ending.output.contains(sentence), "\(ending)")
        #expect(ending.output.contains("--fault \(fault.rawValue) --trace"), "\(ending)")
    }

    @Test("Z6 a fault that does not exist is refused, with the names of those that do")
    func unknown() throws {
        let ending = try ProgramEnding(of: "pushwake-world", ["--fault", "none-such"])
        #expect(ending.status == 64 && ending.complaint.contains("ack-too-high"), "\(ending)")
    }
}
