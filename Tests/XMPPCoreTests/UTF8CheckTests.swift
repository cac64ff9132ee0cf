import HandlersTestKit
import ParserVerifier
import TestThreads
import Testing

@testable import XMPPCore

/// Runs of characters beyond ASCII are checked eight bytes at a time: no other bytes may pass than one by one.
@Suite(.ownThread) struct UTF8CheckTests {
    /// The first and the last of each row of table 3-7 of Unicode, and two marks.
    private static let characters: [[UInt8]] = [
        [0xC2, 0x80], [0xDF, 0xBF], [0xE0, 0xA0, 0x80], [0xE0, 0xBF, 0xBF], [0xE1, 0x80, 0x80],
        [0xEC, 0xBF, 0xBF], [0xED, 0x80, 0x80], [0xED, 0x9F, 0xBF], [0xEE, 0x80, 0x80], [0xEF, 0xBF, 0xBD],
        [0xF0, 0x90, 0x80, 0x80], [0xF0, 0xBF, 0xBF, 0xBF], [0xF1, 0x80, 0x80, 0x80],
        [0xF3, 0xBF, 0xBF, 0xBF], [0xF4, 0x80, 0x80, 0x80], [0xF4, 0x8F, 0xBF, 0xBD], [0xCC, 0x81],
        [0xCC, 0xA3],
    ]
    /// Overlong forms, surrogates, more than U+10FFFF, lone and missing continuations, and bytes that never stand in UTF-8.
    private static let broken: [[UInt8]] = [
        [0xC0, 0x80], [0xC1, 0xBF], [0xE0, 0x80, 0x80], [0xE0, 0x9F, 0xBF], [0xF0, 0x80, 0x80, 0x80],
        [0xF0, 0x8F, 0xBF, 0xBF], [0xED, 0xA0, 0x80], [0xED, 0xBF, 0xBF], [0xF4, 0x90, 0x80, 0x80],
        [0xF5, 0x80, 0x80, 0x80], [0x80], [0xBF], [0xCC], [0xE4, 0xB8], [0xE4], [0xF0, 0x9F, 0x98],
        [0xF0, 0x9F], [0xF8, 0x88, 0x80, 0x80, 0x80], [0xFE], [0xFF],
    ]
    /// What XML 1.0 forbids although it is UTF-8 (section 2.2).
    private static let forbidden: [[UInt8]] = [
        [0x00], [0x01], [0x08], [0x0B], [0x0C], [0x0E], [0x1F], [0xEF, 0xBF, 0xBE], [0xEF, 0xBF, 0xBF],
    ]

    /// Where checking byte by byte ends: behind the last whole character in front of what is not plain or not valid.
    private func end(_ bytes: [UInt8]) -> Int {
        var check = UTF8Check()
        var end = 0
        for (index, byte) in bytes.enumerated() {
            if byte < 0x80, !check.isInside {
                if byte < 0x20 { break }
            } else if !check.accept(byte) {
                break
            }
            if !check.isInside { end = index + 1 }
        }
        return end
    }

    /// The same as checking byte by byte, but for the last bytes, which may be left to it.
    private func isRight(_ bytes: [UInt8]) -> Bool {
        var index = 0
        bytes.withUnsafeBytes { UTF8Check.skip($0, &index) { $0 >= 0x20 } }
        let end = end(bytes)
        return index == end || (index < end && index > bytes.count - 8 && !UTF8.isContinuation(bytes[index]))
    }

    @Test("X19 every character and all that is broken is seen in a run, at each offset")
    func offsets() {
        var texts: [[UInt8]] = []
        for offset in 0..<16 {
            for filler in [[0x61], [0xCC, 0x81], [0xE4, 0xB8, 0x80]] as [[UInt8]] {
                let count = offset / filler.count
                let front = repeated([0x61], offset - count * filler.count) + repeated(filler, count)
                for inner in Self.characters + Self.broken + Self.forbidden {
                    for length in 0...9 {
                        texts.append(front + inner + repeated([0x61], length))
                        texts.append(front + inner + repeated([0xCC, 0xA3], length))
                    }
                }
            }
        }
        #expect(texts.filter { !isRight($0) } == [])
    }

    private func repeated(_ bytes: [UInt8], _ count: Int) -> [UInt8] {
        (0..<count).flatMap { _ in bytes }
    }

    @Test(
        "X19 of random bytes as many are skipped as are valid one by one", arguments: [1, 2, 3] as [UInt64])
    func random(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var texts: [[UInt8]] = []
        for _ in 0..<5000 {
            var bytes: [UInt8] = []
            while bytes.count < 48 {
                bytes += Self.characters.randomElement(using: &generator) ?? []
                if Int.random(in: 0..<4, using: &generator) == 0 { bytes.append(0x61) }
            }
            for _ in 0..<Int.random(in: 0...2, using: &generator) {
                bytes[Int.random(in: 0..<bytes.count, using: &generator)] = .random(
                    in: 0...255, using: &generator)
            }
            texts.append(bytes)
        }
        #expect(texts.filter { !isRight($0) } == [], "seed \(seed)")
    }

    @Test(
        "X19 what is no character costs its element, in each place and however it is cut",
        arguments: ["<message><body>\0</body></message>", "<message id='\0'/>", "<message><a\0/></message>"])
    func places(stanza: String) throws {
        let parts = stanza.split(separator: "\0").map { Array($0.utf8) }
        for bad in Self.broken + Self.forbidden {
            for offset in 0..<8 {
                let front = repeated([0x61], offset % 2) + repeated([0xCC, 0x81], 4 + offset / 2)
                let bytes = parts[0] + front + bad + repeated([0xCC, 0x81], 4) + parts[1]
                try verify(
                    bytes + Array("<message id='next'/>".utf8), from: parts[0].count, "\(bad) at \(offset)")
            }
        }
    }

    /// Demands that the first element is refused and the second one is not, wherever the first one is cut.
    private func verify(_ bytes: [UInt8], from start: Int, _ comment: Comment) throws {
        let header = Array(testHeader.utf8)
        let whole = try ParserVerifier.outcome(of: [header, bytes])
        #expect(whole.refused.count == 1 && whole.code == nil, comment)
        #expect(whole.elements.map { $0["id"] } == ["next"], comment)
        let bytewise = try ParserVerifier.outcome(of: [header] + bytes.map { [$0] })
        #expect(bytewise == whole, comment)
        for cut in start..<start + 24 {
            let split = try ParserVerifier.outcome(of: [header, Array(bytes[..<cut]), Array(bytes[cut...])])
            #expect(split == whole, comment)
        }
    }
}
