import Handlers
import XMPPCore

/// The known state of the upload service of an account's server, in this session.
struct UploadServiceTable {
    let account: Int64

    /// A service that takes files.
    struct Service: Hashable, Sendable {
        var jid: JID
        /// In bytes; nil when it did not say.
        var maximum: Int64?
    }

    /// A search for the service.
    struct Search {
        var round: Int64
        var open: Int64
        var silent: Int64
        var tries: Int64
    }

    /// The time for which a service counts as found.
    static let age = Duration.seconds(3600)

    /// Returns the service; nil when it was not searched for, or some time ago.
    func service(in step: borrowing Step) throws(HandlerError) -> Service? {
        try step.first(
            "SELECT jid, maximum FROM upload_service WHERE account = ? AND learned_at > ?", account,
            step.now - Self.age
        ) { row in
            row.optionalText(0).flatMap { try? JID(received: $0) }.map {
                Service(jid: $0, maximum: row.optionalQuantity(1))
            }
        } ?? nil
    }

    func search(in step: borrowing Step) throws(HandlerError) -> Search {
        try step.first("SELECT round, open, silent, tries FROM upload_service WHERE account = ?", account) {
            Search(round: $0.integer(0), open: $0.integer(1), silent: $0.integer(2), tries: $0.quantity(3))
        } ?? Search(round: 0, open: 0, silent: 0, tries: 0)
    }

    /// Starts a search, so that answers to an earlier one change nothing.
    ///
    /// - Parameter open: How many questions are asked; 0 ends the search.
    /// - Returns: The number of the search.
    @discardableResult
    func start(open: Int, tries: Int64 = 0, in step: borrowing Step) throws(HandlerError) -> Int64 {
        let round = try search(in: step).round &+ 1
        try step.write(
            """
            INSERT INTO upload_service(account, round, open, tries) VALUES (?, ?, ?, ?)
            ON CONFLICT(account) DO UPDATE SET round = excluded.round, open = excluded.open,
                tries = excluded.tries, silent = 0, jid = NULL, maximum = NULL
            """, account, round, open, tries)
        return round
    }

    /// Counts more questions, or fewer.
    func add(open: Int, silent: Int, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE upload_service SET open = open + ?, silent = silent + ? WHERE account = ?", open, silent,
            account)
    }

    func set(_ service: Service, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE upload_service SET jid = ?, maximum = ?, tries = 0, learned_at = ? WHERE account = ? AND jid IS NULL",
            service.jid.description, service.maximum, step.now, account)
    }

    /// The service does not answer as one does: the next upload searches for it.
    func forget(in step: borrowing Step) throws(HandlerError) {
        try step.write("UPDATE upload_service SET learned_at = 0 WHERE account = ?", account)
    }
}
