#include "CFloor.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct floor_store {
    sqlite3 *database;
    sqlite3_stmt *begin, *commit, *savepoint, *release;
    sqlite3_stmt *select, *delete, *effect, *bind, *bury;
    // What a handler's row held; a program that calls the handler needs it after the statement is reset.
    char name[256];
    long long version, attempts, deaths;
    // The first of its chain; 0 for a handler that is that itself.
    long long trace;
    unsigned char arguments[4096];
};

static int run(floor_store *store, const char *sql) {
    return sqlite3_exec(store->database, sql, 0, 0, 0) == SQLITE_OK ? 0 : -1;
}

static int prepare(floor_store *store, sqlite3_stmt **statement, const char *sql) {
    int code = sqlite3_prepare_v3(store->database, sql, -1, SQLITE_PREPARE_PERSISTENT, statement, 0);
    return code == SQLITE_OK ? 0 : -1;
}

static int finish(sqlite3_stmt *statement) {
    int code = sqlite3_step(statement);
    sqlite3_reset(statement);
    return code == SQLITE_DONE ? 0 : -1;
}

static long long milliseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (long long)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

floor_store *floor_open(const char *path) {
    floor_store *store = calloc(1, sizeof(floor_store));
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    if (!store) return 0;
    if (sqlite3_open_v2(path, &store->database, flags, 0) == SQLITE_OK
        && sqlite3_busy_timeout(store->database, 5000) == SQLITE_OK
        && !run(store, "PRAGMA journal_mode = WAL") && !run(store, "PRAGMA synchronous = FULL")
        && !run(store, "PRAGMA foreign_keys = ON") && !run(store, "PRAGMA cache_size = -2048")
        && !run(store, "PRAGMA journal_size_limit = 16777216")
        && !prepare(store, &store->begin, "BEGIN IMMEDIATE") && !prepare(store, &store->commit, "COMMIT")
        && !prepare(store, &store->savepoint, "SAVEPOINT handler")
        && !prepare(store, &store->release, "RELEASE handler")
        && !prepare(store, &store->select,
            "SELECT name, version, arguments, or_else, attempts, deaths, NULL, trace, relations, NULL, NULL FROM handler "
            "WHERE id = ? AND kind = 0 AND state <> 3")
        && !prepare(store, &store->delete, "DELETE FROM handler WHERE id = ?")
        && !prepare(store, &store->effect, "UPDATE effect SET total = total + ? WHERE id = 1")
        && !prepare(store, &store->bind,
            "INSERT INTO handler(name, version, arguments, or_else, kind, bound_at, trace) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)")
        && !prepare(store, &store->bury,
            "INSERT INTO ending(handler, name, outcome, reason, ended_at, trace) VALUES (?, ?, ?, ?, ?, ?)"))
        return store;
    floor_close(store);
    return 0;
}

const char *floor_error(const floor_store *store) { return sqlite3_errmsg(store->database); }

void floor_close(floor_store *store) {
    sqlite3_stmt *statements[] = {store->begin, store->commit, store->savepoint, store->release,
                                  store->select, store->delete, store->effect, store->bind, store->bury};
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) sqlite3_finalize(statements[i]);
    sqlite3_close(store->database);
    free(store);
}

static void bind_trace(sqlite3_stmt *statement, int index, long long trace) {
    if (trace) sqlite3_bind_int64(statement, index, trace);
    else sqlite3_bind_null(statement, index);
}

static int bind_handler(
    floor_store *store, const char *name, const void *arguments, int length, long long now, long long trace) {
    sqlite3_bind_text(store->bind, 1, name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(store->bind, 2, 1);
    sqlite3_bind_blob(store->bind, 3, arguments, length, SQLITE_STATIC);
    sqlite3_bind_null(store->bind, 4);
    sqlite3_bind_int64(store->bind, 5, 0);
    sqlite3_bind_int64(store->bind, 6, now);
    bind_trace(store->bind, 7, trace);
    return finish(store->bind);
}

static int take(floor_store *store, long long id) {
    sqlite3_bind_int64(store->select, 1, id);
    int found = sqlite3_step(store->select) == SQLITE_ROW;
    int name = found ? sqlite3_column_bytes(store->select, 0) : 0;
    int arguments = found ? sqlite3_column_bytes(store->select, 2) : 0;
    if (found && name < (int)sizeof store->name && arguments <= (int)sizeof store->arguments) {
        memcpy(store->name, sqlite3_column_text(store->select, 0), name + 1);
        store->version = sqlite3_column_int64(store->select, 1);
        store->attempts = sqlite3_column_int64(store->select, 4);
        store->deaths = sqlite3_column_int64(store->select, 5);
        store->trace = sqlite3_column_int64(store->select, 7);
        // Without a key, and nobody waits for it.
        found = !sqlite3_column_int64(store->select, 8);
        memcpy(store->arguments, sqlite3_column_blob(store->select, 2), arguments);
    } else
        found = 0;
    sqlite3_reset(store->select);
    if (!found) return -1;
    sqlite3_bind_int64(store->delete, 1, id);
    return finish(store->delete) || sqlite3_changes(store->database) != 1 ? -1 : 0;
}

static int effect(floor_store *store, long long amount) {
    sqlite3_bind_int64(store->effect, 1, amount);
    return finish(store->effect);
}

static int bury(floor_store *store, long long id, long long now) {
    sqlite3_bind_int64(store->bury, 1, id);
    sqlite3_bind_text(store->bury, 2, store->name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(store->bury, 3, 1);
    sqlite3_bind_null(store->bury, 4);
    sqlite3_bind_int64(store->bury, 5, now);
    bind_trace(store->bury, 6, store->trace);
    return finish(store->bury);
}

int floor_fill(floor_store *store, const char *name, const void *arguments, int length, int count) {
    long long now = milliseconds();
    if (finish(store->begin)) return -1;
    for (int i = 0; i < count; i++)
        if (bind_handler(store, name, arguments, length, now, 0)) return -1;
    return finish(store->commit);
}

int floor_step(
    floor_store *store, const char *name, const void *arguments, int length, long long first, int group) {
    long long now = milliseconds();
    if (finish(store->begin)) return -1;
    for (int i = 0; i < group; i++)
        if (finish(store->savepoint) || take(store, first + i) || effect(store, 1)
            || bind_handler(store, name, arguments, length, now, store->trace ? store->trace : first + i)
            || bury(store, first + i, now)
            || finish(store->release))
            return -1;
    return finish(store->commit);
}
