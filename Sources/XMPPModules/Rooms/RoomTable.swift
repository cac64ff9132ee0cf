import Handlers
import XMPPCore

/// The rooms of an account: what it wants, what it knows, and up to where it has read.
struct RoomTable {
    let account: Int64

    static let schema = Schema(
        module: "xmpp-rooms",
        migrations: [
            """
            -- The rooms that the account wants to be in, or was in. `state` as in Room.State; `ticket` names one stay, or the
            -- attempt at it; `waiter` is told how the attempt ends; `tried_at` and `heard_at` in live time, the other times
            -- in milliseconds since 1970. `archive_id` and `last_time` are the cursor.
            CREATE TABLE room(
                account INTEGER NOT NULL REFERENCES account(id),
                jid TEXT NOT NULL,
                nick TEXT NOT NULL,
                password TEXT,
                state TEXT NOT NULL,
                history BLOB NOT NULL,
                was_joined INTEGER NOT NULL DEFAULT 0,
                configures INTEGER NOT NULL DEFAULT 0,
                ticket TEXT NOT NULL,
                waiter INTEGER REFERENCES handler(id) ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED,
                joined_at INTEGER,
                tried_at INTEGER,
                heard_at INTEGER,
                asked_nick TEXT,
                subject TEXT,
                subject_by TEXT,
                archive_id TEXT,
                last_time INTEGER,
                PRIMARY KEY(account, jid)) WITHOUT ROWID;
            CREATE INDEX room_waiter ON room(waiter) WHERE waiter IS NOT NULL;

            -- Who is in a room that the account is in.
            CREATE TABLE occupant(
                account INTEGER NOT NULL REFERENCES account(id),
                room TEXT NOT NULL,
                nick TEXT NOT NULL,
                jid TEXT,
                affiliation TEXT NOT NULL,
                role TEXT NOT NULL,
                PRIMARY KEY(account, room, nick)) WITHOUT ROWID;

            -- Invitations that nobody has answered.
            CREATE TABLE room_invitation(
                account INTEGER NOT NULL REFERENCES account(id),
                room TEXT NOT NULL,
                by TEXT,
                reason TEXT,
                password TEXT,
                thread TEXT,
                direct INTEGER NOT NULL,
                received_at INTEGER NOT NULL,
                PRIMARY KEY(account, room)) WITHOUT ROWID;

            -- Messages to rooms that these have not sent back yet, and in which stay they were sent last.
            CREATE TABLE room_message(
                row INTEGER PRIMARY KEY AUTOINCREMENT,
                account INTEGER NOT NULL REFERENCES account(id),
                room TEXT NOT NULL,
                stanza_id TEXT NOT NULL,
                xml BLOB NOT NULL,
                ticket TEXT,
                tries INTEGER NOT NULL DEFAULT 0);
            CREATE INDEX room_message_room ON room_message(account, room, stanza_id);

            -- What looks after silent rooms, and when, in live time.
            CREATE TABLE room_watch(
                account INTEGER PRIMARY KEY REFERENCES account(id),
                handler INTEGER NOT NULL,
                due INTEGER NOT NULL);
            """,
            """
            -- The time of the first message that is not handled yet: a lost session goes back to it.
            ALTER TABLE room ADD COLUMN kept_time INTEGER;
            """,
            """
            -- The oldest invitations make way by this index. Those that are there already get the bounds of new ones; a
            -- character has four bytes at most.
            CREATE INDEX room_invitation_oldest ON room_invitation(account, received_at, room);
            UPDATE room_invitation SET reason = substr(reason, 1, 256) WHERE length(CAST(reason AS BLOB)) > 1024;
            UPDATE room_invitation SET password = NULL WHERE length(CAST(password AS BLOB)) > 1024;
            UPDATE room_invitation SET thread = NULL WHERE length(CAST(thread AS BLOB)) > 1024;
            UPDATE room SET subject = substr(subject, 1, 2048) WHERE length(CAST(subject AS BLOB)) > 8192;
            """,
            """
            -- Whether the account has come in and the room has not ended its history.
            ALTER TABLE room ADD COLUMN in_history INTEGER NOT NULL DEFAULT 0;
            """,
            """
            -- The address that the program gave, where the service writes it otherwise; `jid` is that of the service.
            ALTER TABLE room ADD COLUMN asked_jid TEXT;
            """,
        ],
        handlers: [
            RoomJoinEnded.self, RoomJoinUnanswered.self, RoomSilence.self, RoomChecked.self,
            RoomCheckAbandoned.self, RoomSetUp.self, RoomBacklog.self, RoomNamed.self,
        ])

    // MARK: Reading

