import Handlers
import XMPPCore

/// The progress of each archive, and the running queries.
package struct ArchiveTable {
    /// The states in `state`.
    package typealias State = ArchiveProgress.State

    let account: Int64

    static let schema = Schema(
        module: "xmpp-archive",
        migrations: [
            """
            -- `last_id` is the newest message that was fetched, or came while everything was fetched; `live_id` the newest
            -- that came beside a catch-up. `last_at` and `since` in milliseconds since 1970. `state` is an
            -- ArchiveProgress.State.
            CREATE TABLE archive(
                account INTEGER NOT NULL,
                jid TEXT NOT NULL,
                last_id TEXT,
                last_at INTEGER,
                since INTEGER,
                live_id TEXT,
                state INTEGER NOT NULL DEFAULT 0,
                received INTEGER NOT NULL DEFAULT 0,
                total INTEGER,
                failure TEXT,
                failures INTEGER NOT NULL DEFAULT 0,
                PRIMARY KEY(account, jid)) WITHOUT ROWID;
            CREATE TABLE archive_query(
                account INTEGER NOT NULL,
                query TEXT NOT NULL,
                jid TEXT NOT NULL,
                catch_up INTEGER NOT NULL,
                PRIMARY KEY(account, query)) WITHOUT ROWID;
            """,
            """
            -- `held` while it waits for a better time. `pages` of this catch-up, and `checkpoint`, a place that it was at: an
            -- archive that comes back to it goes round in circles.
            ALTER TABLE archive ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
            ALTER TABLE archive ADD COLUMN pages INTEGER NOT NULL DEFAULT 0;
            ALTER TABLE archive ADD COLUMN checkpoint TEXT;
            """,
            """
            -- `prior_id` is the place before the last message moved it; `kept_id` the place before the first message that is
            -- not handled yet, '' for the beginning, and `kept_at` the time of that message: a lost session goes back to it.
            ALTER TABLE archive ADD COLUMN prior_id TEXT;
            ALTER TABLE archive ADD COLUMN kept_id TEXT;
            ALTER TABLE archive ADD COLUMN kept_at INTEGER;
            """,
            """
            -- How many messages of the page that is under way could not be read: the page's end then moves the place.
            ALTER TABLE archive ADD COLUMN unread INTEGER NOT NULL DEFAULT 0;
            """,
            """
            -- The id after which, or before which, was asked. `received`: of a catch-up what the archive's row had by then; of a look
            -- back what came, with the first and the last id of it.
            ALTER TABLE archive_query ADD COLUMN asked_id TEXT;
            ALTER TABLE archive_query ADD COLUMN first_id TEXT;
            ALTER TABLE archive_query ADD COLUMN last_id TEXT;
            ALTER TABLE archive_query ADD COLUMN received INTEGER NOT NULL DEFAULT 0;
            -- How many pages without a message came in a row.
            ALTER TABLE archive ADD COLUMN empty_pages INTEGER NOT NULL DEFAULT 0;
            """,
        ], handlers: [ArchivePageFetched.self, ArchiveRetry.self, ArchiveHistoryFetched.self])

    // MARK: The place in an archive

    struct Place {
        var lastID: ForeignText?
        var lastAt: Timestamp?
        var since: Timestamp?
        /// The number of pages that came in this catch-up.
        var pages: Int64 = 0
    }

    func place(in archive: JID, in step: borrowing Step) throws(HandlerError) -> Place {
        try step.first(
            "SELECT last_id, last_at, since, pages FROM archive WHERE account = ? AND jid = ?", account,
            archive.description
        ) { row in
            Place(
                lastID: row.optionalForeignText(0), lastAt: row.optionalTimestamp(1),
                since: row.optionalTimestamp(2), pages: row.quantity(3))
        } ?? Place()
    }

    /// Moves the place on, if that catch-up is under way: asked and written in one, as it is done for each message.
    ///
    /// - Returns: False when that query is not under way, or fetches for another reason.
    func advance(
        _ archive: JID, by query: ForeignText, to id: ForeignText, at time: Timestamp?,
        in step: borrowing Step
    )
        throws(HandlerError) -> Bool
    {
        // Nobody's word is taken for a time that has not come.
        let start = Timestamp(milliseconds: 0)
        let passed = max(start, min(time ?? start, step.now))
        return try step.execute(
            """
            UPDATE archive SET prior_id = last_id, last_id = ?1,
                last_at = CASE WHEN last_at > ?2 THEN last_at ELSE ?2 END,
                received = received + 1
            WHERE account = ?3 AND jid = ?4 AND EXISTS (
                SELECT 1 FROM archive_query WHERE account = ?3 AND query = ?5 AND jid = ?4 AND catch_up <> 0)
            """, id, passed, account, archive.description, query) == 1
    }

    /// A message came out of the archive whose id there could not be read.
    func recordUnread(in archive: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            UPDATE archive SET unread = unread + 1
            WHERE account = ? AND jid = ? AND state = \(State.fetching.sql)
            """, account, archive.description)
    }

    /// Records the last message of a page, which may have been unreadable: the next page starts after it.
    func passUnread(in archive: JID, to last: ForeignText, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            UPDATE archive SET prior_id = CASE last_id WHEN ?1 THEN prior_id ELSE last_id END, last_id = ?1, unread = 0
            WHERE account = ?2 AND jid = ?3 AND unread > 0
            """, last, account, archive.description)
    }

    /// A message came live. While a catch-up is under way there may be older ones that did not come yet.
    func recordLive(_ archive: JID, _ id: ForeignText, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            UPDATE archive SET prior_id = last_id, last_id = CASE state WHEN \(State.complete.sql) THEN ?1 ELSE last_id END,
                last_at = CASE state WHEN \(State.complete.sql) THEN ?2 ELSE last_at END,
                live_id = CASE state WHEN \(State.complete.sql) THEN NULL ELSE ?1 END
            WHERE account = ?3 AND jid = ?4
            """, id, step.now, account, archive.description)
    }

    /// The server does not know the place any more: what is fetched from now on is found by its time.
    func forgetPlace(in archive: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            UPDATE archive SET last_id = NULL, since = coalesce(last_at - ?, since), pages = 0, checkpoint = NULL
            WHERE account = ? AND jid = ?
            """, Self.overlap.milliseconds, account, archive.description)
    }

    /// The time before the last message at which a query of an archive or a room's history starts if only its time is known, in
    /// milliseconds: its clock and ours may differ by so much. What comes a second time is recognized.
    static let overlap = Duration.seconds(60)

    // MARK: Messages that are handled later

    /// The message that has just come is not handled yet.
    ///
    /// - Parameters:
    ///   - isNamed: Whether it has an id in the archive, and so has moved the place.
    ///   - time: When it was stored.
    func keepPlace(in archive: JID, isNamed: Bool, at time: Timestamp, in step: borrowing Step)
        throws(HandlerError)
    {
        try step.write(
            """
            UPDATE archive SET kept_id = coalesce(kept_id, CASE WHEN ?1 <> 0 THEN prior_id ELSE last_id END, ''),
                kept_at = CASE WHEN kept_at < ?2 THEN kept_at ELSE ?2 END
            WHERE account = ?3 AND jid = ?4
            """, isNamed, time, account, archive.description)
    }

    func keepsPlace(in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.exists("SELECT 1 FROM archive WHERE account = ? AND kept_id IS NOT NULL LIMIT 1", account)
    }

    /// Every message is handled.
    func releasePlaces(in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE archive SET kept_id = NULL, kept_at = NULL WHERE account = ? AND kept_id IS NOT NULL",
            account)
    }

    /// The session is lost: what was not handled is fetched once more.
    func goBack(in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            UPDATE archive SET last_id = nullif(kept_id, ''), prior_id = NULL, kept_id = NULL, kept_at = NULL,
                last_at = CASE WHEN kept_at < last_at THEN kept_at ELSE last_at END
            WHERE account = ? AND kept_id IS NOT NULL
            """, account)
    }

    /// When the newest message was sent that is known of an archive.
    func lastTime(in archive: JID, in step: borrowing Step) throws(HandlerError) -> Timestamp? {
        try step.first(
            "SELECT last_at FROM archive WHERE account = ? AND jid = ? AND last_at IS NOT NULL", account,
            archive.description
        ) { $0.timestamp(0) }
    }

    // MARK: States

    /// Lets an archive wait for its turn. A new one begins at `since`.
    func enqueue(_ archive: JID, since: Timestamp?, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            INSERT INTO archive(account, jid, since, state) VALUES (?1, ?2, ?3, \(State.waiting.sql))
            ON CONFLICT(account, jid) DO UPDATE SET state = \(State.waiting.sql), received = 0, total = NULL,
                failure = NULL, failures = 0, held = 0, pages = 0, checkpoint = archive.last_id, empty_pages = 0
            WHERE archive.state IN (\(State.complete.sql), \(State.failed.sql), \(State.paused.sql))
            """, account, archive.description, since)
    }

    func set(
        _ archive: JID, _ state: ArchiveProgress.State, failure: ForeignText? = nil, in step: borrowing Step
    ) throws(HandlerError) {
        try step.write(
            "UPDATE archive SET state = ?, failure = ? WHERE account = ? AND jid = ?", state.rawValue,
            failure, account, archive.description)
    }

    /// Everything was fetched; what came live meanwhile is the newest.
    func complete(_ archive: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            UPDATE archive SET state = \(State.complete.sql), last_id = coalesce(live_id, last_id), live_id = NULL,
                failure = NULL, failures = 0
            WHERE account = ? AND jid = ?
            """, account, archive.description)
    }

    /// - Returns: How often in a row it went wrong by now.
    func countFailure(_ archive: JID, in step: borrowing Step) throws(HandlerError) -> Int {
        try step.first(
            """
            UPDATE archive SET state = \(State.waiting.sql), held = 1, failures = failures + 1
            WHERE account = ? AND jid = ? RETURNING failures
            """, account, archive.description
        ) { Int($0.quantity(0)) } ?? 0
    }

    /// Gives an archive the address that its server has for it, unless that is known, too.
    func rename(_ archive: JID, to name: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            UPDATE archive SET jid = ?3 WHERE account = ?1 AND jid = ?2
                AND NOT EXISTS (SELECT 1 FROM archive AS other WHERE other.account = ?1 AND other.jid = ?3)
            """, account, archive.description, name.description)
    }

    /// The archives that wait for their turn and not for a better time, the account's own first.
    func waiting(own: JID, limit: Int, in step: borrowing Step) throws -> [JID] {
        let rows = try step.all(
            """
            SELECT jid FROM archive WHERE account = ?1 AND state = \(State.waiting.sql) AND held = 0
            ORDER BY jid <> ?2, jid
            LIMIT (SELECT CASE WHEN count(*) < ?3 THEN ?3 - count(*) ELSE 0 END FROM archive
                WHERE account = ?1 AND state = \(State.fetching.sql))
            """, account, own.description, limit
        ) { $0.text(0) }
        return try rows.map { try JID(received: $0) }
    }

    /// Ends the wait for a better time.
    func retry(_ archive: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE archive SET held = 0 WHERE account = ? AND jid = ? AND state = \(State.waiting.sql)",
            account, archive.description)
    }

    /// Returns whether any archive is being fetched or is to be.
    func isCatchingUp(in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.exists(
            """
            SELECT 1 FROM archive
            WHERE account = ? AND state IN (\(State.waiting.sql), \(State.fetching.sql)) LIMIT 1
            """, account)
    }

    func isInUse(_ archive: JID, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.exists(
            "SELECT 1 FROM archive WHERE account = ? AND jid = ? AND last_id IS NOT NULL AND failure IS NULL",
            account,
            archive.description)
    }

    func remove(_ archive: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write("DELETE FROM archive WHERE account = ? AND jid = ?", account, archive.description)
        try step.write(
            "DELETE FROM archive_query WHERE account = ? AND jid = ?", account, archive.description)
    }

    func progress(of archive: JID?, in source: borrowing some Readable) throws -> [ArchiveProgress] {
        let rows = try source.all(
            """
            SELECT jid, state, received, total, failure FROM archive
            WHERE account = ?1 AND (CAST(?2 AS TEXT) IS NULL OR jid = ?2) ORDER BY jid
            """, account, archive?.description
        ) { row in
            (
                row.text(0), row.quantity(1), Int(row.quantity(2)), row.optionalQuantity(3),
                row.optionalForeignText(4)
            )
        }
        return try rows.map { jid, state, received, total, failure in
            ArchiveProgress(
                archive: try JID(received: jid), state: ArchiveProgress.State(rawValue: state) ?? .waiting,
                received: received, total: total.map { Int($0) }, failure: failure)
        }
    }
}
