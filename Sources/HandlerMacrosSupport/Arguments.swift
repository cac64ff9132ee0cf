// How the code that `@Handler` expands to reads and writes bound arguments.
//
// The expansion spells the type of an argument once, at its property, so that a type that cannot be stored is one
// error which shows the argument, not one for each use. Everything else infers the type, through these functions.

/// The type of a bound argument: anything that can be stored. Used by the expansion of `@Handler` only.
public typealias __BoundArgument<Value: Codable> = Value

extension KeyedDecodingContainer {
    /// A mandatory argument. Called by the expansion of `@Handler` only.
    ///
    /// - Throws: `DecodingError` when it is missing or has another type.
    // swift-format-ignore: AlwaysUseLowerCamelCase
    @_disfavoredOverload  // or an optional argument could be read by either of the two
    public func __decodeArgument<Value: Decodable>(_ key: Key) throws -> Value {
        try decode(Value.self, forKey: key)
    }

    /// An optional argument: nil when it is missing. Called by the expansion of `@Handler` only.
    ///
    /// - Throws: `DecodingError` when it has another type.
    // swift-format-ignore: AlwaysUseLowerCamelCase
    public func __decodeArgument<Value: Decodable>(_ key: Key) throws -> Value? {
        try decodeIfPresent(Value.self, forKey: key)
    }

    /// An argument with a default value, which counts when it is missing. Called by the expansion of `@Handler` only.
    ///
    /// - Throws: `DecodingError` when it has another type.
    // swift-format-ignore: AlwaysUseLowerCamelCase
    @_disfavoredOverload  // or an optional argument could be read by either of the two
    public func __decodeArgument<Value: Decodable>(
        _ key: Key, default fallback: @autoclosure () throws -> Value
    ) throws -> Value {
        try decodeIfPresent(Value.self, forKey: key) ?? fallback()
    }

    /// An optional argument with a default value other than nil, which counts when it is missing; a stored null
    /// stays nil. Called by the expansion of `@Handler` only.
    ///
    /// - Throws: `DecodingError` when it has another type.
    // swift-format-ignore: AlwaysUseLowerCamelCase
    public func __decodeArgument<Value: Decodable>(
        _ key: Key, default fallback: @autoclosure () throws -> Value?
    ) throws -> Value? {
        contains(key) ? try decodeIfPresent(Value.self, forKey: key) : try fallback()
    }
}

extension KeyedEncodingContainer {
    /// Stores a mandatory argument. Called by the expansion of `@Handler` only.
    ///
    /// - Throws: `EncodingError` when it cannot be stored.
    // swift-format-ignore: AlwaysUseLowerCamelCase
    public mutating func __encodeArgument<Value: Encodable>(_ value: Value, _ key: Key) throws {
        try encode(value, forKey: key)
    }

    /// Stores an optional argument unless it is nil. Called by the expansion of `@Handler` only.
    ///
    /// - Throws: `EncodingError` when it cannot be stored.
    // swift-format-ignore: AlwaysUseLowerCamelCase
    public mutating func __encodeArgument<Value: Encodable>(_ value: Value?, _ key: Key) throws {
        try encodeIfPresent(value, forKey: key)
    }

    /// Stores an argument that has a default value: a nil too, or it would be read as the default. Called by the
    /// expansion of `@Handler` only.
    ///
    /// - Throws: `EncodingError` when it cannot be stored.
    // swift-format-ignore: AlwaysUseLowerCamelCase
    public mutating func __encodeDefaultedArgument<Value: Encodable>(_ value: Value, _ key: Key) throws {
        try encode(value, forKey: key)
    }
}
