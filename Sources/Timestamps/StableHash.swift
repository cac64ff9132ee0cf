/// FNV-1a with 64 bits: the same in every process and version, unlike Swift's own hashing. No defense against forgery.
package struct StableHash {
    package var value: UInt64 = 0xcbf2_9ce4_8422_2325

    @inlinable package init() {}

    @inlinable package init(_ bytes: some Sequence<UInt8>) { combine(bytes) }

    @inlinable package mutating func combine(_ bytes: some Sequence<UInt8>) {
        for byte in bytes { combine(UInt64(byte)) }
    }

    /// Mixes in one number, such as a byte that no text holds, to divide two texts.
    @inlinable package mutating func combine(_ number: UInt64) { value = (value ^ number) &* 0x100_0000_01b3 }

    /// The value as SQLite stores it.
    package var stored: Int64 { Int64(bitPattern: value) }
}

extension Sequence<UInt8> {
    /// The bytes in lowercase hexadecimal digits, two for each.
    package var hexadecimal: String { map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined() }
}

extension [UInt8] {
    /// Reads hexadecimal digits in lower or upper case, two for each byte. Nil for anything else.
    package init?(hexadecimal digits: some Collection<UInt8>) {
        let values = digits.compactMap { Character(UnicodeScalar($0)).hexDigitValue }
        guard values.count == digits.count, values.count % 2 == 0 else { return nil }
        self = stride(from: 0, to: values.count, by: 2).map { UInt8(values[$0] << 4 | values[$0 + 1]) }
    }
}
