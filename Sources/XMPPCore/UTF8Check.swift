/// Checks UTF-8 byte by byte across windows (Unicode 15, table 3-7): no overlong forms, no surrogates, no more
/// than U+10FFFF. libxml2 lets some overlong forms through and takes other broken text for Latin-1.
struct UTF8Check {
    private var missing = 0
    private var lower: UInt8 = 0x80
    private var upper: UInt8 = 0xBF

    /// Whether a character has begun and is not complete.
    var isInside: Bool { missing > 0 }

    /// Takes a byte of 0x80 and above, or any byte inside a character.
    /// - Returns: false when the text is not UTF-8.
    mutating func accept(_ byte: UInt8) -> Bool {
        if missing == 0 { return begin(byte) }
        guard (lower...upper).contains(byte) else { return false }
        missing -= 1
        (lower, upper) = (0x80, 0xBF)
        return true
    }

    private mutating func begin(_ byte: UInt8) -> Bool {
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
