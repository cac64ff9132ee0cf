import TestSupport
import TestThreads
import Testing

/// `pushwake omemo world`: OMEMO in simulated worlds.
@Suite(.ownThread, .timeLimit(.minutes(3))) struct OmemoWorldTests {
    @Test("Z1 keys and ciphertexts of a world follow from its seed, whatever surrounds the process")
    func digest() throws {
        func world(_ seed: String, _ environment: [String: String] = [:]) throws -> ProgramEnding {
            let words = ["world", "--seed", seed, "--lives", "32", "--trace"]
            return try ProgramEnding(of: "pushwake-omemo", words, environment: environment)
        }
        func secrets(_ ending: ProgramEnding) -> [Substring] {
            ending.output.split(separator: "\n").filter { $0.contains(" secret ") }
        }
        let first = try world("2")
        let again = try world(
            "2", ["TZ": "Asia/Tokyo", "PADDING": String(repeating: "x", count: 5000)])
        let other = try world("3")
        #expect(first.status == 0 && other.status == 0, "\(first)")
        #expect(secrets(first).count > 10 && !secrets(other).isEmpty)
        #expect(secrets(first) == secrets(again))
        #expect(Set(secrets(first)).isDisjoint(with: secrets(other)))
        let pattern = /digest ([0-9a-f]+)/
        let digest = try #require(first.output.firstMatch(of: pattern)?.1)
        #expect(again.output.firstMatch(of: pattern)?.1 == digest)
    }

    @Test(
        "Z8 no message is lost, repeated or unreadable, and no key is used twice, in worlds that no run has seen before"
    )
    func freshSeeds() throws {
        let ending = try ProgramEnding(
            of: "pushwake-omemo", ["world", "--seconds", "4"], within: .seconds(150))
        #expect(ending.status == 0, "\(ending)")
    }

    @Test("Z8 a ratchet that commits without its message is found")
    func ratchetApart() throws {
        let words = ["world", "--seed", "1", "--worlds", "20", "--lives", "20", "--fault", "ratchet-apart"]
        let ending = try ProgramEnding(of: "pushwake-omemo", words, within: .seconds(150))
        #expect(ending.status == 1, "\(ending)")
        // The message is lost, or comes again after later ones.
        #expect(
            ending.output.contains("is not stored") || ending.output.contains("was stored after"), "\(ending)"
        )
        #expect(ending.output.contains("pushwake omemo world --seed"), "\(ending)")
    }
}
