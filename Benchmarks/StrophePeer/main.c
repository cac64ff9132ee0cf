// A client on libstrophe, as short as can be: logs in, says so and leaves; or asks its server again and again first.
//
//     strophe-peer JID PASSWORD PORT starttls|direct                      prints "ready"
//     strophe-peer JID PASSWORD PORT starttls|direct ping COUNT WINDOW    prints "rate" and how many answers a second
//     strophe-peer … ping COUNT WINDOW STORE      the same; each request is committed to a new SQLite database before it is
//                                                 sent, and each answer with its effect: two waits for the disk
//
// It takes any certificate, which saves it the work of looking at one. Its callbacks are in memory.

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strophe.h>
#include <time.h>

static xmpp_ctx_t *context;
static int count, window, sent, answered;
static double start;

static sqlite3 *store;
static sqlite3_stmt *begin_step, *commit_step, *insert_request, *delete_request, *count_answer;

static void must(int code, int expected) {
    if (code == expected) return;
    fprintf(stderr, "strophe-peer: SQLite: %s\n", sqlite3_errmsg(store));
    exit(1);
}

static sqlite3_stmt *prepared(const char *sql) {
    sqlite3_stmt *statement;
    must(sqlite3_prepare_v3(store, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, 0), SQLITE_OK);
    return statement;
}

static void run(sqlite3_stmt *statement, const char *text) {
    if (text) must(sqlite3_bind_text(statement, 1, text, -1, SQLITE_STATIC), SQLITE_OK);
    must(sqlite3_step(statement), SQLITE_DONE);
    must(sqlite3_reset(statement), SQLITE_OK);
}

static void open_store(const char *path) {
    must(sqlite3_open(path, &store), SQLITE_OK);
    must(sqlite3_exec(store,
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -2048;"
        "CREATE TABLE request(id TEXT PRIMARY KEY) WITHOUT ROWID;"
        "CREATE TABLE tally(id INTEGER PRIMARY KEY, answers INTEGER NOT NULL); INSERT INTO tally VALUES (1, 0)",
        NULL, NULL, NULL), SQLITE_OK);
    begin_step = prepared("BEGIN IMMEDIATE");
    commit_step = prepared("COMMIT");
    insert_request = prepared("INSERT INTO request VALUES (?)");
    delete_request = prepared("DELETE FROM request WHERE id = ?");
    count_answer = prepared("UPDATE tally SET answers = answers + 1 WHERE id = 1");
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int answer(xmpp_conn_t *connection, xmpp_stanza_t *stanza, void *data);

static void ask(xmpp_conn_t *connection) {
    char id[32];
    snprintf(id, sizeof id, "ping-%d", sent++);
    if (store) {
        run(begin_step, NULL);
        run(insert_request, id);
        run(commit_step, NULL);
    }
    xmpp_stanza_t *request = xmpp_iq_new(context, "get", id);
    xmpp_stanza_set_to(request, "localhost");
    xmpp_stanza_t *ping = xmpp_stanza_new(context);
    xmpp_stanza_set_name(ping, "ping");
    xmpp_stanza_set_ns(ping, "urn:xmpp:ping");
    xmpp_stanza_add_child(request, ping);
    xmpp_stanza_release(ping);
    xmpp_id_handler_add(connection, answer, id, NULL);
    xmpp_send(connection, request);
    xmpp_stanza_release(request);
}

static int answer(xmpp_conn_t *connection, xmpp_stanza_t *stanza, void *data) {
    (void)data;
    if (store) {
        run(begin_step, NULL);
        run(delete_request, xmpp_stanza_get_id(stanza));
        if (sqlite3_changes(store) != 1) exit(1);
        run(count_answer, NULL);
        run(commit_step, NULL);
    }
    if (sent < count) ask(connection);
    if (++answered == count) {
        printf("rate %f\n", count / (now() - start));
        fflush(stdout);
        xmpp_disconnect(connection);
    }
    return 0;
}

static void changed(xmpp_conn_t *connection, xmpp_conn_event_t event, int error, xmpp_stream_error_t *stream_error,
    void *data) {
    (void)error;
    (void)stream_error;
    (void)data;
    if (event != XMPP_CONN_CONNECT) return xmpp_stop(context);
    if (count) {
        start = now();
        for (int i = 0; i < window && sent < count; i++) ask(connection);
        return;
    }
    puts("ready");
    fflush(stdout);
    xmpp_disconnect(connection);
}

int main(int argc, char **argv) {
    if (argc != 5 && argc != 8 && argc != 9) return 2;
    if (argc == 9) open_store(argv[8]);
    if (argc >= 8) {
        count = atoi(argv[6]);
        window = atoi(argv[7]);
    }
    xmpp_initialize();
    context = xmpp_ctx_new(0, xmpp_get_default_logger(XMPP_LEVEL_ERROR));
    xmpp_conn_t *connection = xmpp_conn_new(context);
    long flags = XMPP_CONN_FLAG_TRUST_TLS;
    if (!strcmp(argv[4], "direct")) flags |= XMPP_CONN_FLAG_LEGACY_SSL;
    xmpp_conn_set_flags(connection, flags);
    xmpp_conn_set_jid(connection, argv[1]);
    xmpp_conn_set_pass(connection, argv[2]);
    if (xmpp_connect_client(connection, "127.0.0.1", (unsigned short)atoi(argv[3]), changed, 0)) return 1;
    xmpp_run(context);
    xmpp_conn_release(connection);
    xmpp_ctx_free(context);
    xmpp_shutdown();
    return 0;
}
