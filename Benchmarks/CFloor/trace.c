#include "CFloor.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

// One recording at a time, on one thread: the benchmarks open their connections one after the other.
static sqlite3_str *recording;

static int note(unsigned event, void *context, void *statement, void *text) {
    (void)event, (void)context, (void)statement;
    // The statements inside a trigger come as comments.
    if (recording && strncmp(text, "--", 2)) sqlite3_str_appendf(recording, "%s\n", (const char *)text);
    return 0;
}

static int attach(sqlite3 *database, const char **error, const void *routines) {
    (void)error, (void)routines;
    return sqlite3_trace_v2(database, SQLITE_TRACE_STMT, note, 0);
}

void floor_trace_begin(void) {
    recording = sqlite3_str_new(0);
    sqlite3_auto_extension((void (*)(void))attach);
}

char *floor_trace_end(void) {
    sqlite3_cancel_auto_extension((void (*)(void))attach);
    char *statements = sqlite3_str_finish(recording);
    recording = 0;
    char *copy = strdup(statements ? statements : "");
    sqlite3_free(statements);
    return copy;
}
