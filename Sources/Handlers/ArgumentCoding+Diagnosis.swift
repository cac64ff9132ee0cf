#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The diagnosis of unreadable stored arguments, in terms of handler, argument, expected and found.
extension ArgumentCoding {
    /// The place of a value: the names and indexes that lead to it.
    private typealias Path = [String]

    /// The maximum number of values tried in search of one that does not fit.
    private static let searchLimit = 100

    /// The sentence for a value that has the right kind and is none of the argument's type all the same: a number
    /// out of range, an unknown case, text that is no date.
    static func corrupted<H: DurableHandler>(
        _ type: H.Type, _ bytes: [UInt8], _ context: DecodingError.Context
    ) -> HandlerError {
        if let misfit = misfit(type, bytes) {
            return HandlerError(
                .wrongArgument,
                "the argument '\(misfit.path.joined(separator: "."))' of the handler '\(H.id)' should be \(misfit.expected), but \(kind(of: misfit.value)) was stored"
            )
        }
        guard !context.codingPath.isEmpty else {
            return HandlerError(
                .wrongArgument,
                "the arguments of the handler '\(H.id)' cannot be read: \(context.debugDescription)")
        }
        return HandlerError(
            .wrongArgument,
            "the argument '\(pathText(context.codingPath))' of the handler '\(H.id)' cannot be read from \(kind(of: value(in: bytes, at: context.codingPath))): \(context.debugDescription)"
        )
    }

    /// Finds the number that does not fit its argument. The decoder says that there is one, but not where: it is
    /// the one that still fails when all others are 0.
    private static func misfit<H: DurableHandler>(
        _ type: H.Type, _ bytes: [UInt8]
    ) -> (path: Path, value: JSONValue, expected: String)? {
        guard let root = try? JSONDecoder().decode(JSONValue.self, from: Data(bytes)) else { return nil }
        var numbers: [(path: Path, value: JSONValue)] = []
        _ = replacingNumbers(in: root) { path, value in
            numbers.append((path, value))
            return value
        }
        for number in numbers.prefix(searchLimit) {
            let alone = replacingNumbers(in: root) { $0 == number.path ? $1 : .integer(0) }
            guard case .dataCorrupted(let context) = failure(type, alone), context.codingPath.isEmpty else {
                continue
            }
            let asText = replacingNumbers(in: root) { path, _ in
                path == number.path ? .string("") : .integer(0)
            }
            guard case .typeMismatch(let expected, _) = failure(type, asText) else { continue }
            return (number.path, number.value, "\(expected)")
        }
        return nil
    }

    private static func failure<H: DurableHandler>(_ type: H.Type, _ value: JSONValue) -> DecodingError? {
        do {
            _ = try JSONDecoder().decode(type, from: encoder().encode(value))
            return nil
        } catch { return error as? DecodingError }
    }

    private static func replacingNumbers(
        in value: JSONValue, at path: Path = [], by replacement: (Path, JSONValue) -> JSONValue
    ) -> JSONValue {
        switch value {
        case .integer, .unsigned, .number, .decimal: replacement(path, value)
        case .array(let items):
            .array(items.enumerated().map { replacingNumbers(in: $1, at: path + ["\($0)"], by: replacement) })
        case .object(let members):
            .object(
                Dictionary(
                    uniqueKeysWithValues: members.sorted { $0.key < $1.key }.map {
                        ($0, replacingNumbers(in: $1, at: path + [$0], by: replacement))
                    }))
        case .null, .bool, .string: value
        }
    }

    /// The stored value at a decoder's path; null when there is none.
    static func value(in bytes: [UInt8], at path: [any CodingKey]) -> JSONValue {
        var value = (try? JSONDecoder().decode(JSONValue.self, from: Data(bytes))) ?? .null
        for key in path {
            switch value {
            case .object(let members): value = members[key.stringValue] ?? .null
            case .array(let items):
                value = key.intValue.flatMap { items.indices.contains($0) ? items[$0] : nil } ?? .null
            default: break
            }
        }
        return value
    }

    /// Names a value by its kind, without showing text, which may be a secret.
    static func kind(of value: JSONValue) -> String {
        switch value {
        case .null: "null"
        case .bool(let value): "the truth value \(value)"
        case .integer(let value): "the integer \(value)"
        case .unsigned(let value): "the integer \(value)"
        case .number(let value): "the number \(value)"
        case .decimal(let value): "the number \(value)"
        case .string: "a string"
        case .array: "a list"
        case .object: "an object"
        }
    }
}
