/// The tables of OMEMO beside the device lists. A released script never changes.
enum OmemoTables {
    static let sessions = """
        -- The session in which a list was learned: in another one it may have changed unnoticed.
        ALTER TABLE omemo_device_list ADD COLUMN session INTEGER;

        -- The own device. A user who can read this file can read its private key.
        CREATE TABLE omemo_own(
            account INTEGER PRIMARY KEY REFERENCES account(id),
            device INTEGER NOT NULL CHECK(device BETWEEN 1 AND 2147483647),
            identity BLOB NOT NULL,
            secret BLOB NOT NULL,
            next_prekey INTEGER NOT NULL DEFAULT 1,
            next_signed_prekey INTEGER NOT NULL DEFAULT 1,
            created_at INTEGER NOT NULL);

        -- Own prekeys with their private parts. One that was used is kept until the account has caught up.
        CREATE TABLE omemo_prekey(
            account INTEGER NOT NULL REFERENCES omemo_own(account),
            id INTEGER NOT NULL,
            record BLOB NOT NULL,
            used_at INTEGER,
            PRIMARY KEY(account, id)) WITHOUT ROWID;

        CREATE TABLE omemo_signed_prekey(
            account INTEGER NOT NULL REFERENCES omemo_own(account),
            id INTEGER NOT NULL,
            record BLOB NOT NULL,
            created_at INTEGER NOT NULL,
            replaced_at INTEGER,
            PRIMARY KEY(account, id)) WITHOUT ROWID;

        -- What of the own keys is on the server. `revision` counts the changes of the own keys, `published` is the one
        -- that the server has, `sending` the one under way; `listed` says whether the own device was ever announced.
        CREATE TABLE omemo_publication(
            account INTEGER NOT NULL REFERENCES omemo_own(account),
            namespace TEXT NOT NULL,
            revision INTEGER NOT NULL DEFAULT 1,
            published INTEGER NOT NULL DEFAULT 0,
            sending INTEGER,
            listed INTEGER NOT NULL DEFAULT 0,
            list_sending INTEGER NOT NULL DEFAULT 0,
            announced_at INTEGER NOT NULL DEFAULT 0,
            announcements INTEGER NOT NULL DEFAULT 0,
            failure TEXT,
            PRIMARY KEY(account, namespace)) WITHOUT ROWID;

        -- The double ratchet with a device. `began_at` is set while the own side began it, `heartbeat` the chain for
        -- which a heartbeat was sent.
        CREATE TABLE omemo_session(
            id INTEGER PRIMARY KEY,
            account INTEGER NOT NULL REFERENCES account(id),
            jid TEXT NOT NULL,
            device INTEGER NOT NULL,
            namespace TEXT NOT NULL,
            record BLOB NOT NULL,
            identity BLOB NOT NULL,
            began_at INTEGER,
            heartbeat BLOB,
            UNIQUE(account, jid, device, namespace));

        -- Trust belongs to a key, not to a device.
        CREATE TABLE omemo_identity(
            account INTEGER NOT NULL REFERENCES account(id),
            jid TEXT NOT NULL,
            identity BLOB NOT NULL,
            trust INTEGER NOT NULL,
            first_seen INTEGER NOT NULL,
            decided_at INTEGER,
            PRIMARY KEY(account, jid, identity)) WITHOUT ROWID;

        -- The key that a device had last.
        CREATE TABLE omemo_device_identity(
            account INTEGER NOT NULL REFERENCES account(id),
            jid TEXT NOT NULL,
            device INTEGER NOT NULL,
            identity BLOB NOT NULL,
            PRIMARY KEY(account, jid, device)) WITHOUT ROWID;

        -- Lists (device 0) and bundles that were asked for: under way, or failed.
        CREATE TABLE omemo_fetch(
            account INTEGER NOT NULL REFERENCES account(id),
            jid TEXT NOT NULL,
            namespace TEXT NOT NULL,
            device INTEGER NOT NULL,
            is_running INTEGER NOT NULL DEFAULT 1,
            attempts INTEGER NOT NULL DEFAULT 0,
            failed_at INTEGER,
            failed_session INTEGER,
            failure TEXT,
            PRIMARY KEY(account, jid, namespace, device)) WITHOUT ROWID;

        -- Messages that wait for lists and bundles, not yet encrypted.
        CREATE TABLE omemo_waiting(
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            account INTEGER NOT NULL REFERENCES account(id),
            target TEXT NOT NULL,
            is_room INTEGER NOT NULL,
            stanza_id TEXT NOT NULL,
            content TEXT NOT NULL,
            acknowledged BLOB,
            handler INTEGER REFERENCES handler(id) DEFERRABLE INITIALLY DEFERRED,
            created_at INTEGER NOT NULL);
        CREATE INDEX omemo_waiting_target ON omemo_waiting(account, target);
        CREATE INDEX omemo_waiting_handler ON omemo_waiting(handler) WHERE handler IS NOT NULL;

        -- Empty messages to send once the account has caught up. A repair stays, so that it is not repeated too soon.
        CREATE TABLE omemo_duty(
            account INTEGER NOT NULL REFERENCES account(id),
            jid TEXT NOT NULL,
            device INTEGER NOT NULL,
            namespace TEXT NOT NULL,
            kind INTEGER NOT NULL,
            since INTEGER NOT NULL,
            done_at INTEGER,
            PRIMARY KEY(account, jid, device, namespace, kind)) WITHOUT ROWID;

        -- Who is in a room, under which name.
        CREATE TABLE omemo_room_member(
            account INTEGER NOT NULL REFERENCES account(id),
            room TEXT NOT NULL,
            jid TEXT NOT NULL,
            nick TEXT,
            PRIMARY KEY(account, room, jid)) WITHOUT ROWID;

        -- Standing handlers for what was decrypted.
        CREATE TABLE omemo_listener(
            account INTEGER NOT NULL REFERENCES account(id),
            key TEXT NOT NULL,
            handler INTEGER NOT NULL REFERENCES handler(id),
            PRIMARY KEY(account, key)) WITHOUT ROWID;
        CREATE INDEX omemo_listener_handler ON omemo_listener(handler);
        """

