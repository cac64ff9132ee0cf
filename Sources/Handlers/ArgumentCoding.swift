#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The encoding and decoding of arguments, in one place so that all rows have the same form.
package enum ArgumentCoding {
    /// The maximum depth of the JSON of bound arguments; a handler as an argument takes two levels. Well below what the
    /// decoder accepts, so that what was bound can be read.
    static let maximumDepth = 128

    /// Returns whether objects and lists nest deeper in the JSON text than ``maximumDepth``.
    static func isTooDeep(_ json: [UInt8]) -> Bool {
        // Text with fewer brackets in all cannot be; this count is quick, and all that is needed almost always.
        let brackets = json.withUnsafeBufferPointer { bytes in
            var count = 0
            // "[" is 0x5b and "{" 0x7b.
            for byte in bytes { count &+= byte & 0xdf == 0x5b ? 1 : 0 }
            return count
        }
        return brackets > maximumDepth && depth(of: json) > maximumDepth
    }

    private static func depth(of json: [UInt8]) -> Int {
        var depth = 0
        var deepest = 0
        var isInString = false
        var isEscaped = false
        for byte in json {
            switch byte {
            case _ where isEscaped: isEscaped = false
            case UInt8(ascii: "\\") where isInString: isEscaped = true
            case UInt8(ascii: "\""): isInString.toggle()
            case _ where isInString: break
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                depth += 1
                deepest = max(deepest, depth)
            case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
            default: break
            }
        }
        return deepest
    }

    /// Returns whether the JSON text may hold an object with the member `$` + `mark`: most arguments have none, which is
    /// quickly said.
    static func mayHold(mark: StaticString, _ json: [UInt8]) -> Bool {
        let length = mark.utf8CodeUnitCount
        return json.withUnsafeBufferPointer { bytes in
            for index in bytes.indices.dropLast(length) where bytes[index] == UInt8(ascii: "$") {
                let candidate = bytes[(index + 1)...].prefix(length)
                if candidate.elementsEqual(UnsafeBufferPointer(start: mark.utf8Start, count: length)) {
                    return true
                }
            }
            return false
        }
    }

    static func encoder() -> JSONEncoder {
        let encoder = JSONEncoder()
        // Sorted keys make equal arguments equal bytes, which tests, resends and diffs rely on.
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return encoder
    }

    /// Returns the JSON of a value, as ``encoder()`` writes it.
    package static func encode(_ value: some Encodable) throws -> [UInt8] {
        try PlainJSON.encode(value) ?? [UInt8](encoder().encode(value))
    }

    /// Returns the JSON of what is to be stored.
    ///
    /// - Parameter what: What it is, for the error.
    static func encode(
        _ value: some Encodable, named what: @autoclosure () -> String
    ) throws(HandlerError) -> [UInt8] {
        try HandlerError.explaining(.argumentNotEncodable) {
            try encode(value)
        } as: {
            "\(what()) cannot be stored: \($0)"
        }
    }

    /// Returns the value that a decoder reads from JSON.
    package static func value<T: Decodable>(_ type: T.Type, from bytes: [UInt8]) throws -> T {
        do {
            return try PlainJSON.decode(type, from: bytes)
        } catch { return try JSONDecoder().decode(type, from: Data(bytes)) }
    }

    static func record(_ bytes: [UInt8], handler: String) throws(HandlerError) -> Record {
        try HandlerError.explaining(.wrongArgument) {
            try JSONDecoder().decode(Record.self, from: Data(bytes))
        } as: {
            "the stored arguments of the handler '\(handler)' are no JSON object: \($0)"
        }
    }

    /// Decodes a handler and turns decoding errors into sentences with handler, argument, expected and found.
    ///
    /// - Parameter version: The version in which the handler was bound.
    static func decode<H: DurableHandler>(
        _ type: H.Type, from bytes: [UInt8], boundIn version: Int
    ) throws(HandlerError) -> H {
        do {
            return try value(type, from: bytes)
        } catch DecodingError.keyNotFound(let key, let context) {
            let argument = (context.codingPath + [key]).map(\.stringValue).joined(separator: ".")
            throw missingArgument(argument, of: type, boundIn: version)
        } catch DecodingError.valueNotFound(let expected, let context) {
            throw HandlerError(
                .missingArgument,
                "the handler '\(H.id)' needs a value for its argument '\(pathText(context.codingPath))' of type \(expected), but found null"
            )
        } catch DecodingError.typeMismatch(let expected, let context) {
            throw HandlerError(
                .wrongArgument,
                "the argument '\(pathText(context.codingPath))' of the handler '\(H.id)' should be \(expected), but \(kind(of: value(in: bytes, at: context.codingPath))) was stored"
            )
        } catch DecodingError.dataCorrupted(let context) {
            throw corrupted(type, bytes, context)
        } catch {
            throw HandlerError(
                .wrongArgument,
                "the arguments of the handler '\(H.id)' cannot be read: \(plainReason(error))", cause: error)
        }
    }

    private static func missingArgument<H: DurableHandler>(
        _ argument: String, of type: H.Type, boundIn version: Int
    ) -> HandlerError {
        guard version < H.version else {
            return HandlerError(
                .missingArgument,
                "the handler '\(H.id)' was called without its mandatory argument '\(argument)'; bind it, make it optional, or raise the handler's version and let upcast add it"
            )
        }
        return HandlerError(
            .missingArgument,
            "the handler '\(H.id)' was bound in version \(version) without the argument '\(argument)', which version \(H.version) needs; let upcast add it, or make it optional"
        )
    }

    /// Reads a stored invalidation.
    static func orElse(_ bytes: [UInt8], of handler: String) throws(HandlerError) -> Durable<
        Invalidation
    > {
        try HandlerError.explaining(.wrongArgument) {
            try value(Durable<Invalidation>.self, from: bytes)
        } as: {
            "the invalidation of the handler '\(handler)' cannot be read: \($0)"
        }
    }
}
