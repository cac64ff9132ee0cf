public import Timestamps

extension ForeignText: SQLConvertible {
    /// A text; SQL compares its bytes.
    public var sqlValue: SQLValue { .text(string) }
}

extension Row {
    /// Returns the text of a column; empty for NULL.
    package func foreignText(_ column: Int) -> ForeignText { ForeignText(text(column)) }

    /// Returns the text of a column; nil for NULL.
    package func optionalForeignText(_ column: Int) -> ForeignText? {
        optionalText(column).map { ForeignText($0) }
    }
}
