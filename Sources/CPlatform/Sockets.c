#define _GNU_SOURCE
#include "CPlatform.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#if defined(__linux__) && !defined(DH_KQUEUE)

int dh_prepare_socket(int descriptor) {
    int flags = fcntl(descriptor, F_GETFL);
    if (flags < 0 || fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) < 0) return -1;
    return fcntl(descriptor, F_SETFD, FD_CLOEXEC) < 0 ? -1 : 0;
}

int dh_socket(int family) { return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

int dh_socket_pair(int *ends) { return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends); }

int dh_accept(int listener) { return accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK); }

#else

// A program that another thread starts between the call that opens a descriptor and this one inherits it: Darwin has no flags for
// socket(2) and no accept4.
int dh_prepare_socket(int descriptor) {
    int flags = fcntl(descriptor, F_GETFL);
    if (flags < 0 || fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) < 0) return -1;
    if (fcntl(descriptor, F_SETFD, FD_CLOEXEC) < 0) return -1;
#ifdef SO_NOSIGPIPE
    int on = 1;
    return setsockopt(descriptor, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#else
    return 0;
#endif
}

/// Closes the descriptor if that fails.
static int prepared(int descriptor) {
    if (descriptor < 0 || dh_prepare_socket(descriptor) == 0) return descriptor;
    // The other side has closed the connection: it has no options any more.
    int reason = errno == EINVAL ? ECONNABORTED : errno;
    close(descriptor);
    errno = reason;
    return -1;
}

int dh_socket(int family) { return prepared(socket(family, SOCK_STREAM, 0)); }

int dh_socket_pair(int *ends) {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return -1;
    int one = prepared(ends[0]);
    int other = prepared(ends[1]);
    if (one >= 0 && other >= 0) return 0;
    int reason = errno;
    if (one >= 0) close(one);
    if (other >= 0) close(other);
    errno = reason;
    return -1;
}

int dh_accept(int listener) { return prepared(accept(listener, NULL, NULL)); }

#endif
