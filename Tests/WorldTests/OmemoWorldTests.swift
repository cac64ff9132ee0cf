import TestSupport
import TestThreads
import Testing

/// `pushwake omemo world`: OMEMO in simulated worlds.
@Suite(.ownThread, .timeLimit(.minutes(3))) struct OmemoWorldTests {
    @Test("Z1 keys and ciphertexts of a world follow from its seed, whatever surrounds the process")
    func digest() throws {
        func world(_ seed: String, _ environment: [String: String] = [:]) throws -> ProgramEnding {
            let words = ["world", "--seed", seed, "--worlds", "2", "--lives", "8", "--trace"]
            return try ProgramEnding(of: "pushwake-omemo", words, environment: environment)
        }
        func secrets(_ ending: ProgramEnding) -> [Substring] {
            ending.output.split(separator: "\n").filter { $0.contains(" secret ") }
        }
        let first = try world("1")
        let again = try world(
            "1", ["TZ": "Asia/Tokyo", "PADDING": String(repeating: "x", count: 5000)])
        let other = try world("3")
        #expect(first.status == 0 && other.status == 0, "\(first)")
        #expect(secrets(first).count > 10 && !secrets(other).isEmpty)
        #expect(secrets(first) == secrets(again))
        #expect(Set(secrets(first)).isDisjoint(with: secrets(other)))
        let pattern = /digest ([0-9a-f]+)/
        let digest = try #require(first.output.firstMatch(of: pattern)?.1)
        #expect(again.output.firstMatch(of: pattern)?.1 == digest)
    }
}
