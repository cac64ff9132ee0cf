// The floor of handlers/: a C program's way to do the SQL work of a step, with nothing around it.
//
// It executes the statements of `HandlerStore`, one for one, on a file that a `HandlerStore` made, so that schema and
// file settings are the same. `floor_trace` records the statements of both sides, and a benchmark refuses to run when
// they differ.

#ifndef CFLOOR_H
#define CFLOOR_H

/// An open database with the prepared statements of a step.
typedef struct floor_store floor_store;

/// Opens a database that a HandlerStore made. Returns null when SQLite refuses.
floor_store *floor_open(const char *path);

/// Says what went wrong last; empty when nothing did.
const char *floor_error(const floor_store *store);

/// Binds handlers, in one transaction. Returns 0, or -1 on an error.
int floor_fill(floor_store *store, const char *name, const void *arguments, int length, int count);

/// Ends the handlers `first ..< first + group`, each with its effect and the next handler bound, in one transaction.
/// Returns 0, or -1 on an error.
int floor_step(floor_store *store, const char *name, const void *arguments, int length, long long first, int group);

/// Closes the database.
void floor_close(floor_store *store);

/// From now on every connection opened in this process records the text of each statement it runs.
void floor_trace_begin(void);

/// Stops recording on new connections and returns what was recorded, one statement a line; the caller frees it.
char *floor_trace_end(void);

// The floor of client/parse: libxml2's push parser with its own tree builder.

/// Reads a whole document into libxml2's tree, in chunks of 64 KiB, and frees it. Returns the number of elements, or -1
/// when it is not well-formed.
long long floor_parse_tree(const char *bytes, long long length);

#endif
