/// Reads `<?xml …?>` and refuses another version than 1.0 or another encoding than UTF-8 (XML 1.0 section 2.8,
/// RFC 6120 sections 11.5 and 11.6). libxml2 never sees it: it would change its mind about the encoding.
struct XMLDeclaration {
    private var rest: ArraySlice<UInt8>

    /// Checks a complete declaration.
    ///
    /// - Parameter bytes: From `<?xml` and the white space after it up to `?>`.
    static func check(_ bytes: [UInt8]) throws(StreamParserError) {
        var reader = XMLDeclaration(rest: bytes.dropFirst("<?xml".utf8.count).dropLast("?>".utf8.count))
        guard try reader.value(of: "version") == "1.0" else {
            throw StreamParserError(.notWellFormed, "The XML declaration does not name the version 1.0.")
        }
        if let encoding = try reader.value(of: "encoding"), ForeignText(encoding.lowercased()) != "utf-8" {
            throw StreamParserError(
                .unsupportedEncoding,
                "The XML declaration names another encoding than UTF-8, the only one of XMPP.")
        }
        if let standalone = try reader.value(of: "standalone"), standalone != "yes", standalone != "no" {
            throw malformed
        }
        reader.skipSpace()
        guard reader.rest.isEmpty else { throw malformed }
    }

    private static var malformed: StreamParserError {
        StreamParserError(.notWellFormed, "The XML declaration is malformed.")
    }

    /// The value of the next pseudo-attribute if it has this name; nil, and nothing read, if it has another.
    private mutating func value(of name: String) throws(StreamParserError) -> String? {
        let start = rest
        let hasSpace = skipSpace()
        guard rest.starts(with: name.utf8) else {
            rest = start
            return nil
        }
        rest = rest.dropFirst(name.utf8.count)
        skipSpace()
        let hasEquals = rest.popFirst() == UInt8(ascii: "=")
        skipSpace()
        let quote = rest.popFirst()
        guard hasSpace, hasEquals, quote == UInt8(ascii: "'") || quote == UInt8(ascii: "\"") else {
            throw Self.malformed
        }
        let value = rest.prefix { $0 != quote }
        rest = rest.dropFirst(value.count)
        guard rest.popFirst() != nil else { throw Self.malformed }
        return String(decoding: value, as: UTF8.self)
    }

    @discardableResult
    private mutating func skipSpace() -> Bool {
        let space = rest.prefix { $0 == 0x20 || $0 == 0x09 || $0 == 0x0A || $0 == 0x0D }
        rest = rest.dropFirst(space.count)
        return !space.isEmpty
    }
}