    private static let columns = """
        jid, nick, state, subject, subject_by, archive_id, last_time, password, history, was_joined, configures, ticket,
        joined_at, asked_nick, in_history
        """

    static func select(_ condition: String) -> String {
        "SELECT \(columns) FROM room WHERE account = ? AND \(condition) ORDER BY jid"
    }

    /// - Parameter jid: The room's address as its service writes it, or as the program has asked for it.
    func room(_ jid: JID, in source: borrowing some Readable) throws -> Room? {
        let room = try source.first(Self.select("jid = ?"), account, jid.description, read: Stored.init)?.room
        guard room == nil, jid.hasOtherForm else { return room }
        return try source.first(Self.select("asked_jid = ?"), account, jid.description, read: Stored.init)?
            .room
    }

    func all(in source: borrowing some Readable) throws -> [Room] {
        try source.all(Self.select("1 = 1"), account, read: Stored.init).map { try $0.room }
    }

    /// When the last message was sent that is known of each room, by the room's address.
    func lastTimes(in step: borrowing Step) throws(HandlerError) -> [String: Timestamp] {
        let times = try step.all(
            "SELECT jid, last_time FROM room WHERE account = ? AND last_time IS NOT NULL", account
        ) { ($0.text(0), $0.timestamp(1)) }
        return Dictionary(uniqueKeysWithValues: times)
    }

    /// The rooms in which nothing was tried in this session.
    func untried(in step: borrowing Step) throws -> [Room] {
        try step.all(Self.select("state = 'wanted' AND tried_at IS NULL"), account, read: Stored.init)
            .map { try $0.room }
    }

    /// The rooms that are to be looked after by now: silent ones, and those that are to be tried again.
    func due(silence: Int64, retry: Int64, connectedTime: Int64, in step: borrowing Step) throws -> [Room] {
        let condition = """
            ((state = 'joined' AND heard_at + ? <= ?) OR (state = 'wanted' AND tried_at + ? <= ?))
            """
        return try step.all(
            Self.select(condition), account, silence, connectedTime, retry, connectedTime, read: Stored.init
        ).map { try $0.room }
    }

    /// When the next room is to be looked after, in connected time; nil when none is.
    func nextDue(silence: Int64, retry: Int64, in step: borrowing Step) throws(HandlerError) -> Int64? {
        try step.first(
            """
            SELECT min(CASE state WHEN 'joined' THEN heard_at + ? ELSE tried_at + ? END) FROM room
            WHERE account = ? AND (state = 'joined' OR (state = 'wanted' AND tried_at IS NOT NULL))
            """, silence, retry, account
        ) { $0.optionalInteger(0) } ?? nil
    }

    /// A row before its addresses are read.
    struct Stored {
        let jid, state, ticket: String
        let nick: ForeignText
        let subjectBy: String?
        let subject, archiveID, password, askedNick: ForeignText?
        let lastTime, joinedAt: Timestamp?
        let history: [UInt8]
        let wasJoined, configures, isInHistory: Bool

        init(_ row: borrowing Row) throws(HandlerError) {
            (jid, nick, state) = (row.text(0), row.foreignText(1), row.text(2))
            (subject, subjectBy) = (row.optionalForeignText(3), row.optionalText(4))
            (archiveID, lastTime) = (row.optionalForeignText(5), row.optionalTimestamp(6))
            (password, history) = (row.optionalForeignText(7), row.blob(8))
            (wasJoined, configures) = (row.integer(9) != 0, row.integer(10) != 0)
            (ticket, joinedAt, askedNick) = (
                row.text(11), row.optionalTimestamp(12), row.optionalForeignText(13)
            )
            isInHistory = row.integer(14) != 0
        }

        var room: Room {
            get throws {
                Room(
                    jid: try JID(received: jid), nick: nick, state: Room.State(rawValue: state) ?? .left,
                    subject: subject, subjectBy: subjectBy.flatMap { try? JID(received: $0) },
                    cursor: lastTime.map { RoomCursor(archiveID: archiveID, time: $0) }, password: password,
                    history: try RoomHistory(stored: history), wasJoined: wasJoined, configures: configures,
                    ticket: ticket, joinedAt: joinedAt, askedNick: askedNick, isInHistory: isInHistory)
            }
        }
    }

    // MARK: Joining and leaving

    /// The account wants to be in a room from now on.
    func want(
        _ room: JID, nick: ForeignText, password: ForeignText?, history: RoomHistory, configures: Bool,
        ticket: String, in step: borrowing Step
    ) throws {
        try step.write(
            """
            INSERT INTO room(account, jid, nick, password, state, history, configures, ticket)
            VALUES (?, ?, ?, ?, 'wanted', ?, ?, ?)
            ON CONFLICT(account, jid) DO UPDATE SET
                nick = excluded.nick, password = excluded.password, state = 'wanted', history = excluded.history,
                was_joined = 0, configures = excluded.configures, ticket = excluded.ticket, tried_at = NULL,
                asked_nick = NULL
            """, account, room.description, nick, password, history.stored, configures, ticket)
    }

