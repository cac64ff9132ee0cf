#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A handler with its arguments bound: a typed partial application that can be stored.
///
/// Only what promises a `Context` takes a `Durable<Context>`, so a handler that cannot be called with what, say, an
/// IQ reply supplies does not compile there. A durable handler is itself Codable and so may be an argument of
/// another handler.
///
/// ```swift
/// let then = try Durable(Greet(name: "Juliet"))
/// ```
public struct Durable<Context: Sendable>: Hashable, Sendable, CustomStringConvertible {
    /// The stored name, ``DurableHandler/id``.
    public var name: String { storedName.string }
    package let storedName: Name
    /// The version of the argument list.
    package let version: Int
    /// The bound arguments: the bytes of one JSON object.
    package let arguments: [UInt8]
    /// The invalidation handler: the bytes of a `Durable<Invalidation>`.
    let orElseBytes: [UInt8]?

    package init(name: String, version: Int, arguments: [UInt8], orElseBytes: [UInt8]? = nil) {
        storedName = Name(name)
        self.version = version
        self.arguments = arguments
        self.orElseBytes = orElseBytes
    }

    /// Binds a handler.
    ///
    /// - Parameter handler: The handler whose stored properties become the bound arguments.
    /// - Throws: ``HandlerError`` with code `argumentNotEncodable` when an argument cannot be stored; the sentence
    ///   names handler and argument.
    public init<H: DurableHandler>(_ handler: H) throws(HandlerError) where H.Context == Context {
        if let bytes = PlainJSON.encode(handler) {
            self.init(name: H.id, version: H.version, arguments: bytes)
            return
        }
        let bytes: [UInt8]
        do {
            bytes = try [UInt8](ArgumentCoding.encoder().encode(handler))
        } catch {
            let argument =
                Self.unstorableArgument(of: handler).map { "the argument '\($0)'" } ?? "an argument"
            throw HandlerError(
                .argumentNotEncodable,
                "\(argument) of the handler '\(H.id)' cannot be stored: \(plainReason(error)); bind a value that JSON can hold",
                cause: error)
        }
        guard bytes.first == UInt8(ascii: "{") else {
            throw HandlerError(
                .argumentNotEncodable,
                "the handler '\(H.id)' does not encode its arguments by name; encode them with a keyed container"
            )
        }
        guard !ArgumentCoding.isTooDeep(bytes) else { throw Self.tooDeep(H.id) }
        self.init(name: H.id, version: H.version, arguments: bytes)
    }

    /// Returns the property whose encoding throws. The error of a type's own `encode(to:)` does not say where it was thrown.
    private static func unstorableArgument<H: DurableHandler>(of handler: H) -> String? {
        Mirror(reflecting: handler).children.first { child in
            guard let value = child.value as? any Encodable else { return false }
            return (try? ArgumentCoding.encode(value)) == nil
        }?.label
    }

    /// This handler with what runs instead when it can never be called any more: after a lost session, a timeout, a
    /// cancellation. It goes with the handler wherever that is bound, also as an argument of another handler.
    ///
    /// ```swift
    /// let then = try Thank(customer: "Ada").durable.orElse(NotPaid(customer: "Ada").durable)
    /// ```
    ///
    /// - Parameter invalidation: Called with the reason; it replaces an earlier one. Nil leaves the handler as it is.
    /// - Returns: The handler with its invalidation; bind this one.
    /// - Throws: ``HandlerError`` with code `argumentNotEncodable` when it cannot be stored.
    public func orElse(_ invalidation: Durable<Invalidation>?) throws(HandlerError) -> Durable {
        guard let invalidation else { return self }
        let bytes = try ArgumentCoding.encode(
            invalidation, named: "the invalidation '\(invalidation.name)' of the handler '\(name)'")
        return Durable(name: name, version: version, arguments: arguments, orElseBytes: bytes)
    }

