/// Brings text into normalization form C (UAX #15), in which equal texts have equal bytes, in linear time.
///
/// The standard library sorts the combining marks after a letter in time that grows with the square of their number. Of a
/// long run of them it gets the first few of each combining class only: no letter takes in more, so that those after them
/// stay what they are. They are put back in their order.
struct Composer {
    private struct Mark {
        let scalar: Unicode.Scalar
        let combiningClass: UInt8
    }

    /// The longest run of marks that the standard library sorts: that of the Stream-Safe Text Format (UAX #15, section 13).
    static let shortRun = 30
    /// One more than a letter can take in: no code point decomposes to more than four.
    static let marksOfAClass = 4

    private let classes = Self.classes
    private var result: [UInt8] = []
    /// The text for the standard library to compose.
    private var piece: [UInt8] = []
    /// The marks after the last letter.
    private var run: [Mark] = []

    /// Takes the next code point of the text.
    mutating func append(_ scalar: Unicode.Scalar) {
        if let parts = Self.parts(of: scalar) {
            for part in parts { append(part) }
            return
        }
        let combiningClass = combiningClass(scalar)
        if combiningClass > 0 { return run.append(Mark(scalar: scalar, combiningClass: combiningClass)) }
        if !run.isEmpty { endRun() }
        Self.append(scalar, to: &piece)
    }

    /// The text in normalization form C.
    consuming func finish() -> String {
        endRun()
        result += composePiece().utf8
        return String(decoding: result, as: UTF8.self)
    }

    private static func append(_ scalar: Unicode.Scalar, to bytes: inout [UInt8]) {
        switch scalar.value {
        case 0..<0x80: bytes.append(UInt8(scalar.value))
        case 0x80..<0x800:
            bytes.append(UInt8(0xC0 | scalar.value >> 6))
            bytes.append(UInt8(0x80 | scalar.value & 0x3F))
        default: bytes += scalar.utf8
        }
    }

    /// The standard library has normalization form C for comparing strings and offers it under this name only; tests compare the
    /// result with `UTF8Span`, whose name is public.
    private mutating func composePiece() -> String {
        defer { piece.removeAll(keepingCapacity: true) }
        return String(decoding: String(decoding: piece, as: UTF8.self)._nfcCodeUnits, as: UTF8.self)
    }

    // MARK: Marks

    private mutating func endRun() {
        defer { run.removeAll(keepingCapacity: true) }
        if run.count <= Self.shortRun {
            for mark in run { Self.append(mark.scalar, to: &piece) }
            return
        }
        let rest = divide()
        // Marks stand at its end, so that nothing behind them can be composed with what is in front.
        let composed = composePiece()
        let marks = marks(endingOf: composed)
        result += composed.utf8.dropLast(marks.reduce(0) { $0 + UTF8.width($1.scalar) })
        for mark in Self.sorted(marks + rest) { Self.append(mark.scalar, to: &result) }
    }

    /// Gives the first marks of each class to the piece.
    ///
    /// - Returns: The others.
    private mutating func divide() -> [Mark] {
        var counts = [Int](repeating: 0, count: 256)
        var rest: [Mark] = []
        for mark in run {
            counts[Int(mark.combiningClass)] += 1
            if counts[Int(mark.combiningClass)] > Self.marksOfAClass {
                rest.append(mark)
            } else {
                Self.append(mark.scalar, to: &piece)
            }
        }
        return rest
    }

    private func marks(endingOf text: String) -> [Mark] {
        var marks: [Mark] = []
        for scalar in text.unicodeScalars.reversed() {
            let combiningClass = combiningClass(scalar)
            if combiningClass == 0 { break }
            marks.append(Mark(scalar: scalar, combiningClass: combiningClass))
        }
        return marks.reversed()
    }

    /// In the order of their classes, those of one class as they were. Linear, as sorting is not.
    private static func sorted(_ marks: [Mark]) -> [Mark] {
        var places = [Int](repeating: 0, count: 257)
        for mark in marks { places[Int(mark.combiningClass) + 1] += 1 }
        for index in 1...256 { places[index] += places[index - 1] }
        var sorted = marks
        for mark in marks {
            sorted[places[Int(mark.combiningClass)]] = mark
            places[Int(mark.combiningClass)] += 1
        }
        return sorted
    }

    // MARK: Code points

    private func combiningClass(_ scalar: Unicode.Scalar) -> UInt8 {
        scalar.value < classes.count ? classes[Int(scalar.value)] : Self.storedClass(scalar)
    }

    @inline(never)
    private static func storedClass(_ scalar: Unicode.Scalar) -> UInt8 {
        scalar.properties.canonicalCombiningClass.rawValue
    }

    /// Those of what takes two bytes: the fewer bytes marks take, the more there are.
    private static let classes = (UInt32(0)..<0x800).map { Unicode.Scalar($0).map(storedClass) ?? 0 }

    /// What starts with a mark when it is decomposed but is another code point, or is no mark by itself. Composing brings none
    /// of them back.
    private static func parts(of scalar: Unicode.Scalar) -> [Unicode.Scalar]? {
        switch scalar {
        case "\u{340}": ["\u{300}"]
        case "\u{341}": ["\u{301}"]
        case "\u{343}": ["\u{313}"]
        case "\u{344}": ["\u{308}", "\u{301}"]
        case "\u{F73}": ["\u{F71}", "\u{F72}"]
        case "\u{F75}": ["\u{F71}", "\u{F74}"]
        case "\u{F81}": ["\u{F71}", "\u{F80}"]
        default: nil
        }
    }
}