    func set(
        _ state: Room.State, _ room: JID, triedAt: Int64? = nil, in step: borrowing Step
    ) throws(HandlerError) {
        try step.write(
            "UPDATE room SET state = ?, tried_at = ?, asked_nick = NULL WHERE account = ? AND jid = ?",
            state.rawValue, triedAt, account, room.description)
    }

    func set(ticket: String, _ room: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE room SET ticket = ? WHERE account = ? AND jid = ?", ticket, account, room.description)
    }

    func setJoined(_ room: JID, nick: ForeignText, connectedTime: Int64, in step: borrowing Step)
        throws(HandlerError)
    {
        try step.write(
            """
            UPDATE room SET state = 'joined', nick = ?, was_joined = 1, joined_at = ?, heard_at = ?, tried_at = NULL,
                asked_nick = NULL, in_history = 1
            WHERE account = ? AND jid = ?
            """, nick, step.now, connectedTime, account, room.description)
    }

    func set(nick: ForeignText, _ room: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE room SET nick = ?, asked_nick = NULL WHERE account = ? AND jid = ?", nick, account,
            room.description)
    }

    func set(askedNick: ForeignText?, _ room: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE room SET asked_nick = ? WHERE account = ? AND jid = ?", askedNick, account,
            room.description)
    }

    /// The session is over: the account is in no room any more, and wants to be in those that it was in.
    func forgetSession(in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE room SET state = 'wanted', asked_nick = NULL WHERE account = ? AND state IN ('joining', 'joined')",
            account)
        try step.write("UPDATE room SET tried_at = NULL WHERE account = ?", account)
        try step.write("DELETE FROM occupant WHERE account = ?", account)
    }

    /// Sets the handler that waits for the outcome of an attempt.
    func set(waiter: HandlerID<RoomJoined>?, _ room: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE room SET waiter = ? WHERE account = ? AND jid = ?", waiter, account, room.description)
    }

    /// Removes and returns who waits, unless that has ended.
    func claimWaiter(of room: JID, in step: borrowing Step) throws -> HandlerID<RoomJoined>? {
        let waiter = try step.first(
            "SELECT waiter FROM room WHERE account = ? AND jid = ?", account, room.description
        ) { $0.optionalInteger(0).map(HandlerID<RoomJoined>.init(rawValue:)) }
        guard let waiter = waiter ?? nil else { return nil }
        try set(waiter: nil, room, in: step)
        return try step.waits(waiter) ? waiter : nil
    }

    // MARK: What comes from the room

    /// A message has come. The cursor never goes back.
    func advance(
        _ room: JID, archiveID: ForeignText?, time: Timestamp, connectedTime: Int64, in step: borrowing Step
    ) throws(HandlerError) {
        try step.write(
            """
            UPDATE room SET archive_id = coalesce(?1, archive_id), heard_at = ?3,
                last_time = CASE WHEN last_time > ?2 THEN last_time ELSE ?2 END
            WHERE account = ?4 AND jid = ?5
            """, archiveID, time, connectedTime, account, room.description)
    }

    func endHistory(of room: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE room SET in_history = 0 WHERE account = ? AND jid = ?", account, room.description)
    }

    func heard(_ room: JID, connectedTime: Int64, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE room SET heard_at = ? WHERE account = ? AND jid = ?", connectedTime, account,
            room.description)
    }

    func set(subject: ForeignText?, by: JID, _ room: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE room SET subject = ?, subject_by = ? WHERE account = ? AND jid = ?", subject,
            by.description, account, room.description)
    }

    // MARK: Messages that are handled later

    func keepTime(_ time: Timestamp, of room: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            UPDATE room SET kept_time = CASE WHEN kept_time < ?1 THEN kept_time ELSE ?1 END
            WHERE account = ?2 AND jid = ?3
            """,
            time,
            account, room.description)
    }

    func keepsTime(in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.exists("SELECT 1 FROM room WHERE account = ? AND kept_time IS NOT NULL LIMIT 1", account)
    }

    /// Every message is handled.
    func releaseTimes(in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE room SET kept_time = NULL WHERE account = ? AND kept_time IS NOT NULL", account)
    }

    /// The session is lost: what was not handled is asked for once more.
    func goBack(in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            UPDATE room SET kept_time = NULL,
                last_time = CASE WHEN kept_time < last_time THEN kept_time ELSE last_time END
            WHERE account = ? AND kept_time IS NOT NULL
            """, account)
    }
}
