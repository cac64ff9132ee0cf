/// The grammar of SCRAM messages (RFC 5802 section 7): `a=value,b=value`.
struct SCRAMMessage {
    /// Attributes in their order.
    let attributes: [(name: Character, value: Substring)]
    /// The message as it was received.
    let text: String

    /// A message that is longer than this is refused unread.
    static let longestMessage = 16 * 1024

    init(_ bytes: some Collection<UInt8>) throws(SASLError) {
        guard bytes.count <= SCRAMMessage.longestMessage, let text = String(validating: bytes, as: UTF8.self)
        else {
            throw SCRAMMessage.malformed("not UTF-8, or too long")
        }
        try self.init(text: text)
    }

    init(text: String) throws(SASLError) {
        self.text = text
        var attributes: [(Character, Substring)] = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            let name = part.unicodeScalars.first
            guard let name, name.properties.isASCIIHexDigit || (name.isASCII && name.properties.isAlphabetic),
                part.unicodeScalars.dropFirst().first == "="
            else { throw SCRAMMessage.malformed("an attribute without a name") }
            attributes.append((Character(name), Substring(part.unicodeScalars.dropFirst(2))))
        }
        self.attributes = attributes
    }

    /// The values, when the first attributes are exactly these; what follows are optional extensions,
    /// ignored.
    ///
    /// - Throws: `unsupportedExtension` when the message begins with the mandatory extension `m=`.
    func values(_ names: Character...) throws(SASLError) -> [Substring] {
        if attributes.first?.name == "m" {
            throw SASLError(
                .unsupportedExtension,
                "The other side demands a SCRAM extension that is not known here; use another mechanism or a newer version."
            )
        }
        guard attributes.count >= names.count, zip(attributes, names).allSatisfy({ $0.name == $1 }) else {
            throw SCRAMMessage.malformed("attributes are missing or out of order")
        }
        return attributes.prefix(names.count).map(\.value)
    }

    static func malformed(_ what: String) -> SASLError {
        SASLError(
            .malformedMessage,
            "The other side's SCRAM message breaks the protocol; its operator must be "
                + "told.",
            cause: what)
    }

    /// `,` and `=` written as `=2C` and `=3D`.
    static func escaped(_ name: String) -> String {
        name.unicodeScalars.reduce(into: "") { result, scalar in
            switch scalar {
            case ",": result += "=2C"
            case "=": result += "=3D"
            default: result.unicodeScalars.append(scalar)
            }
        }
    }

    /// The reverse; nil when a `=` begins anything else.
    static func unescaped(_ text: Substring) -> String? {
        var pieces = text.split(separator: "=", omittingEmptySubsequences: false)[...]
        var result = String(pieces.popFirst() ?? "")
        for piece in pieces {
            if piece.hasPrefix("2C") {
                result += ","
            } else if piece.hasPrefix("3D") {
                result += "="
            } else {
                return nil
            }
            result += piece.dropFirst(2)
        }
        return result
    }

    /// Whether the text is a nonce: one or more printable ASCII characters other than the comma.
    static func isNonce(_ text: some StringProtocol) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: ",") }
    }

    /// A nonce of 18 random bytes: 24 characters.
    static func makeNonce() -> String { Crypto.base64(Crypto.randomBytes(18)) }
}
