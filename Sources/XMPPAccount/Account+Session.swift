package import Handlers

extension Account {
    /// Counts the sessions that were bound so far: what was learned under another number may have changed unnoticed.
    package func sessionNumber(in step: borrowing Step) throws(HandlerError) -> Int64 {
        try step.first("SELECT number FROM session WHERE account = ?", id) {
            (row) throws(HandlerError) in row.quantity(0)
        } ?? 0
    }
}
