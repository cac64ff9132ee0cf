/// The grammar of SCRAM messages (RFC 5802 section 7): `a=value,b=value`.
///
/// Read as bytes: a Swift `Character` may join a comma with the accent after it, and `String` equality takes
/// different bytes for the same.
package struct SCRAMMessage {
    /// Attributes in their order.
    package let attributes: [(name: UInt8, value: ArraySlice<UInt8>)]
    /// The message as it was received.
    package let bytes: [UInt8]

    /// A message that is longer than this is refused unread.
    static let longestMessage = 16 * 1024

    package init(_ bytes: some Collection<UInt8>) throws(SASLError) {
        guard bytes.count <= SCRAMMessage.longestMessage, String(validating: bytes, as: UTF8.self) != nil
        else { throw SCRAMMessage.malformed("not UTF-8, or too long") }
        self.bytes = Array(bytes)
        var attributes: [(UInt8, ArraySlice<UInt8>)] = []
        for part in self.bytes.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false) {
            guard let name = part.first, SCRAMMessage.isLetter(name),
                part.dropFirst().first == UInt8(ascii: "=")
            else { throw SCRAMMessage.malformed("an attribute without a name") }
            attributes.append((name, part.dropFirst(2)))
        }
        self.attributes = attributes
    }

    /// Returns the values, when the first attributes are exactly these; what follows are optional extensions,
    /// ignored.
    ///
    /// - Throws: `unsupportedExtension` when the message holds the mandatory extension `m=`.
    package func values(_ names: Unicode.Scalar...) throws(SASLError) -> [ArraySlice<UInt8>] {
        if attributes.contains(where: { $0.name == UInt8(ascii: "m") }) {
            throw SASLError(
                .unsupportedExtension,
                "The other side demands a SCRAM extension that is not known here; use "
                    + "another mechanism or a newer version.")
        }
        guard attributes.count >= names.count,
            zip(attributes, names).allSatisfy({ $0.name == UInt8(ascii: $1) })
        else { throw SCRAMMessage.malformed("attributes are missing or out of order") }
        return attributes.prefix(names.count).map(\.value)
    }

    package static func malformed(_ what: String) -> SASLError {
        SASLError(
            .malformedMessage,
            "The other side's SCRAM message breaks the protocol; report this to its operator.",
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

    /// Returns the unescaped text; nil if a `=` starts another sequence.
    package static func unescaped(_ text: ArraySlice<UInt8>) -> String? {
        let pieces = text.split(separator: UInt8(ascii: "="), omittingEmptySubsequences: false)
        var result = Array(pieces[0])
        for piece in pieces.dropFirst() {
            if piece.starts(with: "2C".utf8) {
                result.append(UInt8(ascii: ","))
            } else if piece.starts(with: "3D".utf8) {
                result.append(UInt8(ascii: "="))
            } else {
                return nil
            }
            result += piece.dropFirst(2)
        }
        return String(decoding: result, as: UTF8.self)
    }

    /// Returns whether the text is a nonce: one or more printable ASCII characters other than the comma.
    package static func isNonce(_ text: some Collection<UInt8>) -> Bool {
        !text.isEmpty && text.allSatisfy { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: ",") }
    }

    /// Returns a nonce of 18 random bytes: 24 characters.
    package static func makeNonce() -> String { Crypto.base64(Crypto.randomBytes(18)) }

    private static func isLetter(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
    }
}
