#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// An argument that no log, report or description of a handler shows.
///
/// It is stored as it is, so that the handler can be called: what keeps it from others is the mode of the database
/// file, 0600.
///
/// ```swift
/// struct SignIn: Handler {
///     static let id = "demo.sign-in"
///     var user: String
///     var token: Secret<String>
///     func run(_ call: borrowing Call<TimerFired>) throws { … }
/// }
/// ```
public struct Secret<Value: Codable & Sendable>: Codable, Sendable, CustomStringConvertible, CustomReflectable
{
    /// The secret value.
    public var value: Value

    /// Wraps a value.
    ///
    /// - Parameter value: What is kept secret.
    public init(_ value: Value) { self.value = value }

    private enum CodingKeys: String, CodingKey {
        case value = "$secret"
    }

    public init(from decoder: any Decoder) throws {
        value = try decoder.container(keyedBy: CodingKeys.self).decode(Value.self, forKey: .value)
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(value, forKey: .value)
    }

    public var description: String { Masking.mask }
    // Or print and dump would show the stored property.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension Secret: Equatable where Value: Equatable {}
extension Secret: Hashable where Value: Hashable {}

/// Stored arguments as they may be shown.
package enum Masking {
    static let mask = "<secret>"

    /// JSON text with every secret in it masked.
    package static func text(_ json: [UInt8]) -> String {
        guard ArgumentCoding.mayHold(mark: "secret", json) else {
            return String(decoding: json, as: UTF8.self)
        }
        guard let value = try? JSONDecoder().decode(JSONValue.self, from: Data(json)),
            let masked = try? ArgumentCoding.encoder().encode(masked(value))
        else { return mask }
        return String(decoding: masked, as: UTF8.self)
    }

    private static func masked(_ value: JSONValue) -> JSONValue {
        switch value {
        case .object(let members):
            members["$secret"] != nil ? .string(mask) : .object(members.mapValues(masked))
        case .array(let items): .array(items.map(masked))
        default: value
        }
    }
}
