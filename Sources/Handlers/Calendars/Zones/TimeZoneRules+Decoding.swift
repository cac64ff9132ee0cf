/// Why the bytes of a time zone are refused.
struct MalformedZone: Error, CustomStringConvertible {
    let description: String
}

extension TimeZoneRules {
    /// The most transitions of a zone, as in the reference implementation (`TZ_MAX_TIMES`).
    static let mostTransitions = 2000

    /// Reads the content of a TZif file (RFC 9636), versions 1 to 4.
    convenience init(decoding bytes: [UInt8]) throws(MalformedZone) {
        var reader = ByteReader(bytes)
        let first = try ZoneHeader(&reader)
        if first.version == 1 {
            self.init(try ZoneBlock(&reader, first, timeSize: 4), nil)
        } else {
            // The first block repeats in 32 bits what the second one has in 64.
            try reader.skip(first.size(timeSize: 4))
            let block = try ZoneBlock(&reader, try ZoneHeader(&reader), timeSize: 8)
            self.init(block, try Self.footer(&reader))
        }
    }

    private convenience init(_ block: ZoneBlock, _ footer: ZoneFooter?) {
        self.init(transitions: block.transitions, offsets: block.offsets, footer: footer)
    }

    /// The footer is a line between two line feeds; it may be empty (section 3.3).
    private static func footer(_ reader: inout ByteReader) throws(MalformedZone) -> ZoneFooter? {
        let text = try reader.line()
        return text.isEmpty ? nil : try ZoneFooter(text)
    }
}

/// The header before each block of a TZif file (RFC 9636 section 3.1).
private struct ZoneHeader {
    let version: Int
    let isUTCount: Int
    let isStandardCount: Int
    let leapCount: Int
    let timeCount: Int
    let typeCount: Int
    let characterCount: Int

    init(_ reader: inout ByteReader) throws(MalformedZone) {
        guard try reader.bytes(4).elementsEqual("TZif".utf8) else {
            throw MalformedZone(description: "it is no TZif file")
        }
        switch try reader.integer(1) {
        case 0: version = 1
        case let digit where 0x32...0x39 ~= digit: version = Int(digit) - 0x30
        default: throw MalformedZone(description: "its version is unknown")
        }
        try reader.skip(15)
        isUTCount = try reader.count()
        isStandardCount = try reader.count()
        leapCount = try reader.count()
        timeCount = try reader.count()
        typeCount = try reader.count()
        characterCount = try reader.count()
    }

    /// Returns the size of the block in bytes. Each count has at most 32 bits, so the sum does not overflow.
    func size(timeSize: Int) -> Int {
        timeCount * (timeSize + 1) + typeCount * 6 + characterCount + leapCount * (timeSize + 4)
            + isStandardCount + isUTCount
    }
}

/// The transitions of one block of a TZif file (RFC 9636 section 3.2).
private struct ZoneBlock {
    let transitions: [Int64]
    /// The offset before the first transition, and after each.
    let offsets: [Int32]

    init(_ reader: inout ByteReader, _ header: ZoneHeader, timeSize: Int) throws(MalformedZone) {
        try Self.check(header)
        var rest = ByteReader(try reader.bytes(header.size(timeSize: timeSize)))
        transitions = try Self.times(&rest, header.timeCount, timeSize)
        let indexes = try rest.bytes(header.timeCount)
        let types = try Self.types(&rest, header.typeCount)
        guard indexes.allSatisfy({ $0 < types.count }) else {
            throw MalformedZone(description: "a transition has a type that is not there")
        }
        // The first type is that of the time before the first transition (section 3.2).
        offsets = [types[0]] + indexes.map { types[Int($0)] }
    }

    private static func check(_ header: ZoneHeader) throws(MalformedZone) {
        guard header.leapCount == 0 else {
            throw MalformedZone(description: "it counts leap seconds, as the zones in 'right' do")
        }
        guard header.timeCount <= TimeZoneRules.mostTransitions, 1...256 ~= header.typeCount else {
            throw MalformedZone(description: "it has too many transitions, or no type or too many")
        }
    }

    private static func times(
        _ reader: inout ByteReader, _ count: Int, _ size: Int
    ) throws(MalformedZone) -> [Int64] {
        var times: [Int64] = []
        for _ in 0..<count {
            let time = try reader.integer(size)
            guard TimeZoneRules.allTimes ~= time, times.last.map({ $0 < time }) ?? true else {
                throw MalformedZone(description: "its transitions are not in order")
            }
            times.append(time)
        }
        return times
    }

    private static func types(
        _ reader: inout ByteReader, _ count: Int
    ) throws(MalformedZone) -> [Int32] {
        var offsets: [Int32] = []
        for _ in 0..<count {
            let offset = try reader.integer(4)
            guard offset.magnitude <= TimeZoneRules.longestOffset else {
                throw MalformedZone(description: "it has an offset of more than 26 hours")
            }
            offsets.append(Int32(offset))
            // Whether it is daylight saving time, and its abbreviation.
            try reader.skip(2)
        }
        return offsets
    }
}

/// Takes bytes from the start of a file.
private struct ByteReader {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: some Sequence<UInt8>) { rest = ArraySlice(bytes) }

    mutating func bytes(_ count: Int) throws(MalformedZone) -> ArraySlice<UInt8> {
        guard count <= rest.count else { throw MalformedZone(description: "it ends too early") }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count)
    }

    mutating func skip(_ count: Int) throws(MalformedZone) { _ = try bytes(count) }

    /// Takes an integer with a sign in network byte order; its size is 1, 4 or 8 bytes.
    mutating func integer(_ size: Int) throws(MalformedZone) -> Int64 {
        let bits = try bytes(size).reduce(0) { $0 << 8 | UInt64($1) }
        let unused = 64 - 8 * size
        return Int64(bitPattern: bits << unused) >> unused
    }

    mutating func count() throws(MalformedZone) -> Int { Int(UInt32(truncatingIfNeeded: try integer(4))) }

    /// Takes the bytes between two line feeds, which must be the last ones.
    mutating func line() throws(MalformedZone) -> ArraySlice<UInt8> {
        guard rest.count >= 2, rest.first == 0x0a, rest.last == 0x0a else {
            throw MalformedZone(description: "it ends too early")
        }
        return rest.dropFirst().dropLast()
    }
}
