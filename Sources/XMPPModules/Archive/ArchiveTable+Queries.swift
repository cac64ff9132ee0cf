import Handlers
import XMPPCore

// What is being asked of archives, and what follows a page.
extension ArchiveTable {
    /// What was asked, and what came since.
    struct Query {
        /// The id after which, or before which, was asked; nil for an end of the archive.
        let asked: ForeignText?
        /// The ids of the first and the last message; nil in a catch-up, whose place is that of the archive.
        let first, last: ForeignText?
        /// The number of messages that had come in the catch-up before the page, or in a look back.
        let received: Int64
    }

    func add(
        _ query: String, of archive: JID, asked: ForeignText?, isCatchUp: Bool, in step: borrowing Step
    ) throws(HandlerError) {
        try step.write(
            """
            INSERT INTO archive_query(account, query, jid, catch_up, asked_id, received)
            SELECT ?1, ?2, ?3, CAST(?4 AS BIGINT), ?5, CASE WHEN CAST(?4 AS BIGINT) <> 0 THEN coalesce(
                (SELECT received FROM archive WHERE account = ?1 AND jid = ?3), 0) ELSE 0 END
            """, account, query, archive.description, isCatchUp, asked)
        guard isCatchUp else { return }
        try step.write(
            "UPDATE archive SET unread = 0 WHERE account = ? AND jid = ? AND unread > 0", account,
            archive.description)
    }

    /// Notes a message that came for a query, and moves the place of a catch-up on.
    ///
    /// - Parameter sender: Who sent it. A server that writes the archive's address in another form sends under that; it knows the query,
    ///   whose id nobody can guess.
    /// - Returns: The archive as it was asked for; nil for a message that was not asked for.
    func take(
        _ id: ForeignText, at time: Timestamp?, by query: ForeignText, from sender: JID,
        in step: borrowing Step
    ) throws -> JID? {
        if try advance(sender, by: query, to: id, at: time, in: step)
            || record(id, by: query, of: sender, in: step)
        {
            return sender
        }
        let text = try step.first(
            "SELECT jid FROM archive_query WHERE account = ? AND query = ?", account, query
        ) { $0.text(0) }
        guard let asked = try text.map({ try JID(received: $0) }), asked != sender, asked.isForm(of: sender)
        else { return nil }
        return try take(id, at: time, by: query, from: asked, in: step)
    }

    /// Notes a message of a look back, or one that belongs to no place.
    ///
    /// - Returns: Whether an archive was asked for that.
    func record(
        _ id: ForeignText, by query: some TextConvertible & SQLConvertible, of archive: JID,
        in step: borrowing Step
    ) throws(HandlerError) -> Bool {
        try step.execute(
            """
            UPDATE archive_query SET first_id = coalesce(first_id, ?1), last_id = ?1, received = received + 1
            WHERE account = ?2 AND query = ?3 AND jid = ?4
            """, id, account, query, archive.description) == 1
    }

    /// Returns whether an archive was asked for that.
    func isUnderWay(_ query: some TextConvertible & SQLConvertible, of archive: JID, in step: borrowing Step)
        throws(HandlerError) -> Bool
    {
        try step.exists(
            "SELECT 1 FROM archive_query WHERE account = ? AND query = ? AND jid = ?", account, query,
            archive.description)
    }

    /// - Returns: Nil when it is not under way any more.
    func remove(_ query: String, in step: borrowing Step) throws(HandlerError) -> Query? {
        try step.first(
            """
            DELETE FROM archive_query WHERE account = ? AND query = ?
            RETURNING asked_id, first_id, last_id, received
            """, account, query
        ) { row in
            Query(
                asked: row.optionalForeignText(0), first: row.optionalForeignText(1),
                last: row.optionalForeignText(2), received: row.quantity(3))
        }
    }

    /// Their session is gone, and with it the answers. What was still to be fetched is asked for when the catch-up with
    /// that archive begins in the next one.
    func forgetQueries(in step: borrowing Step) throws(HandlerError) {
        try step.write("DELETE FROM archive_query WHERE account = ?", account)
        // What comes live from now on says nothing about what came before. A failure is remembered until the archive is
        // asked again: rooms are asked for their history instead.
        try step.write(
            """
            UPDATE archive SET state = \(State.paused.sql), live_id = NULL, failures = 0, held = 0 WHERE account = ?
            """, account)
    }

    // MARK: Pages

    /// The maximum number of pages without a message in a row: an archive can name places for ever. The next session goes on after
    /// them.
    static let emptyPages: Int64 = 20

    /// What follows a page that does not say that it is the last one.
    enum Turn {
        /// There may be more after the place.
        case page
        /// The page was empty.
        case end
        /// The place was at hand before: the archive goes round in circles, or offers pages that bring nothing.
        case circle
    }

    /// Notes the end of a page, and moves the place to where the page says that it ends if its messages did not.
    ///
    /// - Parameters:
    ///   - query: What was asked.
    ///   - page: The page's ends and, counted from the place that was asked for, what there is to come.
    /// - Returns: What follows. A place is kept for as many pages as came before it (Brent's method), so any circle is noticed, in
    ///   little memory.
    func turnPage(
        _ archive: JID, after query: Query, _ page: ResultPage?, in step: borrowing Step
    ) throws(HandlerError) -> Turn {
        let row = try step.first(
            """
            UPDATE archive SET total = coalesce(total, ?), failures = 0 WHERE account = ? AND jid = ?
            RETURNING last_id, received, unread, pages, checkpoint, empty_pages
            """, page?.count, account, archive.description
        ) { row in
            (
                place: row.optionalForeignText(0), received: row.quantity(1), unread: row.quantity(2),
                pages: row.quantity(3), checkpoint: row.optionalForeignText(4), empty: row.quantity(5)
            )
        }
        guard let row else { return .end }
        let last = page?.last?.token
        let offered = last ?? page?.first?.token
        var place = row.place
        if row.unread > 0, let last { place = last }
        // Messages went missing on the way, or the service left them out: the page's end is where it goes on.
        if place == query.asked, let offered { place = offered }
        guard place != query.asked else {
            let isSilent = row.received == query.received && row.unread == 0
            // What has offered places and never a message is no archive that was read.
            let hasPromised = offered != nil && row.pages > 0 && row.received == 0
            return isSilent && !hasPromised ? .end : .circle
        }
        let pages = row.pages + 1
        let isEmpty = row.received == query.received && row.unread == 0
        let empty = isEmpty ? row.empty + 1 : 0
        try step.write(
            """
            UPDATE archive SET prior_id = CASE WHEN last_id IS DISTINCT FROM ?1 THEN last_id ELSE prior_id END,
                last_id = ?1, unread = 0, pages = ?2, checkpoint = CASE WHEN ?3 <> 0 THEN ?1 ELSE checkpoint END,
                empty_pages = ?6
            WHERE account = ?4 AND jid = ?5
            """, place, pages, pages & (pages - 1) == 0, account, archive.description, empty)
        return place == row.checkpoint || empty > Self.emptyPages ? .circle : .page
    }
}
