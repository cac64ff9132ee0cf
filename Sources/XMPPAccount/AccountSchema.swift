package import Handlers
import IQTracker

extension Account {
    /// The tables of an account without the modules of this library; pass them to ``/Handlers/HandlerStore`` together with
    /// those of the program's own modules. `Account.schemas` of `XMPPModules` has both.
    package static let coreSchemas: [Schema] = [
        PendingIQTable.schema, leaving(accountSchema), LoginTable.schema, ModuleList.schema,
        OwnPresenceTable.schema,
    ]

    private static let accountSchema = Schema(
        module: "xmpp-account",
        migrations: [
            """
            CREATE TABLE account(
                id INTEGER PRIMARY KEY,
                jid TEXT NOT NULL UNIQUE);

            -- Who may write for an account: a process whose epoch is older is refused.
            CREATE TABLE ownership(
                account INTEGER PRIMARY KEY REFERENCES account(id),
                epoch INTEGER NOT NULL,
                owner TEXT);

            -- The session of XEP-0198. `handled` counts the stanzas taken in, of which those in `deferred` are not handled
            -- yet; `acknowledged` is the server's h; `live` is the number of the session that carries new stanzas, NULL
            -- while there is no stream. `max` in seconds, times in milliseconds.
            CREATE TABLE session(
                account INTEGER PRIMARY KEY REFERENCES account(id),
                number INTEGER NOT NULL DEFAULT 0,
                live INTEGER,
                managed INTEGER NOT NULL DEFAULT 0,
                resumption_id TEXT,
                location TEXT,
                resumable INTEGER NOT NULL DEFAULT 0,
                max INTEGER,
                alive_at INTEGER,
                full_jid TEXT,
                handled INTEGER NOT NULL DEFAULT 0,
                acknowledged INTEGER NOT NULL DEFAULT 0,
                live_time INTEGER NOT NULL DEFAULT 0,
                bound_count INTEGER NOT NULL DEFAULT 0,
                resumed_count INTEGER NOT NULL DEFAULT 0);

            -- Stanzas that a handler wants to count as handled later only.
            CREATE TABLE deferred(
                account INTEGER NOT NULL REFERENCES account(id),
                session INTEGER NOT NULL,
                number INTEGER NOT NULL,
                PRIMARY KEY(account, session, number)) WITHOUT ROWID;

            -- Requests of others that a handler has taken and not answered. `deadline` in live time.
            CREATE TABLE inbound_request(
                account INTEGER NOT NULL REFERENCES account(id),
                peer TEXT NOT NULL,
                stanza_id TEXT NOT NULL,
                deadline INTEGER NOT NULL,
                PRIMARY KEY(account, peer, stanza_id)) WITHOUT ROWID;

            -- Stanzas to send, whole, in order. A row without a session has never been written to a socket.
            CREATE TABLE outbox(
                seq INTEGER PRIMARY KEY AUTOINCREMENT,
                account INTEGER NOT NULL REFERENCES account(id),
                session INTEGER,
                kind INTEGER NOT NULL,
                stanza_id TEXT,
                key TEXT,
                xml BLOB NOT NULL,
                handler INTEGER REFERENCES handler(id) DEFERRABLE INITIALLY DEFERRED,
                created_at INTEGER NOT NULL);
            CREATE INDEX outbox_account ON outbox(account, seq);
            CREATE INDEX outbox_handler ON outbox(handler) WHERE handler IS NOT NULL;

            -- Messages that were handled, to recognize copies from a lost session, offline storage or the archive. One with
            -- a number is not handled yet; see `deferred`.
            CREATE TABLE seen(
                account INTEGER NOT NULL,
                peer TEXT NOT NULL,
                stanza_id TEXT NOT NULL,
                digest INTEGER NOT NULL,
                seen_at INTEGER NOT NULL,
                number INTEGER,
                PRIMARY KEY(account, peer, stanza_id, digest)) WITHOUT ROWID;
            CREATE INDEX seen_number ON seen(account, number) WHERE number IS NOT NULL;

            -- Standing handlers by what they listen to.
            CREATE TABLE listener(
                account INTEGER NOT NULL REFERENCES account(id),
                event TEXT NOT NULL,
                key TEXT NOT NULL,
                handler INTEGER NOT NULL REFERENCES handler(id),
                PRIMARY KEY(account, event, key)) WITHOUT ROWID;
            """,
            """
            -- When old rows of `seen` were removed last, in milliseconds since 1970.
            ALTER TABLE account ADD COLUMN forgot_at INTEGER NOT NULL DEFAULT 0;
            """,
            """
            -- How often the stream ended behind a stanza, see `StanzaLimit`.
            ALTER TABLE outbox ADD COLUMN refusals INTEGER NOT NULL DEFAULT 0;
            """,
            """
            -- How often the database was a copy when the account last looked, see `Step.copies`.
            ALTER TABLE account ADD COLUMN copies INTEGER NOT NULL DEFAULT 0;
            """,
            """
            -- What the session's stream ended with because no end of it was found, and how many stanzas had arrived before it:
            -- the same a second time is passed over.
            ALTER TABLE session ADD COLUMN damage TEXT;
            ALTER TABLE session ADD COLUMN damage_at INTEGER;
            """,
            """
            -- What takes the place of `seen`, whose rows are moved here a piece at a time: a digest of what each message is
            -- recognized by, so that no mark is longer than another. `at` orders the marks of a sender, in milliseconds since
            -- 1970; `number` as before, -1 when that session was lost.
            CREATE TABLE seen_mark(
                sender INTEGER NOT NULL,
                at INTEGER NOT NULL,
                mark BLOB NOT NULL,
                account INTEGER NOT NULL,
                number INTEGER,
                PRIMARY KEY(sender, at, mark)) WITHOUT ROWID;
            CREATE UNIQUE INDEX seen_mark_mark ON seen_mark(account, mark);
            CREATE INDEX seen_mark_number ON seen_mark(account, number) WHERE number IS NOT NULL;

            -- To whom marks are counted: a bare address, as a digest. `heard` in hours since 1970.
            CREATE TABLE seen_sender(
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                account INTEGER NOT NULL,
                digest BLOB NOT NULL,
                marks INTEGER NOT NULL DEFAULT 0,
                newest INTEGER NOT NULL DEFAULT 0,
                heard INTEGER NOT NULL,
                UNIQUE(account, digest));
            CREATE INDEX seen_sender_heard ON seen_sender(account, heard, id);
            """,
            """
            -- The request's place among the stanzas of the session, when it is to be handled later, see `deferred`.
            ALTER TABLE inbound_request ADD COLUMN number INTEGER;
            """,
            """
            -- One word for one idea: the number of the session whose stream is open, how many stanzas were received, connected time.
            ALTER TABLE session RENAME COLUMN live TO open_number;
            ALTER TABLE session RENAME COLUMN handled TO received;
            ALTER TABLE session RENAME COLUMN live_time TO connected_time;
            """,
            """
            -- The slot of the owner's store, on whose socket it answers; NULL while nobody owns the account.
            ALTER TABLE ownership ADD COLUMN slot INTEGER;
            """,
            """
            -- Each handler that is removed is looked for here, as a foreign key asks for.
            CREATE INDEX listener_handler ON listener(handler);
            """,
            """
            -- Whether the message also had the id that decides, of the own server or the room, or has got it since: two messages
            -- with different ones are two, whatever id the sender gave them.
            ALTER TABLE seen_mark ADD COLUMN is_named INTEGER NOT NULL DEFAULT 0;
            """,
        ], handlers: [AwaitedReply.self, AwaitedInvalidation.self])
}
