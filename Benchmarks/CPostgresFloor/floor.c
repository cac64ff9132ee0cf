#include "CPostgresFloor.h"

#include <endian.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { INT8 = 20, TEXT = 25, BYTEA = 17 };

enum statement { BEGIN, COMMIT, SELECT, DELETE, EFFECT, BIND, BURY, NEWEST, STATEMENTS };

static const struct {
    const char *name, *sql;
    int count;
    Oid types[7];
} statements[STATEMENTS] = {
    [BEGIN] = {"begin", "BEGIN", 0, {0}},
    [COMMIT] = {"commit", "COMMIT", 0, {0}},
    [SELECT] = {"select",
        "SELECT name, version, arguments, or_else, attempts, deaths, NULL, trace, relations, NULL, NULL FROM handler "
        "WHERE id = $1 AND kind = 0 AND state <> 3", 1, {INT8}},
    [DELETE] = {"delete", "DELETE FROM handler WHERE id = $1", 1, {INT8}},
    [EFFECT] = {"effect", "UPDATE effect SET total = total + $1 WHERE id = 1", 1, {INT8}},
    [BIND] = {"bind",
        "INSERT INTO handler(name, version, arguments, or_else, kind, bound_at, trace) "
        "VALUES ($1, $2, $3, $4, $5, $6, $7)", 7, {TEXT, INT8, BYTEA, BYTEA, INT8, INT8, INT8}},
    [BURY] = {"bury",
        "INSERT INTO ending(handler, name, outcome, reason, ended_at, trace) VALUES ($1, $2, $3, $4, $5, $6)",
        6, {INT8, TEXT, INT8, TEXT, INT8, INT8}},
    [NEWEST] = {"newest", "SELECT max(id) FROM handler", 0, {0}},
};

// What a handler's row held; a program that calls the handler needs it after the result is cleared.
struct row {
    char name[256];
    long long version, attempts, deaths;
    // The first of its chain; 0 for a handler that is that itself.
    long long trace;
    unsigned char arguments[4096];
};

// The results of a connection come in the order of its statements. No more of them are awaited at any time.
enum { LARGEST_GROUP = 4096, AWAITED = 8 * LARGEST_GROUP };

struct postgres_floor {
    PGconn *connection;
    // The statements whose results were not received, a ring.
    unsigned char awaited[AWAITED];
    unsigned head, tail;
    struct row *rows;
    char error[512];
};

static int fail(postgres_floor *floor, const char *what) {
    if (!*floor->error) snprintf(floor->error, sizeof floor->error, "%s %s", what, PQerrorMessage(floor->connection));
    return -1;
}

// MARK: Sending

struct parameters {
    const char *values[7];
    int lengths[7], formats[7];
    long long numbers[7];
    int count;
};

static void add_bytes(struct parameters *all, const void *bytes, int length) {
    all->values[all->count] = bytes;
    all->lengths[all->count] = length;
    all->formats[all->count++] = 1;
}

static void add_text(struct parameters *all, const char *text) { add_bytes(all, text, (int)strlen(text)); }

static void add_null(struct parameters *all) { add_bytes(all, 0, 0); }

static void add_number(struct parameters *all, long long number) {
    all->numbers[all->count] = (long long)htobe64((unsigned long long)number);
    add_bytes(all, &all->numbers[all->count], 8);
}

static void add_trace(struct parameters *all, long long trace) {
    if (trace) add_number(all, trace);
    else add_null(all);
}

static int queue(postgres_floor *floor, enum statement statement, const struct parameters *all) {
    if (floor->head - floor->tail == AWAITED) return fail(floor, "the group is too large");
    if (!PQsendQueryPrepared(
            floor->connection, statements[statement].name, all ? all->count : 0, all ? all->values : 0,
            all ? all->lengths : 0, all ? all->formats : 0, 1))
        return fail(floor, statements[statement].name);
    floor->awaited[floor->head++ % AWAITED] = (unsigned char)statement;
    return 0;
}

static int queue_number(postgres_floor *floor, enum statement statement, long long number) {
    struct parameters all = {.count = 0};
    add_number(&all, number);
    return queue(floor, statement, &all);
}

static int queue_bind(
    postgres_floor *floor, const char *name, const void *arguments, int length, long long now, long long trace) {
    struct parameters all = {.count = 0};
    add_text(&all, name);
    add_number(&all, 1);
    add_bytes(&all, arguments, length);
    add_null(&all);
    add_number(&all, 0);
    add_number(&all, now);
    add_trace(&all, trace);
    return queue(floor, BIND, &all);
}

static int queue_bury(postgres_floor *floor, const struct row *row, long long id, long long now) {
    struct parameters all = {.count = 0};
    add_number(&all, id);
    add_text(&all, row->name);
    add_number(&all, 1);
    add_null(&all);
    add_number(&all, now);
    add_trace(&all, row->trace);
    return queue(floor, BURY, &all);
}

// MARK: Receiving

static long long number(const PGresult *result, int column) {
    unsigned long long value;
    if (PQgetisnull(result, 0, column) || PQgetlength(result, 0, column) != 8) return 0;
    memcpy(&value, PQgetvalue(result, 0, column), 8);
    return (long long)be64toh(value);
}

