/// A member of an object: the places of its name, without the quotes, and of its value.
struct PlainMember {
    let name: Range<Int>
    let value: Range<Int>
}

/// Finds the members of an object in one pass, and stops where an encoder would have written anything otherwise.
struct PlainScanner {
    private let bytes: UnsafeRawBufferPointer
    private var position: Int
    private var members: [PlainMember] = []
    /// Whether the last string that was read holds an escape.
    private var isEscaped = false

    /// - Returns: The members of the object that is at `place`, or nil where Foundation must be asked.
    static func members(in bytes: UnsafeRawBufferPointer, at place: Range<Int>) -> [PlainMember]? {
        var scanner = PlainScanner(bytes.part(0..<place.upperBound), at: place.lowerBound)
        guard scanner.byte == UInt8(ascii: "{"), scanner.value(depth: 0), scanner.position == place.upperBound
        else { return nil }
        return scanner.members
    }

    private init(_ bytes: UnsafeRawBufferPointer, at start: Int) {
        self.bytes = bytes
        position = start
        members.reserveCapacity(8)
    }

    /// The current byte; 0, which JSON never contains, at the end.
    private var byte: UInt8 { position < bytes.count ? bytes[position] : 0 }

    private mutating func accept(_ expected: UInt8) -> Bool {
        guard byte == expected else { return false }
        position += 1
        return true
    }

    private mutating func value(depth: Int) -> Bool {
        switch byte {
        case UInt8(ascii: "\""): string()
        case UInt8(ascii: "{"): object(depth: depth + 1)
        case UInt8(ascii: "["): array(depth: depth + 1)
        case UInt8(ascii: "t"): word("true")
        case UInt8(ascii: "f"): word("false")
        case UInt8(ascii: "n"): word("null")
        default: number()
        }
    }

    private mutating func word(_ word: StaticString) -> Bool {
        for index in 0..<word.utf8CodeUnitCount {
            guard accept(word.utf8Start[index]) else { return false }
        }
        return true
    }

    private mutating func object(depth: Int) -> Bool {
        position += 1
        if accept(UInt8(ascii: "}")) { return true }
        var previous: Range<Int>?
        repeat {
            let start = position + 1
            guard depth <= PlainJSON.maximumDepth, string() else { return false }
            let name = start..<position - 1
            // Each is greater than the one before it, so none comes twice. An escaped one is sorted by what it means.
            if let previous, bytes.part(previous).order(to: bytes.part(name)) >= 0 { return false }
            guard !isEscaped, accept(UInt8(ascii: ":")) else { return false }
            previous = name
            let valueStart = position
            guard value(depth: depth) else { return false }
            if depth == 1 { members.append(PlainMember(name: name, value: valueStart..<position)) }
        } while accept(UInt8(ascii: ","))
        return accept(UInt8(ascii: "}"))
    }

    private mutating func array(depth: Int) -> Bool {
        position += 1
        if accept(UInt8(ascii: "]")) { return true }
        repeat {
            guard depth <= PlainJSON.maximumDepth, value(depth: depth) else { return false }
        } while accept(UInt8(ascii: ","))
        return accept(UInt8(ascii: "]"))
    }

    private mutating func string() -> Bool {
        guard accept(UInt8(ascii: "\"")) else { return false }
        isEscaped = false
        while true {
            position += bytes.unescaped(from: position)
            if accept(UInt8(ascii: "\"")) { return true }
            isEscaped = true
            guard accept(UInt8(ascii: "\\")), PlainJSON.escapes.contains(where: { $0.letter == byte }) else {
                return false
            }
            position += 1
        }
    }

    private mutating func number() -> Bool {
        let start = position
        scan: while true {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "+"),
                UInt8(ascii: "."),
                UInt8(ascii: "e"):
                position += 1
            default: break scan
            }
        }
        return bytes.part(start..<position).double != nil
    }
}

extension UnsafeRawBufferPointer {
    /// The value of these bytes, if they are an integer of at most 18 digits and not "-0".
    var integer: Int64? {
        let isNegative = first == UInt8(ascii: "-")
        let digits = dropFirst(isNegative ? 1 : 0)
        guard 1...18 ~= digits.count, digits.first != UInt8(ascii: "0") || count == 1 else { return nil }
        var magnitude: Int64 = 0
        for digit in digits {
            guard UInt8(ascii: "0")...UInt8(ascii: "9") ~= digit else { return nil }
            magnitude = magnitude &* 10 &+ Int64(digit &- UInt8(ascii: "0"))
        }
        return isNegative ? -magnitude : magnitude
    }

    /// The value of these bytes, if they are a number as an encoder writes it. The very small are Foundation's to judge, and
    /// the large, which it may write as integers and as numbers with an exponent.
    var double: Double? {
        if let integer { return Double(integer) }
        let text = String(decoding: self, as: UTF8.self)
        guard let value = Double(text), value.isNormal, abs(value) < 0x1p53, PlainJSON.text(value) == text
        else { return nil }
        return value
    }
}
