import Platform

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

// The quick way for arguments to become bytes and back.
//
// Almost all arguments are texts, numbers and handlers, and almost all stored bytes were written here. For those this
// does what Foundation's coders do in a third of the time. The rest it leaves to them: what JSON means is decided in
// one place, and so is how its errors are worded.
//
//     value ──PlainOutput──▶ bytes ──PlainScanner──▶ members ──PlainDocument──▶ value
//       ╰──────────── NotPlain: ask Foundation ◀───────────────╯

/// JSON objects as ``ArgumentCoding/encoder()`` writes them: names in ascending order, no space, no needless escape.
enum PlainJSON {
    /// The maximum depth of values. Two depths of it, one inside the other, are no more than
    /// ``ArgumentCoding/maximumDepth``.
    static let maximumDepth = 64

    /// Returns what ``ArgumentCoding/encoder()`` writes for a value, or nil if that encoder is needed.
    static func encode(_ value: some Encodable) -> [UInt8]? {
        let output = PlainOutput()
        try? output.write(value)
        return output.object
    }

    /// Returns the value that `JSONDecoder` reads from bytes.
    ///
    /// - Throws: ``NotPlain`` where that one must be asked.
    static func decode<T: Decodable>(_ type: T.Type, from bytes: [UInt8]) throws -> T {
        try bytes.withUnsafeBytes { bytes in
            var document = try PlainDocument(bytes)
            defer { if !isKnownUniquelyReferenced(&document) { document.keepBytes() } }
            let value = try T(from: PlainDecoder(document: document, place: 0..<bytes.count, type: type))
            guard document.isPlain else { throw NotPlain() }
            return value
        }
    }

    /// Returns whether Foundation's coders treat a type otherwise than it treats itself.
    static func isSpecial<T>(_ type: T.Type) -> Bool { type == URL.self || type == Decimal.self }

    /// As it is written.
    static func text(_ number: Double) -> String {
        let text = number.description
        return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
    }

    /// The escapes that are read and written here; the others are rare.
    static let escapes: [(byte: UInt8, letter: UInt8)] = [
        (UInt8(ascii: "\""), UInt8(ascii: "\"")), (UInt8(ascii: "\\"), UInt8(ascii: "\\")),
        (UInt8(ascii: "\n"), UInt8(ascii: "n")), (UInt8(ascii: "\r"), UInt8(ascii: "r")),
        (UInt8(ascii: "\t"), UInt8(ascii: "t")),
    ]
}

/// An internal error for values that need Foundation.
struct NotPlain: Error {}

extension UnsafeRawBufferPointer {
    private static let everyByte: UInt64 = 0x0101_0101_0101_0101
    private static let highBits: UInt64 = 0x8080_8080_8080_8080

    @inline(__always) func part(_ place: Range<Int>) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: self[place])
    }

    var isASCII: Bool {
        var index = 0
        while index + 8 <= count {
            if loadUnaligned(fromByteOffset: index, as: UInt64.self) & Self.highBits != 0 { return false }
            index += 8
        }
        return self[index...].allSatisfy { $0 < 0x80 }
    }

    /// Negative where these bytes come before the others in sorted order, 0 where they are the same.
    @inline(__always) func order(to other: UnsafeRawBufferPointer) -> Int {
        guard let base = baseAddress, let otherBase = other.baseAddress else { return count - other.count }
        let difference = Bytes.order(base, otherBase, count: Swift.min(count, other.count))
        return difference == 0 ? count - other.count : Int(difference)
    }

    /// Returns the number of bytes from `start` on that a JSON string holds unescaped, checked eight at a time.
    func unescaped(from start: Int) -> Int {
        var index = start
        while index + 8 <= count {
            let word = loadUnaligned(fromByteOffset: index, as: UInt64.self)
            let quotes = word ^ (Self.everyByte &* 0x22)
            let backslashes = word ^ (Self.everyByte &* 0x5c)
            // Sets a byte's high bit where the byte is below 0x20, a quote or a backslash. The lowest is exact; the
            // subtractions can only set bits above it that do not belong there.
            let found =
                ((word &- Self.everyByte &* 0x20) & ~word) | ((quotes &- Self.everyByte) & ~quotes)
                | ((backslashes &- Self.everyByte) & ~backslashes)
            if found & Self.highBits != 0 {
                return index - start + (found & Self.highBits).trailingZeroBitCount / 8
            }
            index += 8
        }
        while index < count, self[index] >= 0x20, self[index] != 0x22, self[index] != 0x5c { index += 1 }
        return index - start
    }
}
