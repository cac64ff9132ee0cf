// The floor of handlers/ on PostgreSQL: a C program's way to do the SQL work of a step through libpq, with nothing around it.
//
// It executes the statements of CFloor, one for one, except for savepoints: prepared, with binary parameters, in pipeline mode.
// Writes wait for nothing; they travel with the next read, or with COMMIT.

#ifndef CPOSTGRESFLOOR_H
#define CPOSTGRESFLOOR_H

/// An open connection with the prepared statements of a step.
typedef struct postgres_floor postgres_floor;

/// The order of the statements of a group.
typedef enum {
    /// Each handler is read, then written, so that a handler sees what the one before it wrote: a round trip for each handler.
    POSTGRES_FLOOR_IN_TURN,
    /// All handlers of the group are read, then all are written: two round trips.
    POSTGRES_FLOOR_TWO_FLIGHTS,
} postgres_floor_order;

/// Makes the tables of a step anew, in a schema of their own for which later connections must be opened with
/// `options='-csearch_path=floor'`. Returns null, or what went wrong; the caller frees it.
char *postgres_floor_make_tables(const char *conninfo);

/// Opens a database that has the tables of a step. Returns null when there is no memory; ask postgres_floor_error.
postgres_floor *postgres_floor_open(const char *conninfo);

/// Says what went wrong first; empty when nothing did.
const char *postgres_floor_error(const postgres_floor *floor);

/// Binds handlers, in one transaction, and gives the id of the first of them. Returns 0, or -1 on an error.
int postgres_floor_fill(
    postgres_floor *floor, const char *name, const void *arguments, int length, int count, long long *first);

/// Ends the handlers `first ..< first + group`, each with its effect and the next handler bound, in one transaction.
/// Returns 0, or -1 on an error.
int postgres_floor_step(
    postgres_floor *floor, const char *name, const void *arguments, int length, long long first, int group,
    postgres_floor_order order);

/// Closes the connection.
void postgres_floor_close(postgres_floor *floor);

#endif
