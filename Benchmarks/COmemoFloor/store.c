// The database: what a step reads and writes, and libomemo-c's stores on it.

#include "floor.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const sql[STATEMENTS] = {
    [SAVEPOINT] = "SAVEPOINT message",
    [RELEASE] = "RELEASE message",
    [SESSION] = "SELECT record, identity, heartbeat, used_at FROM omemo_session "
                "WHERE account = ? AND jid = ? AND device = ? AND namespace = '" OMEMO "'",
    [ADVANCE] = "UPDATE omemo_session SET record = ? "
                "WHERE account = ? AND jid = ? AND device = ? AND namespace = '" OMEMO "'",
    [USED] = "UPDATE omemo_session SET used_at = ? "
             "WHERE account = ? AND jid = ? AND device = ? AND namespace = '" OMEMO "'",
    [HEARTBEAT] = "UPDATE omemo_session SET heartbeat = ? "
                  "WHERE account = ? AND jid = ? AND device = ? AND namespace = '" OMEMO "'",
    [OWE] = "INSERT INTO omemo_duty(account, jid, device, namespace, kind, since) VALUES (?, ?, ?, '" OMEMO "', 1, ?) "
            "ON CONFLICT(account, jid, device, namespace, kind) DO NOTHING",
    [DROP_REPAIR] = "DELETE FROM omemo_duty "
                    "WHERE account = ? AND jid = ? AND device = ? AND namespace = '" OMEMO "' AND kind = 2 AND done_at IS NULL",
    // Whose key it is, what was decided about that, and whether the device is on its user's list.
    [TRUST] = "SELECT d.identity, i.trust, (SELECT 1 FROM omemo_device l WHERE l.account = d.account AND l.jid = d.jid "
              "AND l.namespace = '" OMEMO "' AND l.device = d.device AND l.removed_at IS NULL) "
              "FROM omemo_device_identity d LEFT JOIN omemo_identity i ON i.account = d.account AND i.jid = d.jid "
              "AND i.identity = d.identity WHERE d.account = ? AND d.jid = ? AND d.device = ?",
    [HEARD] = "INSERT INTO heard(sender, device, trust, body, at) VALUES (?, ?, ?, ?, ?)",
    [WAITING] = "SELECT 1 FROM omemo_waiting WHERE account = ? AND target = ? LIMIT 1",
    [LISTS] = "SELECT count(*) FROM omemo_device_list WHERE account = ? AND jid IN (?, ?) AND session = ?",
    [DEVICES] = "SELECT d.jid, d.device, d.namespace, s.identity IS NOT NULL, i.trust FROM omemo_device d "
                "LEFT JOIN omemo_session s ON s.account = d.account AND s.jid = d.jid AND s.device = d.device "
                "AND s.namespace = d.namespace AND s.is_old = 0 "
                "LEFT JOIN omemo_identity i ON i.account = d.account AND i.jid = d.jid AND i.identity = s.identity "
                "WHERE d.account = ? AND d.jid IN (?, ?) AND d.removed_at IS NULL",
    [OUTBOX] = "INSERT INTO outbox(account, session, kind, stanza_id, key, xml, handler, created_at) "
               "VALUES (?, ?, 0, ?, NULL, ?, NULL, ?)",
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    // The own device, the session that carries what is sent, and how much fits into the outbox.
    [STATE] = "SELECT a.id, o.device, s.number, s.open_number, "
              "10000 - (SELECT count(*) FROM (SELECT 1 FROM outbox WHERE account = a.id LIMIT 10000)) "
              "FROM account a JOIN omemo_own o ON o.account = a.id LEFT JOIN session s ON s.account = a.id WHERE a.jid = ?",
};

int fail(omemo_floor *floor, const char *what) {
    const char *reason = floor->database ? sqlite3_errmsg(floor->database) : "out of memory";
    if (!*floor->error) sqlite3_snprintf(sizeof floor->error, floor->error, "%s (database: %s)", what, reason);
    return -1;
}

static int start(omemo_floor *floor, int index, const char *format, va_list values) {
    sqlite3_stmt *statement = floor->statements[index];
    for (int i = 1; *format; format++, i++) {
        if (*format == 'i') sqlite3_bind_int64(statement, i, va_arg(values, sqlite3_int64));
        if (*format == '0') sqlite3_bind_null(statement, i);
        if (*format == 't') sqlite3_bind_text(statement, i, va_arg(values, const char *), -1, SQLITE_STATIC);
        if (*format == 'b') {
            const void *bytes = va_arg(values, const void *);
            sqlite3_bind_blob(statement, i, bytes, va_arg(values, int), SQLITE_STATIC);
        }
    }
    return sqlite3_step(statement);
}

