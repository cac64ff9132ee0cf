import FoundationEssentials
import TestThreads
import Testing

/// Runs what fuzzing kept, without libFuzzer.
@Suite(.ownThread, .timeLimit(.minutes(5))) struct CorpusTests {
    static let corpora = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "../../corpus").standardized

    static func inputs(of target: String) throws -> [URL] {
        let folder = corpora.appending(path: target)
        return try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
            .map { folder.appending(path: $0) }
    }

    @Test("X23 every input of a corpus keeps the rules of its target", arguments: FuzzTarget.all.map(\.name))
    func replay(name: String) throws {
        let target = try #require(FuzzTarget.all.first { $0.name == name })
        let inputs = try Self.inputs(of: name)
        try #require(!inputs.isEmpty, "the corpus of \(name) is empty")
        target.prepare()
        for input in inputs {
            let bytes = [UInt8](try Data(contentsOf: input))
            do {
                try target.check(bytes)
            } catch {
                Issue.record("\(name)/\(input.lastPathComponent): \(error)")
            }
        }
    }

    @Test("X23 every corpus belongs to a target, and all of them stay under a megabyte")
    func corpora() throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: Self.corpora.path)
        #expect(Set(names) == Set(FuzzTarget.all.map(\.name)))
        #expect(Set(FuzzTarget.all.map(\.name)).count == FuzzTarget.all.count)
        let bytes = try names.flatMap { try Self.inputs(of: $0) }.reduce(0) { sum, input in
            sum + (try Data(contentsOf: input)).count
        }
        #expect(bytes < 1 << 20, "\(bytes) bytes")
    }

    @Test("X23 every dictionary that a target names is there")
    func dictionaries() throws {
        let folder = Self.corpora.appending(path: "../dictionaries")
        for dictionary in Set(FuzzTarget.all.compactMap(\.dictionary)) {
            let words = try String(
                decoding: Data(contentsOf: folder.appending(path: "\(dictionary).dict")), as: UTF8.self)
            #expect(words.contains("\n\""), "\(dictionary)")
        }
    }
}

/// What counts as found.
@Suite(.ownThread) struct FuzzTargetTests {
    @Test("X23 a broken rule is found, and an error of the code is none")
    func findings() throws {
        struct Refused: Error {}
        let strict = FuzzTarget("strict") { bytes in
            if bytes.isEmpty { throw Refused() }
            try require(bytes.count < 3, "too long")
        }
        try strict.check([])
        try strict.check([1, 2])
        #expect(throws: Finding.self) { try strict.check([1, 2, 3]) }
    }

    @Test("X23 an input that costs too much processor time is found, and waiting costs none")
    func time() throws {
        let busy = FuzzTarget("busy", .short) { bytes in
            let end = ThreadClock.milliseconds + (bytes.isEmpty ? 0 : FuzzTarget.limit + 50)
            while ThreadClock.milliseconds < end {}
        }
        try busy.check([])
        #expect(throws: Finding.self) { try busy.check([1]) }
    }

    @Test("X23 some inputs of a text are run again at 64 KB")
    func large() throws {
        let text = FuzzTarget("text") { bytes in try require(bytes.count < 100, "\(bytes.count)") }
        var sizes: [Int] = []
        for number in 0..<5000 {
            do { try text.check(Array("abc\(number)".utf8)) } catch { sizes.append(Int("\(error)") ?? 0) }
        }
        #expect((1...20).contains(sizes.count), "\(sizes.count) of 5000")
        #expect(sizes.allSatisfy { (FuzzTarget.largeBytes - 64...FuzzTarget.largeBytes).contains($0) })
        let short = FuzzTarget("short", .short) { bytes in try require(bytes.count < 100, "large") }
        for number in 0..<5000 { try short.check(Array("abc\(number)".utf8)) }
    }
}