    /// This handler with some of its arguments replaced by name: for one that was handed over and is handed on, to a
    /// request, a timer, PubSub or OMEMO, with what has become known since it was bound.
    ///
    /// ```swift
    /// try account.send(.pubsub(.items(of: node), at: peer), then: then.overriding(["attempt": 2]), in: step)
    /// ```
    ///
    /// - Parameter overrides: Arguments that win over bound ones by name. They are stored, so their names are those of the
    ///   `version` in which the handler was bound; ``DurableHandler/upcast(_:from:)`` brings all of them forward.
    /// - Returns: The handler with those arguments, and with the same invalidation.
    /// - Throws: ``HandlerError`` with code `argumentNotEncodable` when an argument cannot be stored, or `wrongArgument` when the
    ///   stored bytes are no JSON object.
    public func overriding(_ overrides: Record) throws(HandlerError) -> Durable {
        if overrides.isEmpty { return self }
        var record = try record
        record.merge(overrides)
        let bytes = try ArgumentCoding.encode(record, named: "an argument of the handler '\(name)'")
        guard !ArgumentCoding.isTooDeep(bytes) else { throw Self.tooDeep(name) }
        return Durable(name: name, version: version, arguments: bytes, orElseBytes: orElseBytes)
    }

    private static func tooDeep(_ name: String) -> HandlerError {
        HandlerError(
            .argumentNotEncodable,
            "the arguments of the handler '\(name)' are nested deeper than \(ArgumentCoding.maximumDepth); keep such a value in a table of your own and bind its key"
        )
    }

    /// Returns the same handler for a caller that supplies a ``ConvertibleContext``.
    package func calledWith<Other: ConvertibleContext>(_ context: Other.Type) -> Durable<Other> {
        Durable<Other>(name: name, version: version, arguments: arguments, orElseBytes: orElseBytes)
    }

    /// The bound arguments by name.
    ///
    /// - Throws: ``HandlerError`` with code `wrongArgument` when the stored bytes are no JSON object.
    package var record: Record {
        get throws(HandlerError) { try ArgumentCoding.record(arguments, handler: name) }
    }

    /// Name, version and arguments, with secrets masked.
    public var description: String { "\(name)@\(version)\(Masking.text(arguments))" }
}

extension Durable: Codable {
    // "$handler" marks a nested handler inside stored arguments, so that it can be found there without its type.
    private enum CodingKeys: String, CodingKey {
        case name = "$handler"
        case version
        case arguments
        case orElseBytes = "orElse"
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            name: try container.decode(String.self, forKey: .name),
            version: try container.decode(Int.self, forKey: .version),
            arguments: try container.decode(Encoded<Record>.self, forKey: .arguments).bytes,
            orElseBytes: try container.decodeIfPresent(Encoded<JSONValue>.self, forKey: .orElseBytes)?.bytes)
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(name, forKey: .name)
        try container.encode(version, forKey: .version)
        try container.encode(Encoded<Record>(bytes: arguments), forKey: .arguments)
        try container.encodeIfPresent(orElseBytes.map(Encoded<JSONValue>.init(bytes:)), forKey: .orElseBytes)
    }
}

/// JSON inside arguments, which needs no decoding where the coder takes it as it is.
private struct Encoded<Value: Codable>: Codable {
    let bytes: [UInt8]

    init(bytes: [UInt8]) { self.bytes = bytes }

    init(from decoder: any Decoder) throws {
        if let plain = decoder as? PlainDecoder {
            bytes = try plain.object()
        } else {
            bytes = try [UInt8](ArgumentCoding.encoder().encode(Value(from: decoder)))
        }
    }

    func encode(to encoder: any Encoder) throws {
        if let plain = encoder as? PlainEncoder {
            try plain.encode(object: bytes)
        } else {
            try JSONDecoder().decode(Value.self, from: Data(bytes)).encode(to: encoder)
        }
    }
}
