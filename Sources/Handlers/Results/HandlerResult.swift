/// What a handler returned, in its stored form.
struct HandlerResult {
    /// The maximum number of bytes: a million endings may be kept.
    static let maximumBytes = 64 << 10

    let bytes: [UInt8]

    init(_ value: some Encodable, of what: String = "the result of a handler") throws(HandlerError) {
        bytes = try ArgumentCoding.encode(StoredValue(value: value), named: what)
        guard bytes.count <= Self.maximumBytes, !ArgumentCoding.isTooDeep(bytes) else {
            throw HandlerError(
                .argumentNotEncodable,
                "\(what) has \(bytes.count) bytes, at most \(Self.maximumBytes), and is nested at most \(ArgumentCoding.maximumDepth) deep; keep it in a table of your own and return its key"
            )
        }
    }

    /// Reads a result.
    static func value<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8], of name: String)
        throws(HandlerError) -> Value
    {
        try HandlerError.explaining(.wrongArgument) {
            try ArgumentCoding.value(StoredValue<Value>.self, from: bytes).value
        } as: {
            "the result of the handler '\(name)' is no \(Value.self): \($0)"
        }
    }
}

extension Ending {
    /// Reads what the handler returned.
    ///
    /// ```swift
    /// if let ending = try step.ending(of: id) { print(try ending.result(as: Payment.self).cents) }
    /// ```
    ///
    /// - Parameter type: The type of the result; inferred where the context says it.
    /// - Returns: The result of ``Call/setResult(_:)`` or ``AsyncCall/end(result:_:)``.
    /// - Throws: ``CallError`` by its code when it failed; ``HandlerError`` `noResult` when it ended otherwise or returned nothing,
    ///   `wrongArgument` when the result has another type.
    public func result<Value: Decodable>(as type: Value.Type = Value.self) throws -> Value {
        if let error { throw error }
        guard let returned else {
            throw HandlerError(.noResult, outcome == .result ? "\(sentence) and returned nothing" : sentence)
        }
        return try HandlerResult.value(type, from: returned, of: name)
    }
}
