/// The encoder that a type writes one value to.
struct PlainEncoder: Encoder, SingleValueEncodingContainer {
    let output: PlainOutput
    let frame: Int
    let type: any Any.Type

    // Kept by Foundation's encoder only: whoever looks at the path gets that one.
    var codingPath: [any CodingKey] {
        _ = output.refuse()
        return []
    }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        output.start(object: true, in: frame)
        return KeyedEncodingContainer(PlainMembers(encoder: self))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer { NoItems(encoder: refused) }
    func singleValueContainer() -> any SingleValueEncodingContainer { self }

    func encodeNil() throws {
        output.start(object: false, in: frame)
        output.writeNull()
    }

    func encode<T: Encodable>(_ value: T) throws {
        // Types such as Int8 write themselves by asking for themselves.
        guard T.self != type else { throw output.refuse() }
        output.start(object: false, in: frame)
        try output.write(value)
    }

    /// Takes the JSON of an object unchanged.
    func encode(object: [UInt8]) throws {
        output.start(object: false, in: frame)
        try output.write(object: object)
    }

    /// What stands where something is asked for that only Foundation has: nothing that it writes counts.
    fileprivate var refused: PlainEncoder {
        _ = output.refuse()
        return PlainEncoder(output: output, frame: 0, type: type)
    }
}

/// An object's members.
private struct PlainMembers<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let encoder: PlainEncoder

    var codingPath: [any CodingKey] { encoder.codingPath }

    func encodeNil(forKey key: Key) throws {
        let member = try encoder.output.startMember(key.stringValue, in: encoder.frame)
        encoder.output.writeNull()
        try encoder.output.endMember(member)
    }

    func encode<T: Encodable>(_ value: T, forKey key: Key) throws {
        let member = try encoder.output.startMember(key.stringValue, in: encoder.frame)
        try encoder.output.write(value)
        try encoder.output.endMember(member)
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) -> KeyedEncodingContainer<Nested> { encoder.refused.container(keyedBy: type) }
    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        encoder.unkeyedContainer()
    }
    func superEncoder() -> any Encoder { encoder.refused }
    func superEncoder(forKey key: Key) -> any Encoder { encoder.refused }
}

/// Arrays are left to Foundation.
private struct NoItems: UnkeyedEncodingContainer {
    let encoder: PlainEncoder
    var count: Int { 0 }

    var codingPath: [any CodingKey] { [] }

    func encodeNil() throws { throw NotPlain() }
    func encode<T: Encodable>(_ value: T) throws { throw NotPlain() }
    func nestedContainer<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        encoder.container(keyedBy: type)
    }
    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { self }
    func superEncoder() -> any Encoder { encoder }
}
