/// Checks UTF-8 byte by byte across windows (Unicode 15, table 3-7): no overlong forms, no surrogates, no more
/// than U+10FFFF. libxml2 lets some overlong forms through and takes other broken text for Latin-1.
struct UTF8Check {
    private var missing = 0
    private var lower: UInt8 = 0x80
    private var upper: UInt8 = 0xBF

    /// Whether a character has started and is not complete.
    var isInside: Bool { missing > 0 }

    /// Takes a byte of 0x80 and above, or any byte inside a character.
    /// - Returns: false when the text is not UTF-8.
    mutating func accept(_ byte: UInt8) -> Bool {
        if missing == 0 { return start(byte) }
        guard (lower...upper).contains(byte) else { return false }
        missing -= 1
        (lower, upper) = (0x80, 0xBF)
        return true
    }

    private mutating func start(_ byte: UInt8) -> Bool {
        switch byte {
        case 0xC2...0xDF: missing = 1
        case 0xE0: (missing, lower) = (2, 0xA0)
        case 0xED: (missing, upper) = (2, 0x9F)
        case 0xE1...0xEF: missing = 2
        case 0xF0: (missing, lower) = (3, 0x90)
        case 0xF4: (missing, upper) = (3, 0x8F)
        case 0xF1...0xF3: missing = 3
        default: return false
        }
        return true
    }
}

// MARK: Runs

extension UTF8Check {
    /// Skips plain ASCII and valid characters beyond ASCII, up to a byte that must be looked at by itself: what is not plain, what
    /// is not valid, and a character among the last bytes, of which the rest may come later.
    ///
    /// - Parameters:
    ///   - index: The start of a character; moved past the skipped bytes.
    ///   - isPlain: Whether a byte below 0x80 may be skipped.
    @inline(__always)
    static func skip(_ bytes: UnsafeRawBufferPointer, _ index: inout Int, while isPlain: (UInt8) -> Bool) {
        var end = index
        repeat {
            index = end
            while end < bytes.count, bytes[end] < 0x80, isPlain(bytes[end]) { end += 1 }
            end += lengthOfCharacters(bytes, from: end)
        } while end > index
    }

    /// The bytes of the run of characters beyond ASCII that starts here, four of two bytes looked at at once.
    private static func lengthOfCharacters(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Int {
        var index = start
        while index + 8 <= bytes.count {
            let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self))
            let length = isFourPairs(word) ? 8 : lengthOfCharacter(UInt32(truncatingIfNeeded: word))
            if length == 0 { break }
            index += length
        }
        return index - start
    }

    /// Returns whether the bytes are 110xxxxx 10xxxxxx four times, and none of them an overlong form: those have 1100000x
    /// in front.
    private static func isFourPairs(_ word: UInt64) -> Bool {
        let leads = word & 0x001E_001E_001E_001E
        return word & 0xC0E0_C0E0_C0E0_C0E0 == 0x80C0_80C0_80C0_80C0
            && (leads + 0x007E_007E_007E_007E) & 0x0080_0080_0080_0080 == 0x0080_0080_0080_0080
    }

    /// The bytes of the character that these start with; 0 when it is ASCII or not valid.
    private static func lengthOfCharacter(_ word: UInt32) -> Int {
        if word & 0xC0E0 == 0x80C0 { return word & 0x1E == 0 ? 0 : 2 }
        if word & 0x00C0_C0F0 == 0x0080_80E0 {
            let scalar = (word & 0x0F) << 12 | (word >> 8 & 0x3F) << 6 | word >> 16 & 0x3F
            return scalar < 0x800 || scalar & 0xF800 == 0xD800 ? 0 : 3
        }
        guard word & 0xC0C0_C0F8 == 0x8080_80F0 else { return 0 }
        // The first 9 bits of 21: planes 1 to 16.
        let top = (word & 0x07) << 6 | word >> 8 & 0x3F
        return top >= 0x10 && top < 0x110 ? 4 : 0
    }
}
