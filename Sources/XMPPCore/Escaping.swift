/// Writes text, attribute values and names so that they can be read back (XML 1.0 sections 2.2, 2.3, 2.4, 3.3.3).
enum Escaping {
    static func append(text: ForeignText, to bytes: inout [UInt8]) {
        append(text, to: &bytes, isPlain: isPlainText, escape: textEscape)
    }

    /// For a value in single quotes.
    static func append(attribute value: ForeignText, to bytes: inout [UInt8]) {
        append(value, to: &bytes, isPlain: isPlainValue, escape: valueEscape)
    }

    // MARK: Text and values

    private static func isPlainText(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x20...0x7F: byte != UInt8(ascii: "<") && byte != UInt8(ascii: ">") && byte != UInt8(ascii: "&")
        case 0x09, 0x0A: true
        // U+FFFE and U+FFFF start with EF.
        default: byte >= 0x80 && byte != 0xEF
        }
    }

    private static func isPlainValue(_ byte: UInt8) -> Bool {
        isPlainText(byte) && byte >= 0x20 && byte != UInt8(ascii: "'") && byte != UInt8(ascii: "\"")
    }

    /// Returns the escape of a byte of text. A carriage return would be read as a line feed (XML 1.0 section 2.11); `>` must
    /// be escaped after `]]`.
    private static func textEscape(_ byte: UInt8) -> StaticString? {
        switch byte {
        case UInt8(ascii: "<"): "&lt;"
        case UInt8(ascii: ">"): "&gt;"
        case UInt8(ascii: "&"): "&amp;"
        case 0x0D: "&#13;"
        case 0x00..<0x20: "\u{FFFD}"
        default: nil
        }
    }

    /// Tabs and line feeds would be read as spaces (XML 1.0 section 3.3.3).
    private static func valueEscape(_ byte: UInt8) -> StaticString? {
        switch byte {
        case UInt8(ascii: "'"): "&apos;"
        case UInt8(ascii: "\""): "&quot;"
        case 0x09: "&#9;"
        case 0x0A: "&#10;"
        default: textEscape(byte)
        }
    }

    @inline(__always)
    private static func append(
        _ text: ForeignText, to bytes: inout [UInt8], isPlain: (UInt8) -> Bool,
        escape: (UInt8) -> StaticString?
    ) {
        var text = text.string
        text.withUTF8 { source in
            var start = 0
            for index in source.indices where !isPlain(source[index]) {
                guard let replacement = replacement(in: source, at: index, escape) else { continue }
                bytes.append(contentsOf: UnsafeBufferPointer(rebasing: source[start..<index]))
                replacement.text.withUTF8Buffer { bytes.append(contentsOf: $0) }
                start = index + replacement.length
            }
            bytes.append(contentsOf: UnsafeBufferPointer(rebasing: source[start...]))
        }
    }

    @inline(__always)
    private static func replacement(
        in source: UnsafeBufferPointer<UInt8>, at index: Int, _ escape: (UInt8) -> StaticString?
    ) -> (text: StaticString, length: Int)? {
        if source[index] != 0xEF { return escape(source[index]).map { ($0, 1) } }
        let isNoncharacter =
            index + 2 < source.count && source[index + 1] == 0xBF && source[index + 2] >= 0xBE
        return isNoncharacter ? ("\u{FFFD}", 3) : nil
    }

    /// Returns a text with U+FFFD in place of what XML cannot carry, as it would be read after it was written.
    static func carriable(_ text: String) -> String {
        var text = text
        var bytes: [UInt8] = []
        var start = 0
        text.withUTF8 { source in
            for index in source.indices where source[index] < 0x20 || source[index] == 0xEF {
                guard let length = forbidden(in: source, at: index) else { continue }
                bytes += source[start..<index]
                bytes += "\u{FFFD}".utf8
                start = index + length
            }
            if start > 0 { bytes += source[start...] }
        }
        return start > 0 ? String(decoding: bytes, as: UTF8.self) : text
    }

    /// Returns the length of a character that XML cannot carry (XML 1.0 section 2.2); nil for another one.
    private static func forbidden(in source: UnsafeBufferPointer<UInt8>, at index: Int) -> Int? {
        switch source[index] {
        case 0x09, 0x0A, 0x0D: nil
        case 0x00..<0x20: 1
        default: replacement(in: source, at: index) { _ in nil }?.length
        }
    }

    // MARK: Names

    static func append(name: ForeignText, to bytes: inout [UInt8]) {
        let isPlain =
            !name.isEmpty && name.utf8.allSatisfy(isPlainName) && isPlainNameStart(name.utf8.first ?? 0)
        if isPlain {
            bytes.append(contentsOf: name.utf8)
        } else {
            bytes.append(contentsOf: legalName(name).utf8)
        }
    }

    private static func isPlainNameStart(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "_") || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
    }

    private static func isPlainName(_ byte: UInt8) -> Bool {
        isPlainNameStart(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
            || byte == UInt8(ascii: "-")
            || byte == UInt8(ascii: ".")
    }

    private static func legalName(_ name: ForeignText) -> String {
        var legal = String.UnicodeScalarView()
        for scalar in name.string.unicodeScalars {
            let isLegal = isNameStart(scalar) || (!legal.isEmpty && isNameContinuation(scalar))
            legal.append(isLegal ? scalar : "_")
        }
        return legal.isEmpty ? "_" : String(legal)
    }

    /// XML 1.0 (fifth edition) section 2.3, production 4, without the colon.
    private static func isNameStart(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x41...0x5A, 0x5F, 0x61...0x7A, 0xC0...0xD6, 0xD8...0xF6, 0xF8...0x2FF, 0x370...0x37D,
            0x37F...0x1FFF,
            0x200C...0x200D, 0x2070...0x218F, 0x2C00...0x2FEF, 0x3001...0xD7FF, 0xF900...0xFDCF,
            0xFDF0...0xFFFD,
            0x10000...0xEFFFF:
            true
        default: false
        }
    }

    /// Production 4a.
    private static func isNameContinuation(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x2D, 0x2E, 0x30...0x39, 0xB7, 0x300...0x36F, 0x203F...0x2040: true
        default: isNameStart(scalar)
        }
    }
}

extension ForeignText {
    /// The text with U+FFFD in place of each character that XML cannot carry: the control characters but tab, line feed and carriage
    /// return, U+FFFE and U+FFFF (XML 1.0 section 2.2). For text that came another way, such as encrypted.
    package var carriable: ForeignText { ForeignText(Escaping.carriable(string)) }
}