    static let copies = """
        -- How often the database was a copy when the device last looked.
        ALTER TABLE omemo_own ADD COLUMN copies INTEGER NOT NULL DEFAULT 0;
        -- Whether the ratchet has been put back, so that the other side has seen its next keys: good for reading only.
        ALTER TABLE omemo_session ADD COLUMN is_old INTEGER NOT NULL DEFAULT 0;
        """

    static let bounds = """
        -- When a session was used last, within an hour, in milliseconds since 1970: the one that was not used for longest makes
        -- way. A record that is far beyond its bound would cost too much memory to read; a new session starts.
        ALTER TABLE omemo_session ADD COLUMN used_at INTEGER NOT NULL DEFAULT 0;
        DELETE FROM omemo_session WHERE length(record) > 1048576;
        CREATE INDEX omemo_session_used ON omemo_session(account, used_at, id);
        CREATE INDEX omemo_session_of_user ON omemo_session(account, jid, used_at, device, namespace);

        -- What makes way first: the list that was learned longest ago, the duty that is owed longest.
        CREATE INDEX omemo_device_list_oldest ON omemo_device_list(account, learned_at);
        CREATE INDEX omemo_duty_open ON omemo_duty(account, since) WHERE done_at IS NULL;

        -- Labels that are there already get the bounds of new ones.
        UPDATE omemo_device SET label = NULL, label_signature = NULL
        WHERE length(CAST(label AS BLOB)) > 256 OR length(CAST(label_signature AS BLOB)) > 256;
        """

    static let retiredPreKeys = """
        -- When the database was found to be put back from a backup: sessions may have begun with the prekey that are not known.
        ALTER TABLE omemo_prekey ADD COLUMN retired_at INTEGER;
        """

    static let longRooms = """
        -- Two addresses are too long for one key: those of a room are replaced together.
        ALTER TABLE omemo_room_member RENAME TO omemo_room_member_before;
        CREATE TABLE omemo_room_member(
            id INTEGER PRIMARY KEY,
            account INTEGER NOT NULL REFERENCES account(id),
            room TEXT NOT NULL,
            jid TEXT NOT NULL,
            nick TEXT);
        INSERT INTO omemo_room_member(account, room, jid, nick)
            SELECT account, room, jid, nick FROM omemo_room_member_before ORDER BY account, room, jid;
        DROP TABLE omemo_room_member_before;
        CREATE INDEX omemo_room_member_room ON omemo_room_member(account, room);
        """

    static let surplus = """
        -- Of the devices that have left a list, older versions kept all: to read such a list would cost too much memory. The
        -- last 100 of each list stay.
        WITH last AS MATERIALIZED (
            SELECT account, jid, namespace, removed_at, device FROM (
                SELECT account, jid, namespace, removed_at, device, row_number() OVER (
                    PARTITION BY account, jid, namespace ORDER BY removed_at DESC, device) AS place
                FROM omemo_device WHERE removed_at IS NOT NULL) AS ranked
            WHERE place = 100)
        DELETE FROM omemo_device AS d WHERE removed_at IS NOT NULL AND EXISTS (
            SELECT 1 FROM last l WHERE l.account = d.account AND l.jid = d.jid AND l.namespace = d.namespace
                AND (d.removed_at < l.removed_at OR d.removed_at = l.removed_at AND d.device > l.device));
        """
}
