/// What RFC 6120 section 11.5 and 11.6 want of `<?xml …?>`: version 1.0, and no encoding but UTF-8.
enum XMLDeclaration {
    /// Checks a complete declaration. That it is well-formed is left to libxml2, which sees it next.
    static func check(_ bytes: [UInt8]) throws(StreamParserError) {
        if let encoding = value(of: "encoding", in: bytes), encoding.lowercased() != "utf-8" {
            throw StreamParserError(
                .unsupportedEncoding,
                "The XML declaration names another encoding than UTF-8, the only one of XMPP.")
        }
        if let version = value(of: "version", in: bytes), version != "1.0" {
            throw StreamParserError(.notWellFormed, "The XML declaration names another version than 1.0.")
        }
    }

    private static func value(of name: String, in bytes: [UInt8]) -> String? {
        let name = Array(name.utf8)
        guard let start = bytes.indices.first(where: { bytes[$0...].starts(with: name) }) else { return nil }
        let rest = bytes[(start + name.count)...]
        guard let open = rest.firstIndex(where: { $0 == UInt8(ascii: "'") || $0 == UInt8(ascii: "\"") })
        else { return nil }
        let inside = rest[(open + 1)...]
        return String(decoding: inside.prefix { $0 != rest[open] }, as: UTF8.self)
    }
}