int query(omemo_floor *floor, int index, const char *format, ...) {
    va_list values;
    va_start(values, format);
    int code = start(floor, index, format, values);
    va_end(values);
    return code;
}

int run(omemo_floor *floor, int index, const char *format, ...) {
    va_list values;
    va_start(values, format);
    int code = start(floor, index, format, values);
    va_end(values);
    sqlite3_reset(floor->statements[index]);
    return code == SQLITE_DONE ? 0 : fail(floor, sql[index]);
}

// MARK: A step

int begin_step(omemo_floor *floor) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    floor->now = (sqlite3_int64)time.tv_sec * 1000 + time.tv_nsec / 1000000;
    *floor->error = 0;
    if (run(floor, BEGIN, "")) return -1;
    sqlite3_stmt *state = floor->statements[STATE];
    int code = query(floor, STATE, "t", floor->address);
    if (code == SQLITE_ROW) {
        floor->account = sqlite3_column_int64(state, 0);
        floor->device = (uint32_t)sqlite3_column_int64(state, 1);
        floor->number = sqlite3_column_int64(state, 2);
        floor->has_live = sqlite3_column_type(state, 3) != SQLITE_NULL;
        floor->live = sqlite3_column_int64(state, 3);
        floor->room = sqlite3_column_int64(state, 4);
    }
    sqlite3_reset(state);
    return code == SQLITE_ROW ? 0 : fail(floor, "the account has no device");
}

int commit_step(omemo_floor *floor) { return run(floor, COMMIT, ""); }

// MARK: libomemo-c's stores

static int copy(sqlite3_stmt *statement, int column, unsigned char *place, int size) {
    int count = sqlite3_column_bytes(statement, column);
    const void *bytes = sqlite3_column_blob(statement, column);
    if (count > size) return 0;
    if (count) memcpy(place, bytes, (size_t)count);
    return count;
}

/// Reads the session's row once for an operation. Returns 1, 0 without a session, or an error.
static int enter_session(omemo_floor *floor, const signal_protocol_address *peer) {
    if (floor->record) return 1;
    sqlite3_stmt *session = floor->statements[SESSION];
    int code = query(floor, SESSION, "iti", floor->account, peer->name, (sqlite3_int64)peer->device_id);
    if (code == SQLITE_ROW) {
        floor->record =
            signal_buffer_create(sqlite3_column_blob(session, 0), (size_t)sqlite3_column_bytes(session, 0));
        floor->identity_count = copy(session, 1, floor->identity, sizeof floor->identity);
        floor->heartbeat_count = copy(session, 2, floor->heartbeat, sizeof floor->heartbeat);
        floor->used_at = sqlite3_column_int64(session, 3);
    }
    sqlite3_reset(session);
    if (code == SQLITE_DONE) return 0;
    return code == SQLITE_ROW && floor->record ? 1 : SG_ERR_UNKNOWN;
}

void leave_session(omemo_floor *floor) {
    if (floor->record) signal_buffer_bzero_free(floor->record);
    floor->record = 0;
}

static int contains_session(const signal_protocol_address *peer, void *floor) { return enter_session(floor, peer); }

static int load_session(
    signal_buffer **record, signal_buffer **user_record, const signal_protocol_address *peer, void *user) {
    (void)user_record;
    omemo_floor *floor = user;
    int found = enter_session(floor, peer);
    if (found != 1) return found;
    // The library frees it.
    *record = floor->record;
    floor->record = 0;
    return 1;
}

static int store_session(
    const signal_protocol_address *peer, uint8_t *record, size_t count, uint8_t *user_record, size_t user_count, void *user) {
    (void)user_record, (void)user_count;
    omemo_floor *floor = user;
    // With the keys of skipped messages, which anybody can have kept here.
    if (count > 128 << 10) return SG_ERR_UNKNOWN;
    sqlite3_int64 device = peer->device_id;
    if (run(floor, ADVANCE, "biti", record, (int)count, floor->account, peer->name, device)) return SG_ERR_UNKNOWN;
    if (floor->now - floor->used_at <= 3600000 && floor->now >= floor->used_at) return 0;
    return run(floor, USED, "iiti", floor->now, floor->account, peer->name, device) ? SG_ERR_UNKNOWN : 0;
}

// MARK: What only key exchanges need

static int no_prekey(signal_buffer **record, uint32_t id, void *user) {
    (void)record, (void)id, (void)user;
    return SG_ERR_INVALID_KEY_ID;
}

