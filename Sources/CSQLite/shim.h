// SQLite's C interface. Only what Swift cannot import stands here, each with its reason.
#include <sqlite3.h>

// A macro with a cast of -1 to a function pointer: "copy the bound bytes now".
static inline int dh_bind_text(sqlite3_stmt *statement, int index, const char *text, int length) {
    return sqlite3_bind_text(statement, index, text, length, SQLITE_TRANSIENT);
}
static inline int dh_bind_blob(sqlite3_stmt *statement, int index, const void *bytes, int length) {
    return sqlite3_bind_blob(statement, index, bytes, length, SQLITE_TRANSIENT);
}
// A function with a variable number of arguments.
static inline int dh_config_checkpoint_at_close(sqlite3 *database, int is_on) {
    return sqlite3_db_config(database, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !is_on, (int *)0);
}
