public import Handlers
public import XMPPCore

extension ForeignText: SQLConvertible {
    /// A text; SQLite compares its bytes.
    public var sqlValue: SQLValue { .text(string) }
}

extension Row {
    /// Returns the text of a column; empty for NULL.
    package func foreignText(_ column: Int) -> ForeignText { ForeignText(text(column)) }

    /// Returns the text of a column; nil for NULL.
    package func optionalForeignText(_ column: Int) -> ForeignText? {
        optionalText(column).map { ForeignText($0) }
    }

    /// Returns the address of a column.
    ///
    /// - Parameter row: What the row stores, for the error.
    /// - Throws: `databaseCorrupt` for another text.
    package func jid(_ column: Int, of row: @autoclosure () -> String) throws(HandlerError) -> JID {
        do throws(JIDError) { return try JID(received: text(column)) } catch {
            throw HandlerError(
                .databaseCorrupt,
                "\(row()) is stored with a broken address; restore the database from a copy: \(error)",
                cause: error)
        }
    }
}
