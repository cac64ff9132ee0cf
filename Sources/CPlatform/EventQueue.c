#include "CPlatform.h"

// Kqueue.c has Darwin's form.
#if defined(__linux__) && !defined(DH_KQUEUE)

#include <errno.h>
#include <sys/epoll.h>

int dh_events_make(void) { return epoll_create1(EPOLL_CLOEXEC); }

int dh_events_arm(int events, int descriptor, uint32_t wanted, uint32_t key) {
    uint64_t both = (uint64_t)key << 32 | (uint32_t)descriptor;
    struct epoll_event event = {.events = wanted | EPOLLONESHOT, .data.u64 = both};
    // A descriptor that was closed is forgotten, and its number may mean another file now.
    if (epoll_ctl(events, EPOLL_CTL_MOD, descriptor, &event) == 0) return 0;
    return errno == ENOENT ? epoll_ctl(events, EPOLL_CTL_ADD, descriptor, &event) : -1;
}

void dh_events_remove(int events, int descriptor) { epoll_ctl(events, EPOLL_CTL_DEL, descriptor, 0); }

int dh_events_wait(int events, struct dh_event *found, int limit, int milliseconds) {
    struct epoll_event some[64];
    int count = epoll_wait(events, some, limit < 64 ? limit : 64, milliseconds);
    for (int index = 0; index < count; index++) {
        found[index].key = (uint32_t)(some[index].data.u64 >> 32);
        found[index].descriptor = (int)(uint32_t)some[index].data.u64;
        found[index].found = some[index].events;
    }
    return count;
}

#endif
