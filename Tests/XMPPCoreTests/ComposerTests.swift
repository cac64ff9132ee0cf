import HandlersTestKit
import ParserVerifier
import TestThreads
import Testing

@testable import XMPPCore

/// Normalization form C beside that of the standard library, in public `UTF8Span`.
@Suite(.ownThread) struct ComposerTests {
    /// Whether it is composed, and the same text as before: only one form is both.
    private func isRight(_ text: [Unicode.Scalar]) -> Bool {
        var composer = Composer()
        for scalar in text { composer.append(scalar) }
        let composed = composer.finish()
        var span = composed.utf8Span
        let same = text.flatMap { Self.vowels[$0] ?? [$0] }
        return span.checkForNFC(quickCheck: false) && composed == String(String.UnicodeScalarView(same))
    }

    /// Tibetan vowels that are two marks. The standard library does not order them among others.
    private static let vowels: [Unicode.Scalar: [Unicode.Scalar]] = [
        "\u{F73}": ["\u{F71}", "\u{F72}"], "\u{F75}": ["\u{F71}", "\u{F74}"],
        "\u{F81}": ["\u{F71}", "\u{F80}"],
    ]

    /// Marks of eight classes, those that are composed with letters among them; marks that stand for two others.
    private static let marks = Array(
        "\u{301}\u{308}\u{327}\u{323}\u{345}\u{5B0}\u{334}\u{94D}\u{344}\u{343}\u{340}\u{F71}\u{F73}\u{F81}"
            .unicodeScalars)
    /// Letters that take in marks and others; halves of letters and of syllables; letters that are never composed again.
    private static let letters = Array(
        "ae\u{E9}\u{1EC7}\u{3B1}\u{1F00}\u{9C7}\u{9BE}\u{1100}\u{1161}\u{11A8}\u{AC00}\u{958}\u{212B}\u{1D15E} \u{431}"
            .unicodeScalars)

    @Test(
        "X19 X1 letters with few and with many marks are composed as the standard library does",
        arguments: [1, 2, 3] as [UInt64])
    func random(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<400 {
            var text: [Unicode.Scalar] = []
            for _ in 0..<3 {
                text += pick(Int.random(in: 0...2, using: &generator), of: Self.letters, &generator)
                let count = try #require([0, 1, 3, 29, 30, 31, 40, 60].randomElement(using: &generator))
                let kinds = pick(3, of: Self.marks, &generator)
                text += pick(count, of: kinds, &generator)
            }
            #expect(isRight(text), "seed \(seed): \(text.map { String($0.value, radix: 16) })")
        }
    }

    private func pick(
        _ count: Int, of scalars: [Unicode.Scalar], _ generator: inout SeededGenerator
    ) -> [Unicode.Scalar] {
        (0..<count).compactMap { _ in scalars.randomElement(using: &generator) }
    }

    @Test("X19 X1 a letter takes in several marks of one class from a long run")
    func oneClass() {
        for marks in [["\u{308}", "\u{304}"], ["\u{302}", "\u{301}"]] as [[Unicode.Scalar]] {
            let long = [Unicode.Scalar](repeating: marks[1], count: 40)
            #expect(isRight(["u", "e"] + marks + long))
            #expect(isRight(["e", "u", "\u{323}"] + marks + long + ["u", "\u{301}"]))
        }
    }

    @Test("X19 X1 every mark, and all that is written as several code points, is composed in a long run")
    func everyMark() {
        var count = 0
        for scalar in (UInt32(0)..<0x30000).compactMap(Unicode.Scalar.init) {
            var span = String(scalar).utf8Span
            if scalar.properties.canonicalCombiningClass.rawValue == 0, span.checkForNFC(quickCheck: false) {
                continue
            }
            count += 1
            let run = (0..<40).flatMap { _ in [scalar, "\u{301}", "\u{323}"] as [Unicode.Scalar] }
            #expect(isRight(["e"] + run), "U+\(String(scalar.value, radix: 16))")
            #expect(isRight(run + ["e", "\u{301}"]), "U+\(String(scalar.value, radix: 16))")
        }
        #expect(count > 2000)
    }
}
