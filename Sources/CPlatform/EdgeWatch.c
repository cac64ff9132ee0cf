#define _GNU_SOURCE
#include "CPlatform.h"

// Kqueue.c has Darwin's form.
#if defined(__linux__) && !defined(DH_KQUEUE)

#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

int dh_edges_make(void) { return epoll_create1(EPOLL_CLOEXEC); }

int dh_edges_add(int edges, int descriptor) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = descriptor};
    return epoll_ctl(edges, EPOLL_CTL_ADD, descriptor, &event);
}

void dh_edges_remove(int edges, int descriptor) { epoll_ctl(edges, EPOLL_CTL_DEL, descriptor, 0); }

int dh_edges_take(int edges, int *descriptors, int limit) {
    struct epoll_event events[16];
    int count;
    do {
        count = epoll_wait(edges, events, limit, 0);
    } while (count < 0 && errno == EINTR);
    for (int index = 0; index < count; index++) descriptors[index] = events[index].data.fd;
    return count < 0 ? 0 : count;
}

int dh_process_open(int32_t process) { return (int)syscall(SYS_pidfd_open, process, 0); }

#endif
