#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The arguments of a handler by name, as they are stored: one JSON object.
///
/// Used by ``DurableHandler/upcast(_:from:)`` to change old arguments, and for call-time arguments that override
/// bound ones.
///
/// ```swift
/// var overrides: Record = ["attempt": 3]
/// try overrides.set("since", to: Date())
/// ```
public struct Record: CodedAsOneValue, Hashable, Sendable, Codable, ExpressibleByDictionaryLiteral {
    /// The arguments by name.
    public private(set) var values: [String: JSONValue]

    package init(_ values: [String: JSONValue] = [:]) { self.values = values }

    package init(coded: [String: JSONValue]) { values = coded }
    package var coded: [String: JSONValue] { values }

    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        self.init(elements.isEmpty ? [:] : Dictionary(elements) { _, last in last })
    }

    /// Whether there is no argument.
    package var isEmpty: Bool { values.isEmpty }

    /// The argument `name`; setting nil removes it.
    ///
    /// - Parameter name: The argument's label.
    public subscript(name: String) -> JSONValue? {
        get { values[name] }
        set { values[name] = newValue }
    }

    /// Stores a Codable value under `name`.
    ///
    /// - Parameters:
    ///   - name: The argument's label.
    ///   - value: What to store; it replaces what was there.
    /// - Throws: ``HandlerError`` with code `argumentNotEncodable` when the value cannot be stored.
    public mutating func set(_ name: String, to value: some Encodable) throws(HandlerError) {
        values[name] = try HandlerError.explaining(.argumentNotEncodable) {
            try JSONDecoder().decode(JSONValue.self, from: JSONEncoder().encode(value))
        } as: {
            "the argument '\(name)' cannot be stored: \($0)"
        }
    }

    /// Gives the argument `old` the name `new`. Does nothing when there is none.
    ///
    /// - Parameters:
    ///   - old: The name that it has.
    ///   - new: The name that it gets; an argument of that name is replaced.
    public mutating func rename(_ old: String, to new: String) {
        guard let value = values.removeValue(forKey: old) else { return }
        values[new] = value
    }

    /// Replaces arguments by those of `other`, name by name.
    ///
    /// - Parameter other: The arguments that win.
    package mutating func merge(_ other: Record) { values.merge(other.values) { _, new in new } }
}

/// The sentence inside a coding error, without Swift's own framing.
func plainReason(_ error: any Error) -> String {
    switch error {
    case let error as HandlerError: error.message
    case let error as CallError: error.message
    case EncodingError.invalidValue(let value, let context):
        // Not the value itself, which may be a secret, unless it is a number that JSON does not have.
        "\(context.debugDescription) (\(value is Double || value is Float ? "\(value)" : "\(type(of: value))") at \(pathText(context.codingPath)))"
    case DecodingError.dataCorrupted(let context): context.debugDescription
    default: String(describing: error)
    }
}

extension String {
    /// The start of a text, up to the last scalar that is whole within a limit.
    func cut(toBytes limit: Int) -> String {
        if utf8.count <= limit { return self }
        var end = utf8.index(utf8.startIndex, offsetBy: limit)
        while UTF8.isContinuation(utf8[end]) { end = utf8.index(before: end) }
        return String(self[..<end])
    }
}

func pathText(_ path: [any CodingKey]) -> String {
    path.isEmpty ? "the top" : path.map(\.stringValue).joined(separator: ".")
}
