import Foundation
import TestThreads
import Testing
import XMPPCore

/// Text that people see.
@Suite(.ownThread) struct VisibleTextTests {
    private static let hidden: [ClosedRange<UInt32>] = [
        0...0x1F, 0x7F...0x9F, 0xAD...0xAD, 0x34F...0x34F, 0x61C...0x61C, 0x180E...0x180E, 0x200B...0x200B,
        0x200E...0x200F, 0x2028...0x202E, 0x2060...0x206F, 0x3164...0x3164, 0xFEFF...0xFEFF, 0xFFF9...0xFFFB,
        0xE0001...0xE0001, 0xE0020...0xE007F, 0xE0100...0xE01EF,
    ]
    private static let scalars = hidden.joined().compactMap(Unicode.Scalar.init)

    @Test(
        "X22 controls, separators and what is shown as nothing come out as \\u{…}, and nothing else changes")
    func characters() {
        for scalar in Self.scalars {
            let escape = "\\u{\(String(scalar.value, radix: 16, uppercase: true))}"
            #expect(VisibleText("a\(scalar)b" as String).description == "a\(escape)b")
            #expect(ForeignText("a\(scalar)b").visible == "a\(escape)b")
        }
        let plain = "ä 日本 👩\u{200D}👩\u{200D}👧 ❤\u{FE0F} می\u{200C}خواهم e\u{301} \\u{1B} ~ \u{A0}"
        #expect(VisibleText(plain).description == plain)
        let all = String(String.UnicodeScalarView(Self.scalars))
        let once = VisibleText(all).description
        #expect(VisibleText(once).description == once)
    }

    @Test("X22 the program's own line feeds and colors stay; what is put between them is escaped, once")
    func interpolation() {
        let foreign = "a\r\nb\u{1B}[2J"
        let inner: VisibleText = "<\(foreign)>"
        let text: VisibleText = "\u{1B}[1m\(inner)\u{1B}[0m\n\(foreign)"
        let shown = "a\\u{D}\\u{A}b\\u{1B}[2J"
        #expect(text.description == "\u{1B}[1m<\(shown)>\u{1B}[0m\n\(shown)")
    }

    @Test("X22 escaped JSON stands for the same value")
    func json() throws {
        let all = String(String.UnicodeScalarView(Self.scalars)) + "ä\\\"/"
        let encoded = String(decoding: try JSONEncoder().encode([all]), as: UTF8.self)
        let shown = VisibleText(json: encoded).description
        let isSame = try JSONDecoder().decode([String].self, from: Data(shown.utf8)) == [all]
        #expect(isSame)
        let raw = Set(Self.scalars)
        #expect(!shown.unicodeScalars.contains { raw.contains($0) })
    }

    @Test(
        "X22 a megabyte of combining marks, or of controls, costs milliseconds, and not hours",
        arguments: ["\u{301}\u{316}", "\u{9B}\u{9B}"])
    func linear(pair: String) {
        let text = "\u{9B}" + String(repeating: pair, count: 250_000)
        var (start, end) = (timespec(), timespec())
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start)
        let count = VisibleText(text).description.utf8.count
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end)
        let hidden = text.unicodeScalars.count { $0 == "\u{9B}" }
        #expect(count == text.utf8.count + 4 * hidden)
        #expect(end.tv_sec - start.tv_sec < 3)
    }
}