static int read_row(struct row *row, const PGresult *result) {
    if (PQntuples(result) != 1) return -1;
    int name = PQgetlength(result, 0, 0), arguments = PQgetlength(result, 0, 2);
    if (name >= (int)sizeof row->name || arguments > (int)sizeof row->arguments) return -1;
    memcpy(row->name, PQgetvalue(result, 0, 0), name + 1);
    row->version = number(result, 1);
    memcpy(row->arguments, PQgetvalue(result, 0, 2), arguments);
    row->attempts = number(result, 4);
    row->deaths = number(result, 5);
    row->trace = number(result, 7);
    // Without a key, and nobody waits for it.
    return number(result, 8) ? -1 : 0;
}

// Receives the results of all statements that were queued; rows that were read go to `rows`.
static int receive(postgres_floor *floor, struct row *rows, long long *newest) {
    for (; floor->tail != floor->head; floor->tail++) {
        enum statement statement = floor->awaited[floor->tail % AWAITED];
        PGresult *result = PQgetResult(floor->connection);
        ExecStatusType status = PQresultStatus(result);
        int is_right = status == (statement == SELECT || statement == NEWEST ? PGRES_TUPLES_OK : PGRES_COMMAND_OK);
        if (is_right && statement == SELECT) is_right = !read_row(rows++, result);
        if (is_right && statement == NEWEST) *newest = number(result, 0);
        // A transaction that failed is rolled back by its COMMIT.
        if (is_right && statement == COMMIT) is_right = !strcmp(PQcmdStatus(result), "COMMIT");
        if (is_right && (statement == DELETE || statement == EFFECT))
            is_right = !strcmp(PQcmdTuples(result), "1");
        PQclear(result);
        if (!is_right) return fail(floor, statements[statement].name);
        // The end of this statement's results.
        if (PQgetResult(floor->connection)) return fail(floor, "more results than statements");
    }
    return 0;
}

// Sends what was queued, without an end of the transaction, and receives all results.
static int flush(postgres_floor *floor, struct row *rows) {
    if (!PQsendFlushRequest(floor->connection) || PQflush(floor->connection)) return fail(floor, "flush");
    return receive(floor, rows, 0);
}

// Sends what was queued, and receives all results and the acknowledgement of the whole.
static int sync_pipeline(postgres_floor *floor, long long *newest) {
    if (!PQpipelineSync(floor->connection) || receive(floor, 0, newest)) return fail(floor, "sync");
    PGresult *result = PQgetResult(floor->connection);
    int is_right = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
    PQclear(result);
    return is_right ? 0 : fail(floor, "sync");
}

// MARK: Steps

static long long milliseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (long long)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

postgres_floor *postgres_floor_open(const char *conninfo) {
    postgres_floor *floor = calloc(1, sizeof(postgres_floor));
    if (!floor || !(floor->rows = calloc(LARGEST_GROUP, sizeof(struct row)))) {
        free(floor);
        return 0;
    }
    floor->connection = PQconnectdb(conninfo);
    if (PQstatus(floor->connection) != CONNECTION_OK) {
        fail(floor, "connect");
        return floor;
    }
    for (int i = 0; i < STATEMENTS; i++) {
        PGresult *result = PQprepare(
            floor->connection, statements[i].name, statements[i].sql, statements[i].count, statements[i].types);
        if (PQresultStatus(result) != PGRES_COMMAND_OK) fail(floor, statements[i].name);
        PQclear(result);
    }
    if (!PQenterPipelineMode(floor->connection)) fail(floor, "pipeline mode");
    return floor;
}

const char *postgres_floor_error(const postgres_floor *floor) {
    return floor ? floor->error : "no memory";
}

void postgres_floor_close(postgres_floor *floor) {
    if (!floor) return;
    PQfinish(floor->connection);
    free(floor->rows);
    free(floor);
}

int postgres_floor_fill(
    postgres_floor *floor, const char *name, const void *arguments, int length, int count, long long *first) {
    long long now = milliseconds(), newest = 0;
    if (*floor->error || count > LARGEST_GROUP || queue(floor, BEGIN, 0)) return -1;
    for (int i = 0; i < count; i++)
        if (queue_bind(floor, name, arguments, length, now, 0)) return -1;
    if (queue(floor, NEWEST, 0) || queue(floor, COMMIT, 0) || sync_pipeline(floor, &newest)) return -1;
    *first = newest - count + 1;
    return 0;
}

static int queue_writes(
    postgres_floor *floor, const struct row *row, const char *name, const void *arguments, int length,
    long long id, long long now) {
    return queue_number(floor, DELETE, id) || queue_number(floor, EFFECT, 1)
        || queue_bind(floor, name, arguments, length, now, row->trace ? row->trace : id)
        || queue_bury(floor, row, id, now);
}

int postgres_floor_step(
    postgres_floor *floor, const char *name, const void *arguments, int length, long long first, int group,
    postgres_floor_order order) {
    long long now = milliseconds();
    if (*floor->error || group < 1 || group > LARGEST_GROUP || queue(floor, BEGIN, 0)) return -1;
    if (order == POSTGRES_FLOOR_TWO_FLIGHTS) {
        for (int i = 0; i < group; i++)
            if (queue_number(floor, SELECT, first + i)) return -1;
        if (flush(floor, floor->rows)) return -1;
    }
    for (int i = 0; i < group; i++) {
        struct row *row = floor->rows + i;
        if (order == POSTGRES_FLOOR_IN_TURN && (queue_number(floor, SELECT, first + i) || flush(floor, row)))
            return -1;
        if (queue_writes(floor, row, name, arguments, length, first + i, now)) return -1;
    }
    return queue(floor, COMMIT, 0) || sync_pipeline(floor, 0) ? -1 : 0;
}
