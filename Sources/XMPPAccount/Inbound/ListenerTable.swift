import Handlers

/// Standing handlers of an account by what they listen to.
struct ListenerTable {
    let account: Int64

    /// Puts a handler in the place of the one with that key.
    func set<Context>(
        _ event: String, key: String, to handler: Durable<Context>, in step: borrowing Step
    ) throws(HandlerError) {
        let old = try step.first(
            "DELETE FROM listener WHERE account = ? AND event = ? AND key = ? RETURNING handler", account,
            event, key
        ) { (row) throws(HandlerError) in row.integer(0) }
        if let old { try step.execute("DELETE FROM handler WHERE id = ? AND kind = 1", old) }
        let id = try step.bindStanding(handler)
        try step.execute(
            "INSERT INTO listener(account, event, key, handler) VALUES (?, ?, ?, ?)", account, event, key, id)
    }

    /// The handlers that listen to an event, in the order of their keys.
    func handlers(of event: String, in step: borrowing Step) throws(HandlerError) -> [HandlerID] {
        try step.all(
            "SELECT handler FROM listener WHERE account = ? AND event = ? ORDER BY key", account, event
        ) {
            (row) throws(HandlerError) in HandlerID(rawValue: row.integer(0))
        }
    }
}
