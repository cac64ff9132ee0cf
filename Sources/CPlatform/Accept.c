#define _GNU_SOURCE
#include "CPlatform.h"

#include <stddef.h>
#include <sys/socket.h>

int dh_accept(int listener) { return accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK); }
