@_spi(Reflection) import Swift

/// Finds the stored arguments of a handler in plain form: its stored properties, by the names of its coding keys.
///
/// The properties and their types come from the standard library's own reflection, which reads what the compiler left
/// in the program: it runs none of the handler's code, knows every argument, and works in debug, release and
/// static builds. The other way, decoding from a decoder that records what it is asked for, would have to make up a
/// value for every argument to get to the next one, and the first type that refuses it (an address, an enum, a positive
/// number) would hide all arguments after itself.
///
/// Reflection does not see which key a property is stored under, so the keys are asked, and an answer that cannot be
/// had is an error: a guess would be a lock that does not lock.
enum ArgumentReflection {
    static func arguments<H: DurableHandler>(of handler: H.Type) throws(HandlerError) -> [HandlerArgument] {
        let properties = try properties(of: handler)
        if properties.isEmpty { return [] }
        guard let isKey = KeyProbe.keys(of: handler) else {
            throw unknown(H.id, "its arguments are not decoded by name")
        }
        for property in properties where !isKey(property.name) {
            throw unknown(H.id, "its property '\(property.name)' has no coding key of that name")
        }
        return properties
    }

    private static func properties<H>(of handler: H.Type) throws(HandlerError) -> [HandlerArgument]
    where H: DurableHandler {
        var properties: [HandlerArgument] = []
        let isSeen = _forEachField(of: handler) { name, _, type, _ in
            properties.append(.init(String(cString: name), type))
            return true
        }
        // A type that stores something has a size; nothing is seen of a class, an enum, or where the program was built
        // without reflection metadata.
        guard isSeen, !properties.isEmpty || MemoryLayout<H>.size == 0 else {
            throw unknown(H.id, "nothing is known of its stored properties")
        }
        return properties
    }

    private static func unknown(_ id: String, _ reason: String) -> HandlerError {
        HandlerError(
            .unknownSignature,
            "the arguments of the handler '\(id)' cannot be listed, because \(reason); list them in 'static var storedArguments: [HandlerArgument]'"
        )
    }
}

extension DurableHandler {
    public static var storedArguments: [HandlerArgument] {
        get throws(HandlerError) { try ArgumentReflection.arguments(of: Self.self) }
    }
}

/// A decoder that takes note of the coding keys it is asked for, and gives nothing.
private final class KeyProbe: Decoder {
    struct Stop: Error {}

    let codingPath: [any CodingKey] = []
    let userInfo: [CodingUserInfoKey: Any] = [:]
    private var isKey: ((String) -> Bool)?

    /// Returns whether there is a key of a name; nil for a type that is not decoded by keys.
    static func keys(of type: any Decodable.Type) -> ((String) -> Bool)? {
        let probe = KeyProbe()
        _ = try? type.init(from: probe)
        return probe.isKey
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        isKey = { Key(stringValue: $0) != nil }
        throw Stop()
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { throw Stop() }
    func singleValueContainer() throws -> any SingleValueDecodingContainer { throw Stop() }
}
