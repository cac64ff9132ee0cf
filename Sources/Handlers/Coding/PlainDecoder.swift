/// A JSON text from which values are read.
final class PlainDocument {
    fileprivate private(set) var bytes: UnsafeRawBufferPointer
    /// The members of the object that the text is, and of those in it that were looked into.
    @exclusivity(unchecked) private var objects: [[PlainMember]]
    private var copy: UnsafeMutableRawBufferPointer?
    /// False once something was asked that only Foundation answers. A type that swallows the error of one attempt to
    /// try another would give a value all the same, and not always the same one.
    private(set) var isPlain = true

    /// - Parameter bytes: An object. They must stay while anything is read, or until ``keepBytes()``.
    init(_ bytes: UnsafeRawBufferPointer) throws {
        guard let members = PlainScanner.members(in: bytes, at: 0..<bytes.count),
            bytes.isASCII || String(validating: bytes, as: UTF8.self) != nil
        else { throw NotPlain() }
        self.bytes = bytes
        objects = [members]
    }

    deinit { copy?.deallocate() }

    /// Copies the bytes, for a value that keeps its decoder and reads on later.
    func keepBytes() {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
        copy.copyMemory(from: bytes)
        self.copy = copy
        bytes = UnsafeRawBufferPointer(copy)
    }

    func refuse() -> NotPlain {
        isPlain = false
        return NotPlain()
    }

    /// Looks into an object and returns its number.
    fileprivate func object(at place: Range<Int>) throws -> Int {
        if place.count == bytes.count { return 0 }
        guard let members = PlainScanner.members(in: bytes, at: place) else { throw refuse() }
        objects.append(members)
        return objects.count - 1
    }

    fileprivate func member(_ name: String, of object: Int) -> Range<Int>? {
        var name = name
        return name.withUTF8 { name in
            let name = UnsafeRawBufferPointer(name)
            for member in objects[object] where member.name.count == name.count {
                // Most names differ in their first letter, which is soonest compared here.
                if let first = name.first, bytes[member.name.lowerBound] != first { continue }
                if bytes.part(member.name).order(to: name) == 0 { return member.value }
            }
            return nil
        }
    }

    fileprivate func isNull(_ place: Range<Int>) -> Bool { bytes[place.lowerBound] == UInt8(ascii: "n") }

    fileprivate func decode<T: Decodable>(_ type: T.Type, at place: Range<Int>) throws -> T {
        if type == String.self { return same(try string(at: place)) }
        if type == Bool.self { return same(try truth(at: place)) }
        if type == Int.self { return same(try integer(at: place) as Int) }
        if type == Int32.self { return same(try integer(at: place) as Int32) }
        if type == Int64.self { return same(try integer(at: place) as Int64) }
        if type == UInt.self { return same(try integer(at: place) as UInt) }
        if type == UInt8.self { return same(try integer(at: place) as UInt8) }
        if type == UInt32.self { return same(try integer(at: place) as UInt32) }
        if type == UInt64.self { return same(try integer(at: place) as UInt64) }
        if type == Double.self { return same(try double(at: place)) }
        guard !PlainJSON.isSpecial(type) else { throw refuse() }
        do {
            return try T(from: PlainDecoder(document: self, place: place, type: type))
        } catch { throw refuse() }
    }

    /// Gives a value the name of its own type in generic code, where the caller has compared the two.
    private func same<T, U>(_ value: T) -> U { unsafeBitCast(value, to: U.self) }

    private func string(at place: Range<Int>) throws -> String {
        guard bytes[place.lowerBound] == UInt8(ascii: "\"") else { throw refuse() }
        let text = bytes.part(place.lowerBound + 1..<place.upperBound - 1)
        if text.unescaped(from: 0) == text.count { return String(decoding: text, as: UTF8.self) }
        var unescaped: [UInt8] = []
        var isEscaped = false
        for byte in text {
            if isEscaped, let escape = PlainJSON.escapes.first(where: { $0.letter == byte }) {
                unescaped.append(escape.byte)
                isEscaped = false
            } else if byte == UInt8(ascii: "\\") {
                isEscaped = true
            } else {
                unescaped.append(byte)
            }
        }
        return String(decoding: unescaped, as: UTF8.self)
    }

    private func truth(at place: Range<Int>) throws -> Bool {
        switch bytes[place.lowerBound] {
        case UInt8(ascii: "t"): return true
        case UInt8(ascii: "f"): return false
        default: throw refuse()
        }
    }

    private func integer<I: FixedWidthInteger>(at place: Range<Int>) throws -> I {
        guard let integer = bytes.part(place).integer, let value = I(exactly: integer) else { throw refuse() }
        return value
    }

    private func double(at place: Range<Int>) throws -> Double {
        guard let value = bytes.part(place).double else { throw refuse() }
        return value
    }
}

/// The decoder that a type reads the value at a place from.
struct PlainDecoder: Decoder, SingleValueDecodingContainer {
    let document: PlainDocument
    let place: Range<Int>
    let type: any Any.Type

    // Kept by Foundation's decoder only: whoever looks at the path gets that one.
    var codingPath: [any CodingKey] {
        _ = document.refuse()
        return []
    }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(PlainMembers(document: document, object: try document.object(at: place)))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { throw document.refuse() }
    func singleValueContainer() throws -> any SingleValueDecodingContainer { self }
    func decodeNil() -> Bool { document.isNull(place) }

    func decode<T: Decodable>(_ type: T.Type) throws -> T {
        // Types such as Int8 read themselves by asking for themselves.
        guard type != self.type else { throw document.refuse() }
        return try document.decode(type, at: place)
    }

    /// Returns the unchanged JSON of an object.
    func object() throws -> [UInt8] {
        guard document.bytes[place.lowerBound] == UInt8(ascii: "{") else { throw document.refuse() }
        return [UInt8](document.bytes.part(place))
    }
}

/// An object's members.
private struct PlainMembers<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let document: PlainDocument
    let object: Int

    var codingPath: [any CodingKey] {
        _ = document.refuse()
        return []
    }
    var allKeys: [Key] {
        _ = document.refuse()
        return []
    }

    private func place(_ key: Key) -> Range<Int>? { document.member(key.stringValue, of: object) }

    private func mandatory(_ key: Key) throws -> Range<Int> {
        guard let place = place(key) else { throw document.refuse() }
        return place
    }

    func contains(_ key: Key) -> Bool { place(key) != nil }
    func decodeNil(forKey key: Key) throws -> Bool { document.isNull(try mandatory(key)) }
    func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T {
        try document.decode(type, at: try mandatory(key))
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> { throw document.refuse() }
    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        throw document.refuse()
    }
    func superDecoder() throws -> any Decoder { throw document.refuse() }
    func superDecoder(forKey key: Key) throws -> any Decoder { throw document.refuse() }
}
