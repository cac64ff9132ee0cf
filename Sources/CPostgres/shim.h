// libpq. Only what Swift cannot import stands here, each with its reason.
#include <libpq-fe.h>

// Macros over character literals: the fields of an error.
static const int dh_pq_error_state = PG_DIAG_SQLSTATE;
static const int dh_pq_error_table = PG_DIAG_TABLE_NAME;
static const int dh_pq_error_message = PG_DIAG_MESSAGE_PRIMARY;
static const int dh_pq_error_routine = PG_DIAG_SOURCE_FUNCTION;
