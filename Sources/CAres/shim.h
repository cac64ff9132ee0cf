// c-ares. Only what Swift cannot import stands here, each with its reason.
#include <ares.h>
#include <netdb.h>
#include <sys/socket.h>

// Function-like macros over a bit mask.
static inline int dh_ares_reads(int bits, int index) { return ARES_GETSOCK_READABLE(bits, index) != 0; }
static inline int dh_ares_writes(int bits, int index) { return ARES_GETSOCK_WRITABLE(bits, index) != 0; }
// A macro of another type than the functions take.
static const ares_socket_t dh_ares_no_socket = ARES_SOCKET_BAD;
