#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// A JSON value that keeps the kind and the full range of its numbers.
///
/// ```swift
/// let value = JSONValue.object(["name": .string("Juliet"), "tries": .integer(3), "note": .null])
/// ```
public enum JSONValue: Codable, Hashable, Sendable {
    /// JSON's `null`.
    case null
    /// `true` or `false`.
    case bool(Bool)
    /// An integer in the range of `Int64`.
    case integer(Int64)
    /// An integer above `Int64.max`.
    case unsigned(UInt64)
    /// Any other number that a `Double` keeps with every digit.
    case number(Double)
    /// A number that neither a `Double` nor 64 bits hold exactly.
    case decimal(Decimal)
    /// A text.
    case string(String)
    /// Values in order.
    case array([JSONValue])
    /// Values by name; JSON does not say in which order.
    case object([String: JSONValue])

    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        // Each kind that is tried in vain costs a thrown error, so the frequent ones stand first.
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let members = try? decoder.container(keyedBy: Name.self) {
            var object: [String: JSONValue] = [:]
            for name in members.allKeys {
                object[name.stringValue] = try members.decode(JSONValue.self, forKey: name)
            }
            self = .object(object)
        } else if var items = try? decoder.unkeyedContainer() {
            var array: [JSONValue] = []
            while !items.isAtEnd { array.append(try items.decode(JSONValue.self)) }
            self = .array(array)
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else {
            self = try Self.number(in: container)
        }
    }

    /// Reads a number as the narrowest kind that keeps every digit and the sign.
    private static func number(in container: any SingleValueDecodingContainer) throws -> JSONValue {
        let double = try? container.decode(Double.self)
        if double == 0, double?.sign == .minus { return .number(-0.0) }
        // Nil also where a decimal has too small a range and would come out as another number.
        let decimal = (try? container.decode(Decimal.self)).flatMap { Double("\($0)") == double ? $0 : nil }
        if let value = try? container.decode(Int64.self), isExact(Decimal(value), decimal) {
            return .integer(value)
        }
        if let value = try? container.decode(UInt64.self), isExact(Decimal(value), decimal) {
            return .unsigned(value)
        }
        if let double, isExact(Decimal(string: "\(double)"), decimal) { return .number(double) }
        return try .decimal(container.decode(Decimal.self))
    }

    private static func isExact(_ value: Decimal?, _ decimal: Decimal?) -> Bool {
        decimal == nil || value == decimal
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .bool(let value): try container.encode(value)
        case .integer(let value): try container.encode(value)
        case .unsigned(let value): try container.encode(value)
        case .number(let value): try container.encode(value)
        case .decimal(let value): try container.encode(value)
        case .string(let value): try container.encode(value)
        case .array(let value): try container.encode(value)
        case .object(let value): try container.encode(value)
        }
    }

    /// Any member name.
    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByFloatLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    public init(stringLiteral value: String) { self = .string(value) }
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(integerLiteral value: Int64) { self = .integer(value) }
    public init(floatLiteral value: Double) { self = .number(value) }
    public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        self = .object(Dictionary(elements) { _, last in last })
    }
}
