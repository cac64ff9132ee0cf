import FoundationEssentials

/// One JSON value, keeping the kind and the full range of the numbers it was made from.
public enum JSONValue: Codable, Hashable, Sendable {
    case null
    case bool(Bool)
    case integer(Int64)
    /// An integer above `Int64.max`.
    case unsigned(UInt64)
    case number(Double)
    case string(String)
    case array([JSONValue])
    case object([String: JSONValue])

    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Int64.self) {
            self = .integer(value)
        } else if let value = try? container.decode(UInt64.self) {
            self = .unsigned(value)
        } else if let value = try? container.decode(Double.self) {
            self = .number(value)
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let value = try? container.decode([JSONValue].self) {
            self = .array(value)
        } else {
            self = .object(try container.decode([String: JSONValue].self))
        }
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .bool(let value): try container.encode(value)
        case .integer(let value): try container.encode(value)
        case .unsigned(let value): try container.encode(value)
        case .number(let value): try container.encode(value)
        case .string(let value): try container.encode(value)
        case .array(let value): try container.encode(value)
        case .object(let value): try container.encode(value)
        }
    }
}

/// The arguments of a handler by name, as they are stored: one JSON object.
///
/// Used by ``Handler/upcast(_:from:)`` to change old arguments, and for call-time arguments that override bound ones.
///
/// ```swift
/// var overrides = Record()
/// try overrides.set("attempt", to: 3)
/// ```
public struct Record: Hashable, Sendable, Codable {
    /// The arguments by name.
    public private(set) var values: [String: JSONValue]

    public init(_ values: [String: JSONValue] = [:]) { self.values = values }

    public init(from decoder: any Decoder) throws {
        values = try decoder.singleValueContainer().decode([String: JSONValue].self)
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(values)
    }

    /// Whether there is no argument.
    public var isEmpty: Bool { values.isEmpty }

    /// The argument `name`; setting nil removes it.
    public subscript(name: String) -> JSONValue? {
        get { values[name] }
        set { values[name] = newValue }
    }

    /// Stores a Codable value under `name`.
    ///
    /// - Throws: ``HandlerError`` with code `argumentNotEncodable` when the value cannot be stored.
    public mutating func set(_ name: String, to value: some Encodable) throws(HandlerError) {
        do {
            values[name] = try JSONDecoder().decode(JSONValue.self, from: JSONEncoder().encode(value))
        } catch {
            throw HandlerError(
                .argumentNotEncodable, "the argument '\(name)' cannot be stored: \(plainReason(error))",
                cause: error)
        }
    }

    /// Gives the argument `old` the name `new`; does nothing when there is none.
    public mutating func rename(_ old: String, to new: String) {
        guard let value = values.removeValue(forKey: old) else { return }
        values[new] = value
    }

    /// Replaces arguments by those of `other`, name by name.
    public mutating func merge(_ other: Record) {
        values.merge(other.values) { _, new in new }
    }
}

/// The sentence inside a coding error, without Swift's own framing.
func plainReason(_ error: any Error) -> String {
    switch error {
    case let error as HandlerError: error.message
    case EncodingError.invalidValue(let value, let context):
        "\(context.debugDescription) (value \(value) at \(pathText(context.codingPath)))"
    case DecodingError.dataCorrupted(let context): context.debugDescription
    default: String(describing: error)
    }
}

func pathText(_ path: [any CodingKey]) -> String {
    path.isEmpty ? "the top" : path.map(\.stringValue).joined(separator: ".")
}
