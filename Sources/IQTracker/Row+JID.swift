package import Handlers
package import XMPPCore

extension Row {
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
