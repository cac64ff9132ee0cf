import TestServers
import TestThreads
import Testing

/// The short form of `make fleet`.
@Suite(.ownThread, .timeLimit(.minutes(6))) struct FleetTests {
    @Test(
        "G7 machines that share accounts are killed, frozen and cut off, and primaries are killed: nothing is lost or repeated, and no fenced one commits"
    )
    func fleet() throws {
        let program = try ChildProcess(
            BuiltProduct.path("fleet-proof"),
            [
                "--seconds", "40", "--machines", "3", "--accounts", "60", "--rate", "60", "--calm", "5",
            ], output: .pipe)
        let words = try program.output?.readToEnd(deadline: .now + .seconds(330)) ?? ""
        let ending = try program.waitUntilExit(deadline: .now + .seconds(10))
        #expect(ending.succeeded, "\(words)")
        #expect(words.contains("nothing lost, nothing repeated"))
    }
}
