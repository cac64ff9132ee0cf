import Foundation
import TestSupport
import TestThreads
import Testing
import World

@testable import WorldCommands

/// `pushwake world`, with seeds that stay and seeds that change.
@Suite(.ownThread, .timeLimit(.minutes(3))) struct WorldCommandTests {
    private func world(_ words: String...) throws -> ProgramEnding { try world(words) }

    private func world(_ words: [String]) throws -> ProgramEnding {
        try ProgramEnding(of: "pushwake-world", words, within: .seconds(120))
    }

    @Test("Z1 the same seed gives the same digest, whatever surrounds the process, and another one does not")
    func digest() throws {
        let words = ["--seed", "1", "--worlds", "2", "--lives", "8"]
        let first = try world(words)
        let again = try ProgramEnding(
            of: "pushwake-world", words,
            environment: ["TZ": "Asia/Tokyo", "PADDING": String(repeating: "x", count: 5000)],
            within: .seconds(120))
        #expect(first.status == 0, "\(first)")
        #expect(first.output.hasPrefix("seeds 1 to 2: no violation in "), "\(first)")
        #expect(first.output.contains("losses of power with synchronous=FULL"), "\(first)")
        let pattern = /digest ([0-9a-f]+)/
        let digest = try #require(first.output.firstMatch(of: pattern)?.1)
        #expect(again.output.firstMatch(of: pattern)?.1 == digest)
        let other = try world(["--seed", "2", "--worlds", "2", "--lives", "8"])
        #expect(other.output.firstMatch(of: pattern)?.1 != digest)
    }

    @Test("Z5 nothing is wrong in worlds of fixed seeds")
    func fixedSeeds() throws {
        let ending = try world("--seed", "100", "--worlds", "6")
        #expect(ending.status == 0, "\(ending)")
    }

    @Test("Z5 nothing is wrong in worlds that no run has seen before")
    func freshSeeds() throws {
        let ending = try world("--seconds", "8")
        #expect(ending.status == 0, "\(ending)")
    }

    @Test("Z2 worlds in which the power cannot fail are skipped if that is wanted")
    func powerLosses() throws {
        let can = (1...10).map { WorldRecipe(seed: $0).canLosePower }
        #expect(can.contains(true) && can.contains(false))
        let first = try #require(can.firstIndex(of: false)) + 1
        let next = try #require(can[first...].firstIndex(of: true)) + 1
        let words = ["--seed", "\(first)", "--lives", "3", "--worlds", "1"]
        let ending = try world(words + ["--power-losses"])
        let expected = try world(["--seed", "\(next)", "--lives", "3", "--worlds", "1"])
        let digest = /digest [0-9a-f]+/
        #expect(
            try ending.output.firstMatch(of: digest)?.0 == #require(expected.output.firstMatch(of: digest)?.0)
        )
        #expect(ending.output.hasPrefix("seed \(next): "), "\(ending)")
    }

    @Test("Z7 a run in which something was wrong once is made for ever")
    func knownSeeds() throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "seeds.txt")
        let lines = try String(contentsOf: file, encoding: .utf8).split(separator: "\n").filter {
            !$0.hasPrefix("#")
        }
        for line in lines {
            let words = line.split(separator: " ").map(String.init)
            let program = words.first == "world" ? "pushwake-omemo" : "pushwake-world"
            let ending = try ProgramEnding(of: program, words, within: .seconds(120))
            #expect(ending.status == 0, "\(line)\n\(ending)")
        }
    }

    @Test(
        "Z7 a trace tells what happened when, and the report is a page with the lives and handlers of the run"
    )
    func traceAndReport() throws {
        let report = FileManager.default.temporaryDirectory.appending(path: "world-\(UUID()).html")
        defer { try? FileManager.default.removeItem(at: report) }
        let ending = try world("--seed", "1", "--lives", "5", "--trace", "--report", report.path)
        #expect(ending.status == 0, "\(ending)")
        let lines = ending.output.split(separator: "\n").dropLast()
        #expect(lines.count > 50)
        let times = lines.compactMap { Int($0.split(separator: " ")[1]) }
        #expect(times.count == lines.count && times == times.sorted())
        for part in ["started main-1", "kill", "arrived"] { #expect(ending.output.contains(part), "\(part)") }
        let page = try String(contentsOf: report, encoding: .utf8)
        #expect(page.contains("pushwake world --seed 1 --lives 5") && page.contains("\"role\":\"main\""))
        #expect(page.contains("power-loss") || page.contains("\"kind\":\"kill\""))
    }

    @Test(
        "Z7 a run is shortened to the incidents that it needs, and the list of them is read as it is written")
    func shortening() throws {
        // What fails needs incidents 3 and 17 together.
        var runs = 0
        let shortest = WorldRecipe(seed: 1).shortened(last: 60) { recipe in
            runs += 1
            let kept = recipe.incidents ?? []
            return kept.isSuperset(of: [3, 17]) ? 40 : nil
        }
        #expect(shortest.incidents == [3, 17])
        #expect(runs < 60)
        #expect(WorldCommand.command(shortest) == "pushwake world --seed 1 --lives 20 --incidents 3,17")
        for numbers: Set<Int> in [[], [1], [3, 17, 18, 19], [1, 2, 3]] {
            #expect(try WorldCommand.numbers(WorldCommand.list(numbers)) == numbers)
        }
        for text in ["", "3,", "0", "5-3", "1-2-3", "x", "1-99999999999999999999"] {
            #expect(throws: (any Error).self, "\(text)") { try WorldCommand.numbers(text) }
        }
    }

    @Test("Z7 a run with some of its incidents has no others")
    func chosenIncidents() throws {
        let none = try world("--seed", "1", "--incidents", "none", "--lives", "2", "--trace")
        #expect(none.status == 0, "\(none)")
        #expect(!none.output.contains("kill 1:"))
        let wrong = try world("--incidents", "many")
        #expect(wrong.status == 64 && wrong.complaint.contains("3,17-19"), "\(wrong)")
    }
}
