import Handlers

/// The rows that an account keeps for a handler, in tables of modules that `Handlers` does not know.
enum AccountRows {
    /// Deletes the account's rows for a handler that is about to end by hand: the request whose answer it awaits, and its listeners. A
    /// stanza is still sent and counted, and no handler is called for it.
    static func release(_ id: AnyHandlerID, _ step: borrowing Step) throws {
        for table in ["request", "listener", "omemo_listener"] where try step.hasTable(table) {
            try step.execute("DELETE FROM \(table) WHERE handler = ?", id)
        }
        for table in ["outbox", "omemo_waiting"] where try step.hasTable(table) {
            try step.execute("UPDATE \(table) SET handler = NULL WHERE handler = ?", id)
        }
    }
}
