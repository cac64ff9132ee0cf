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
        do {
            let bytes = try [UInt8](ArgumentCoding.encoder().encode(handler))
            self.init(name: H.id, version: H.version, arguments: bytes)
        } catch {
            throw HandlerError(
                .argumentNotEncodable,
                "an argument of the handler '\(H.id)' cannot be stored: \(plainReason(error)); bind a value that JSON can hold",
                cause: error)
        }
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

/// How arguments become bytes and back: one place, so that every row reads alike.
enum ArgumentCoding {
    static func encoder() -> JSONEncoder {
        let encoder = JSONEncoder()
        // Sorted keys make equal arguments equal bytes, which tests, resends and diffs rely on.
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return encoder
    }

    static func record(_ bytes: [UInt8], handler: String) throws(HandlerError) -> Record {
        do {
            return try JSONDecoder().decode(Record.self, from: Data(bytes))
        } catch {
            throw HandlerError(
                .wrongArgument,
                "the stored arguments of the handler '\(handler)' are no JSON object: \(plainReason(error))",
                cause: error)
        }
    }

    /// Decodes a handler and turns decoding errors into sentences with handler, argument, expected and found.
    static func decode<H: Handler>(_ type: H.Type, from bytes: [UInt8]) throws(HandlerError) -> H {
        do {
            return try JSONDecoder().decode(H.self, from: Data(bytes))
        } catch DecodingError.keyNotFound(let key, let context) {
            let argument = (context.codingPath + [key]).map(\.stringValue).joined(separator: ".")
            throw HandlerError(
                .missingArgument,
                "the handler '\(H.id)' was called without its mandatory argument '\(argument)'; bind it or make it optional"
            )
        } catch DecodingError.valueNotFound(let expected, let context) {
            throw HandlerError(
                .missingArgument,
                "the handler '\(H.id)' needs a value for its argument '\(pathText(context.codingPath))' of type \(expected), but found null"
            )
        } catch DecodingError.typeMismatch(let expected, let context) {
            throw HandlerError(
                .wrongArgument,
                "the argument '\(pathText(context.codingPath))' of the handler '\(H.id)' should be \(expected), but \(found(bytes, at: context.codingPath)) was stored"
            )
        } catch {
            throw HandlerError(
                .wrongArgument,
                "the arguments of the handler '\(H.id)' cannot be read: \(plainReason(error))", cause: error)
        }
    }

    /// Reads a stored `orElse`.
    static func durable(_ bytes: [UInt8], of handler: String) throws(HandlerError) -> StoredHandler {
        do {
            let durable = try JSONDecoder().decode(Durable<Invalidation>.self, from: Data(bytes))
            return StoredHandler(name: durable.name, version: durable.version, arguments: durable.arguments)
        } catch {
            throw HandlerError(
                .wrongArgument,
                "the invalidation of the handler '\(handler)' cannot be read: \(plainReason(error))",
                cause: error)
        }
    }

    /// Names the kind of value that stands at `path`.
    private static func found(_ bytes: [UInt8], at path: [any CodingKey]) -> String {
        guard var value = try? JSONDecoder().decode(JSONValue.self, from: Data(bytes)) else {
            return "something else"
        }
        for key in path {
            switch value {
            case .object(let members): value = members[key.stringValue] ?? .null
            case .array(let items):
                value = key.intValue.flatMap { items.indices.contains($0) ? items[$0] : nil } ?? .null
            default: break
            }
        }
        switch value {
        case .null: return "null"
        case .bool(let value): return "the truth value \(value)"
        case .integer(let value): return "the integer \(value)"
        case .unsigned(let value): return "the integer \(value)"
        case .number(let value): return "the number \(value)"
        case .string: return "a string"
        case .array: return "a list"
        case .object: return "an object"
        }
    }
}