static int registration(void *user, uint32_t *id) {
    *id = ((omemo_floor *)user)->device;
    return 0;
}

static int trust_any(const signal_protocol_address *peer, uint8_t *key, size_t count, void *user) {
    (void)peer, (void)key, (void)count, (void)user;
    return 1;
}

void use_stores(omemo_floor *floor) {
    signal_protocol_session_store sessions = {
        .load_session_func = load_session, .store_session_func = store_session,
        .contains_session_func = contains_session, .user_data = floor};
    signal_protocol_pre_key_store prekeys = {.load_pre_key = no_prekey, .user_data = floor};
    signal_protocol_signed_pre_key_store signed_prekeys = {.load_signed_pre_key = no_prekey, .user_data = floor};
    signal_protocol_identity_key_store identities = {
        .get_local_registration_id = registration, .is_trusted_identity = trust_any, .user_data = floor};
    signal_protocol_store_context_set_session_store(floor->stores, &sessions);
    signal_protocol_store_context_set_pre_key_store(floor->stores, &prekeys);
    signal_protocol_store_context_set_signed_pre_key_store(floor->stores, &signed_prekeys);
    signal_protocol_store_context_set_identity_key_store(floor->stores, &identities);
}

// MARK: Opening and closing

static int copy_store(const char *store, const char *path) {
    sqlite3 *database = 0;
    char *copying = sqlite3_mprintf("VACUUM INTO %Q", path);
    int code = sqlite3_open_v2(store, &database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, 0);
    if (code == SQLITE_OK && copying) code = sqlite3_exec(database, copying, 0, 0, 0);
    sqlite3_free(copying);
    sqlite3_close(database);
    return code == SQLITE_OK ? 0 : -1;
}

static int open_database(omemo_floor *floor, const char *path) {
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    if (sqlite3_open_v2(path, &floor->database, flags, 0) != SQLITE_OK
        || sqlite3_busy_timeout(floor->database, 5000) != SQLITE_OK
        || omemo_floor_run(floor, "PRAGMA journal_mode = WAL") || omemo_floor_run(floor, "PRAGMA synchronous = FULL")
        || omemo_floor_run(floor, "PRAGMA foreign_keys = ON") || omemo_floor_run(floor, "PRAGMA cache_size = -2048")
        || omemo_floor_run(floor, "PRAGMA journal_size_limit = 16777216"))
        return -1;
    for (int i = 0; i < STATEMENTS; i++)
        if (sqlite3_prepare_v3(floor->database, sql[i], -1, SQLITE_PREPARE_PERSISTENT, &floor->statements[i], 0)
            != SQLITE_OK)
            return -1;
    return 0;
}

omemo_floor *omemo_floor_open(const char *store, const char *path, const char *address) {
    omemo_floor *floor = calloc(1, sizeof(omemo_floor));
    if (floor && (floor->address = strdup(address)) && !copy_store(store, path) && !open_database(floor, path)
        && !signal_context_create(&floor->global, 0) && !use_crypto(floor->global)
        && !signal_protocol_store_context_create(&floor->stores, floor->global) && !open_stream(floor)) {
        use_stores(floor);
        return floor;
    }
    omemo_floor_close(floor);
    return 0;
}

void omemo_floor_close(omemo_floor *floor) {
    if (!floor) return;
    for (int i = 0; i < STATEMENTS; i++) sqlite3_finalize(floor->statements[i]);
    sqlite3_finalize(floor->asked);
    sqlite3_close(floor->database);
    signal_protocol_store_context_destroy(floor->stores);
    signal_context_destroy(floor->global);
    if (floor->stream) xmlFreeDoc(floor->stream->myDoc);
    xmlFreeParserCtxt(floor->stream);
    xmlFreeParserCtxt(floor->document);
    free(floor->envelope.bytes);
    free(floor->content.bytes);
    free(floor->stanza.bytes);
    free(floor->address);
    free(floor);
}

const char *omemo_floor_error(const omemo_floor *floor) { return floor->error; }

int omemo_floor_run(omemo_floor *floor, const char *statement) {
    return sqlite3_exec(floor->database, statement, 0, 0, 0) == SQLITE_OK ? 0 : fail(floor, statement);
}

const char *omemo_floor_text(omemo_floor *floor, const char *statement) {
    sqlite3_finalize(floor->asked);
    floor->asked = 0;
    if (sqlite3_prepare_v2(floor->database, statement, -1, &floor->asked, 0) != SQLITE_OK
        || sqlite3_step(floor->asked) != SQLITE_ROW)
        return 0;
    return (const char *)sqlite3_column_text(floor->asked, 0);
}
