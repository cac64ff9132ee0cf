import FoundationEssentials

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
    /// The stored name, ``Handler/id``.
    public let name: String
    /// The version of the argument list.
    public let version: Int
    /// The bound arguments: the bytes of one JSON object.
    package let arguments: [UInt8]

    package init(name: String, version: Int, arguments: [UInt8]) {
        self.name = name
        self.version = version
        self.arguments = arguments
    }

    /// Binds a handler.
    ///
    /// - Parameter handler: The handler whose stored properties become the bound arguments.
    /// - Throws: ``HandlerError`` with code `argumentNotEncodable` when an argument cannot be stored; the sentence
    ///   names handler and argument.
    public init<H: Handler>(_ handler: H) throws(HandlerError) where H.Context == Context {
        let bytes: [UInt8]
        do {
            bytes = try [UInt8](ArgumentCoding.encoder().encode(handler))
        } catch {
            throw HandlerError(
                .argumentNotEncodable,
                "an argument of the handler '\(H.id)' cannot be stored: \(plainReason(error)); bind a value that JSON can hold",
                cause: error)
        }
        guard bytes.first == UInt8(ascii: "{") else {
            throw HandlerError(
                .argumentNotEncodable,
                "the handler '\(H.id)' does not encode its arguments by name; encode them with a keyed container"
            )
        }
        guard !ArgumentCoding.isTooDeep(bytes) else {
            throw HandlerError(
                .argumentNotEncodable,
                "the arguments of the handler '\(H.id)' are nested deeper than \(ArgumentCoding.maximumDepth); keep such a value in a table of your own and bind its key"
            )
        }
        self.init(name: H.id, version: H.version, arguments: bytes)
    }

    /// The bound arguments by name.
    ///
    /// - Throws: ``HandlerError`` with code `wrongArgument` when the stored bytes are no JSON object.
    public var record: Record {
        get throws(HandlerError) { try ArgumentCoding.record(arguments, handler: name) }
    }

    public var description: String { "\(name)@\(version)\(String(decoding: arguments, as: UTF8.self))" }
}

extension Durable: Codable {
    // "$handler" marks a nested handler inside stored arguments, so that it can be found there without its type.
    private enum CodingKeys: String, CodingKey {
        case name = "$handler"
        case version
        case arguments
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        let record = try container.decode(Record.self, forKey: .arguments)
        self.init(
            name: try container.decode(String.self, forKey: .name),
            version: try container.decode(Int.self, forKey: .version),
            arguments: try [UInt8](ArgumentCoding.encoder().encode(record)))
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(name, forKey: .name)
        try container.encode(version, forKey: .version)
        try container.encode(record, forKey: .arguments)
    }
}
