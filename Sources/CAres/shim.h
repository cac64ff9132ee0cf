// c-ares. Only what Swift cannot import stands here, each with its reason.

// c-ares 1.34 (Debian 13) deprecates what 1.18 (Debian 12) has no replacement for.
#define CARES_NO_DEPRECATED
#include <ares.h>
#include <netdb.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/time.h>

// Function-like macros over a bit mask, without their shift into the sign of an int.
static inline int dh_ares_reads(int bits, int index) { return (unsigned)bits >> index & 1; }
static inline int dh_ares_writes(int bits, int index) { return (unsigned)bits >> (index + ARES_GETSOCK_MAXNUM) & 1; }
// A macro of another type than the functions take.
static const ares_socket_t dh_ares_no_socket = ARES_SOCKET_BAD;

// Constants of the system, whose types in Swift differ between Linux and Darwin, as those of timeval's members do.
static const int dh_ares_any_family = AF_UNSPEC;
static const int dh_ares_stream_socket = SOCK_STREAM;

/// Returns the microseconds until c-ares wants to repeat a query or to query another server; -1 where it waits for nothing.
static inline int64_t dh_ares_timeout(ares_channel channel) {
    struct timeval time;
    if (!ares_timeout(channel, NULL, &time)) return -1;
    return (int64_t)time.tv_sec * 1000000 + time.tv_usec;
}

// Macros in c-ares 1.18, values of an enumeration in 1.34; the functions take and return int in both.
static const int dh_ares_success = ARES_SUCCESS;
static const int dh_ares_not_initialized = ARES_ENOTINITIALIZED;
static const int dh_ares_not_found = ARES_ENOTFOUND;
static const int dh_ares_no_data = ARES_ENODATA;
static const int dh_ares_no_name = ARES_ENONAME;
static const int dh_ares_bad_name = ARES_EBADNAME;
