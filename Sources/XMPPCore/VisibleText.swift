extension ForeignText {
    /// The text for a terminal, a log or a report: on one line, and with no character that steers, hides or forges anything.
    ///
    /// ```swift
    /// print(message.body?.visible ?? "")     // a\u{1B}[2J
    /// ```
    ///
    /// These characters are written as `\u{9B}`, the form of Swift's own literals: controls (C0, C1, DEL; so also a tab, a line
    /// feed and an escape), line and paragraph separators, and whatever Unicode lets a program show as nothing
    /// (Default_Ignorable_Code_Point), such as controls of the writing direction. The joiners U+200C and U+200D and the
    /// variation selectors stay: words and emoji are written with them. So does a backslash.
    public var visible: String { VisibleText(self).description }
}

/// Text for a terminal, a log or a report, in which no foreign character steers, hides or forges anything.
///
/// ```swift
/// print(VisibleText("\(message.from!): \(message.body!)"))     // romeo@example.net: a\u{1B}[2J
/// ```
///
/// The literal is kept as it is written: line feeds and colors are the program's own. What is interpolated
/// is foreign, and these of its characters are written as `\u{9B}`, the form of Swift's own literals:
///
/// - C0 and C1 controls and DEL, so also a tab, a line feed and an escape
/// - line and paragraph separators
/// - whatever Unicode lets a program show as nothing (Default_Ignorable_Code_Point): controls of the writing direction,
///   spaces without width, soft hyphens, tags; and the three characters of interlinear annotation
///
/// The joiners U+200C and U+200D and the variation selectors U+FE00 to U+FE0F stay: words and emoji are written with them. A
/// backslash stays too, so text that already reads `\u{9B}` looks like an escaped character. The work is linear in
/// the text's size, and text that was escaped comes out unchanged.
///
/// A plain `String` does not compile where this type is required, so the compiler finds output that was not escaped.
package struct VisibleText: Hashable, Sendable, CustomStringConvertible, ExpressibleByStringInterpolation {
    /// The text as it may be printed.
    package let description: String

    /// Escapes foreign text.
    ///
    /// - Parameter text: Foreign text; a line feed in it becomes `\u{A}`.
    package init(_ text: String) { description = Self.escaped(text) { "\\u{\(Self.hex($0.value))}" } }

    package init(_ text: ForeignText) { self.init(text.string) }

    /// Takes text of the program as it is written.
    package init(stringLiteral text: String) { description = text }

    /// Makes text of the program with escaped foreign text in it.
    package init(stringInterpolation: StringInterpolation) { description = stringInterpolation.text }

    /// Escapes each line of a text whose line feeds are the program's own.
    ///
    /// - Parameter text: Lines that hold no foreign line feed.
    package init(lines text: String) {
        self.init(
            joining: text.utf8.split(separator: 0x0A, omittingEmptySubsequences: false).map {
                "\(Substring($0))"
            })
    }

    /// Sets lines below each other.
    package init(joining lines: [VisibleText], by separator: VisibleText = "\n") {
        description = lines.map(\.description).joined(separator: separator.description)
    }

    /// Escapes JSON so that its value stays the same (RFC 8259 section 7).
    ///
    /// - Parameter json: JSON on one line.
    package init(json: String) {
        description = Self.escaped(json) { scalar in
            UTF16.encode(scalar)!.map { unit in
                let hex = Self.hex(UInt32(unit))
                return "\\u" + String(repeating: "0", count: 4 - hex.utf8.count) + hex
            }.joined()
        }
    }

    /// Collects the parts of an interpolated literal.
    package struct StringInterpolation: StringInterpolationProtocol {
        var text: String

        package init(literalCapacity: Int, interpolationCount: Int) {
            text = ""
            text.reserveCapacity(literalCapacity)
        }

        /// Appends text of the program.
        package mutating func appendLiteral(_ literal: String) { text += literal }

        /// Appends text that is escaped already.
        package mutating func appendInterpolation(_ part: VisibleText) { text += part.description }

        /// Appends the description of a value, escaped.
        package mutating func appendInterpolation(_ value: some Any) {
            text += VisibleText(String(describing: value)).description
        }
    }

    // MARK: Characters

    private static func escaped(_ text: String, _ escape: (Unicode.Scalar) -> String) -> String {
        guard !text.utf8.allSatisfy({ 0x20...0x7E ~= $0 }), text.unicodeScalars.contains(where: isHidden)
        else { return text }
        // Bytes: to append several scalars to a view of scalars copies all of it.
        var bytes: [UInt8] = []
        for scalar in text.unicodeScalars {
            if isHidden(scalar) {
                bytes += escape(scalar).utf8
            } else {
                bytes += UTF8.encode(scalar)!
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func isHidden(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x20...0x7E: false
        case 0..<0x20, 0x7F...0x9F, 0x2028, 0x2029, 0xFFF9...0xFFFB: true
        case 0x200C, 0x200D, 0xFE00...0xFE0F: false
        default: scalar.properties.isDefaultIgnorableCodePoint
        }
    }

    private static func hex(_ number: UInt32) -> String { String(number, radix: 16, uppercase: true) }
}
