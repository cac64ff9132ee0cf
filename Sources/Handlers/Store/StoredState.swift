/// A state or kind of a row, which statements name instead of writing its number.
///
/// ```swift
/// "SELECT id FROM handler WHERE kind = \(Transaction.Kind.once.sql)"
/// ```
package protocol StoredState: RawRepresentable<Int64> {}

extension StoredState {
    /// The stored number, as text for a statement: SQLite uses a partial index only for a number that it can read.
    package var sql: String { String(rawValue) }
}
