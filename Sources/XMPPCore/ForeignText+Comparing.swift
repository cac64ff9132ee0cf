// Optional texts and collections of texts, compared byte by byte with Strings of the program.

/// Returns whether both have the same bytes, or both are nil.
public func == (left: ForeignText?, right: String?) -> Bool { left == right.map { ForeignText($0) } }
/// Returns whether the bytes differ, or one is nil.
public func != (left: ForeignText?, right: String?) -> Bool { !(left == right) }
/// Returns whether both have the same bytes, for `switch`.
public func ~= (pattern: String, text: ForeignText?) -> Bool { text.map { pattern ~= $0 } ?? false }

// MARK: - Collections of texts

/// Whether both have the same texts in the same order, compared byte by byte.
package func == (left: [ForeignText], right: [String]) -> Bool { left.elementsEqual(right) { $0 == $1 } }
/// Whether both have the same texts in the same order, compared byte by byte.
package func == (left: [String], right: [ForeignText]) -> Bool { right == left }
/// Whether the texts or their order differ, compared byte by byte.
package func != (left: [ForeignText], right: [String]) -> Bool { !(left == right) }
/// Whether the texts or their order differ, compared byte by byte.
package func != (left: [String], right: [ForeignText]) -> Bool { !(right == left) }

extension Sequence where Element == String {
    /// Returns whether one of them has the same bytes.
    ///
    /// - Parameter text: What is looked for.
    package func contains(_ text: ForeignText) -> Bool { contains { text == $0 } }
}

extension Sequence where Element == ForeignText {
    /// Returns whether one of them has the same bytes.
    ///
    /// - Parameter text: What is looked for.
    public func contains(_ text: String) -> Bool { contains { $0 == text } }

    /// Returns the texts, joined.
    ///
    /// - Parameter separator: The text between two.
    package func joined(separator: String = "") -> String { map(\.string).joined(separator: separator) }
}

extension Set<ForeignText> {
    /// Returns whether one of them has the same bytes.
    ///
    /// - Parameter text: What is looked for.
    package func contains(_ text: String) -> Bool { contains(ForeignText(text)) }
}
