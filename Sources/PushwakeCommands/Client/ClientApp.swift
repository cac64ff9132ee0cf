package import Handlers
import Platform
import XMPPAccount
import XMPPCore
import XMPPModules

/// The tables of the client. They contain every message until it was shown.
package enum ClientApp {
    package static let schema = Schema(
        module: "client",
        migrations: [
            """
            CREATE TABLE message(
                row INTEGER PRIMARY KEY,
                peer TEXT NOT NULL,
                nick TEXT,
                own INTEGER NOT NULL,
                sent_at INTEGER NOT NULL,
                body TEXT NOT NULL);
            """,
            // A row stays until it was shown. In earlier versions, only the event recorded that.
            """
            DELETE FROM message WHERE row NOT IN
                (SELECT json_extract(CAST(payload AS TEXT), '$.row') FROM event WHERE name = 'client-stored');
            CREATE INDEX message_peer ON message(peer, row);
            """,
            """
            CREATE TABLE shown_output(
                id INTEGER PRIMARY KEY CHECK (id = 1),
                device INTEGER NOT NULL,
                inode INTEGER NOT NULL,
                size INTEGER NOT NULL);
            """,
            """
            -- `about` is the id of the message that is corrected, retracted or reacted to.
            ALTER TABLE message ADD COLUMN kind TEXT NOT NULL DEFAULT 'message';
            ALTER TABLE message ADD COLUMN private INTEGER NOT NULL DEFAULT 0;
            ALTER TABLE message ADD COLUMN id TEXT;
            ALTER TABLE message ADD COLUMN about TEXT;
            ALTER TABLE message ADD COLUMN subject TEXT;
            -- The invitations that are rows of `message`, or were.
            CREATE TABLE told_invitation(room TEXT PRIMARY KEY, received_at INTEGER NOT NULL) WITHOUT ROWID;
            -- The rooms that a process shows, and since when that process runs.
            CREATE TABLE watched(peer TEXT PRIMARY KEY, process INTEGER NOT NULL, started TEXT NOT NULL) WITHOUT ROWID;
            -- What became of a request, for the process that waits for it. `failure` is NULL for success.
            CREATE TABLE answered(ticket TEXT PRIMARY KEY, value TEXT, failure TEXT, at INTEGER NOT NULL) WITHOUT ROWID;
            """,
        ], handlers: [Received.self, Answered.self, Entered.self, Unanswered.self])

    /// The event that a message was stored. Another command may be the one to show it.
    struct Stored: DurableEvent {
        static let id = "client-stored"
        var row: Int64
    }

    /// Stores a message.
    struct Received: Handler {
        static let id = "client.received"

        func run(_ call: borrowing Call<MessageReceived>) throws {
            guard let line = try ClientLine(call.context, in: call.step) else { return }
            try ClientApp.store(line, in: call.step)
        }
    }

    /// Stores a line to be shown, and lets the process that shows such lines know.
    static func store(_ line: ClientLine, in step: borrowing Step) throws {
        let row =
            try step.first(
                """
                INSERT INTO message(peer, nick, own, sent_at, body, kind, private, id, about, subject)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING row
                """, line.peer, line.nick, line.own, line.sentAt, line.body ?? "", line.kind.rawValue,
                line.isPrivate, line.id, line.about, line.subject
            ) { $0.integer(0) } ?? 0
        let scope = try WatchedRoom.isWatched(line.peer, in: step) ? WatchedRoom.scope(line.peer) : nil
        try step.post(Stored(row: row), in: scope)
    }

    /// Returns the oldest message that was not shown, of one address or of all addresses that no other process shows.
    static func next(of peer: JID?, in source: borrowing some Readable) throws -> (
        row: Int64, line: ClientLine
    )? {
        let condition =
            peer == nil
            ? "peer NOT IN (SELECT peer FROM watched WHERE CAST(process AS TEXT) <> ?)" : "peer = ?"
        return try source.first(
            """
            SELECT row, peer, nick, own, sent_at, body, kind, private, id, about, subject
            FROM message WHERE \(condition) ORDER BY row LIMIT 1
            """, peer?.bare.description ?? "\(ThisProcess.id)"
        ) { row in (row.integer(0), ClientLine(row)) }
    }

    static func recordShown(_ row: Int64, in step: borrowing Step) throws {
        try step.execute("DELETE FROM message WHERE row = ?", row)
    }

    /// Stores the pending invitations as lines, each once.
    static func storeInvitations(of account: Account, in step: borrowing Step) throws {
        let pending = try account.rooms.invitations(in: step)
        let told = try step.all("SELECT room FROM told_invitation") { $0.text(0) }
        // As many as there are rooms that the account is invited into.
        for room in told where !pending.contains(where: { $0.room.description == room }) {
            try step.execute("DELETE FROM told_invitation WHERE room = ?", room)
        }
        for invitation in pending {
            let isNew = try step.execute(
                """
                INSERT INTO told_invitation(room, received_at) VALUES (?, ?)
                ON CONFLICT(room) DO UPDATE SET received_at = excluded.received_at
                WHERE told_invitation.received_at <> excluded.received_at
                """, invitation.room.description, invitation.receivedAt)
            if isNew == 1 { try store(ClientLine(invitation), in: step) }
        }
    }
}

/// A room whose lines one process shows, so that others leave these alone.
struct WatchedRoom {
    let room: JID

    /// Where the process learns of lines of the room.
    static func scope(_ peer: String) -> HandlerScope { HandlerScope("watched-\(peer)") }

    var scope: HandlerScope { Self.scope(room.description) }

    func start(in step: borrowing Step) throws {
        let own = ThisProcess.id
        try step.execute(
            """
            INSERT INTO watched(peer, process, started) VALUES (?, ?, ?)
            ON CONFLICT(peer) DO UPDATE SET process = excluded.process, started = excluded.started
            """, room.description, Int64(own), ProcessState.started(own))
    }

    func end(in step: borrowing Step) throws {
        try step.execute(
            "DELETE FROM watched WHERE peer = ? AND process = ?", room.description, Int64(ThisProcess.id))
    }

    static func isWatched(_ peer: String, in step: borrowing Step) throws -> Bool {
        try forgetEnded(in: step)
        return try step.exists("SELECT 1 FROM watched WHERE peer = ?", peer)
    }

    /// Forgets the processes that have ended without saying so.
    static func forgetEnded(in step: borrowing Step) throws {
        let rows = try step.all("SELECT peer, process, started FROM watched") { row in
            (peer: row.text(0), process: Int32(clamping: row.integer(1)), started: row.text(2))
        }
        for row in rows where ProcessState.started(row.process) != row.started {
            try step.execute("DELETE FROM watched WHERE peer = ?", row.peer)
        }
    }
}
