// Code points that are allowed in some company only, and the direction of the text.
extension JIDPreparation {
    /// The first code point that its neighbors do not allow (RFC 5892 appendix A).
    static func contextFault(_ text: String) -> Unicode.Scalar? {
        let scalars = Array(text.unicodeScalars)
        for index in scalars.indices where scalars[index].value >= 0x80 {
            let before = index > 0 ? scalars[index - 1] : nil
            let after = index + 1 < scalars.count ? scalars[index + 1] : nil
            guard fits(scalars[index], before, after, scalars) else { return scalars[index] }
        }
        return nil
    }

    private static func fits(
        _ scalar: Unicode.Scalar, _ before: Unicode.Scalar?, _ after: Unicode.Scalar?, _ all: [Unicode.Scalar]
    ) -> Bool {
        switch scalar.value {
        case 0xB7: before == "l" && after == "l"
        case 0x375: after.map { isIn($0, greek) } ?? false
        case 0x5F3, 0x5F4: before.map { isIn($0, hebrew) } ?? false
        case 0x30FB: all.contains { $0.value != 0x30FB && isIn($0, japanese) }
        // The other digits: one text is written with one set.
        case 0x660...0x669: !all.contains { (0x6F0...0x6F9).contains($0.value) }
        case 0x200D: isVirama(before)
        // The joining types of A.1 are not in the standard library; the scripts that have them stand for them.
        case 0x200C: isVirama(before) || (joins(before) && joins(after))
        default: true
        }
    }

    private static func isVirama(_ scalar: Unicode.Scalar?) -> Bool {
        scalar?.properties.canonicalCombiningClass == .virama
    }

    private static func joins(_ scalar: Unicode.Scalar?) -> Bool { scalar.map { isIn($0, joining) } ?? false }

    private static func isIn(_ scalar: Unicode.Scalar, _ ranges: [ClosedRange<UInt32>]) -> Bool {
        ranges.contains { $0.contains(scalar.value) }
    }

    private static let greek: [ClosedRange<UInt32>] = [0x370...0x3FF, 0x1F00...0x1FFF]
    private static let hebrew: [ClosedRange<UInt32>] = [0x591...0x5F4, 0xFB1D...0xFB4F]
    /// Hiragana, Katakana and Han.
    private static let japanese: [ClosedRange<UInt32>] = [
        0x3005...0x3007, 0x3021...0x3029, 0x3038...0x303B, 0x3041...0x30FF, 0x31F0...0x31FF, 0x3400...0x4DBF,
        0x4E00...0x9FFF, 0xF900...0xFAFF, 0x1B000...0x1B16F, 0x20000...0x3FFFF,
    ]
    private static let joining: [ClosedRange<UInt32>] = [
        0x620...0x8FF, 0x1800...0x18AF, 0xA840...0xA87F, 0x10AC0...0x10AFF, 0x10B80...0x10BAF,
        0x10D00...0x10D3F, 0x10F30...0x10FDF, 0x1E900...0x1E95F,
    ]

    // MARK: Direction

    /// The classes of the Bidi rule (RFC 5893 section 2), as far as letters, digits, marks and ASCII need it.
    private enum Direction {
        case left, right, europeanDigit, arabicDigit, mark, neutral
    }

    /// Returns whether the text keeps the Bidi rule, by which it is read in one direction: it cannot be made to look like
    /// another by its neighbors. A text without letters that run to the left keeps it always.
    static func isDirected(_ text: some StringProtocol) -> Bool {
        let directions = text.unicodeScalars.map(direction)
        guard directions.contains(.right) || directions.contains(.arabicDigit) else { return true }
        guard directions.first == .right, let last = directions.last(where: { $0 != .mark }) else {
            return false
        }
        let mixesDigits = directions.contains(.europeanDigit) && directions.contains(.arabicDigit)
        return !directions.contains(.left) && last != .neutral && !mixesDigits
    }

    private static func direction(_ scalar: Unicode.Scalar) -> Direction {
        switch scalar.value {
        case 0x30...0x39, 0x6F0...0x6F9: return .europeanDigit
        case 0x660...0x669, 0x10D30...0x10D39: return .arabicDigit
        case 0...0x7F: return isLetter(scalar) ? .left : .neutral
        default: break
        }
        switch scalar.properties.generalCategory {
        case .nonspacingMark: return .mark
        case .format: return .neutral
        default: return isIn(scalar, rightToLeft) ? .right : .left
        }
    }

    private static func isLetter(_ ascii: Unicode.Scalar) -> Bool { ("a"..."z").contains(ascii) }

    /// The blocks of Hebrew, Arabic and the other scripts that run to the left.
    private static let rightToLeft: [ClosedRange<UInt32>] = [
        0x590...0x8FF, 0xFB1D...0xFDFF, 0xFE70...0xFEFF, 0x10800...0x10FFF, 0x1E800...0x1EFFF,
    ]
}
