#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif
import Handlers

/// JSON of answers: sorted keys, and every digit of a number that a store holds.
enum AnswerJSON {
    static let type = "application/json; charset=utf-8"

    static func bytes(_ value: JSONValue) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Only a number that is not finite cannot be written, and none is read from JSON.
        return (try? encoder.encode(value)).map(Array.init) ?? Array("null".utf8)
    }

    static func value(_ bytes: some Sequence<UInt8>) -> JSONValue? {
        try? JSONDecoder().decode(JSONValue.self, from: Data(bytes))
    }

    /// Returns stored JSON that is not longer than a number of bytes, or else the start of it as a text.
    static func stored(_ text: String, atMost most: Int) -> JSONValue {
        guard text.utf8.count > most else { return value(text.utf8) ?? .string(text) }
        return .string(String(decoding: text.utf8.prefix(most), as: UTF8.self) + "…")
    }
}

extension JSONValue {
    static func text(_ value: String?) -> JSONValue { value.map { .string($0) } ?? .null }
    static func row(_ id: AnyHandlerID?) -> JSONValue { text(id.map { "\($0)" }) }
    static func time(_ time: Timestamp?) -> JSONValue { text(time.map { "\($0)" }) }
    static func count(_ value: Int?) -> JSONValue { value.map { .integer(Int64($0)) } ?? .null }
    static func count(_ value: Int64?) -> JSONValue { value.map { .integer($0) } ?? .null }
    static func milliseconds(_ time: Duration?) -> JSONValue {
        time.map { .number($0 / .microseconds(1000)) } ?? .null
    }

    subscript(_ name: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members[name]
    }
    var string: String? {
        guard case .string(let text) = self else { return nil }
        return text
    }
    var integer: Int64? {
        guard case .integer(let value) = self else { return nil }
        return value
    }
}
