#include "CPlatform.h"

// What EdgeWatch.c and EventQueue.c do with epoll and pidfd. DH_KQUEUE: on Linux, over tests' own kqueue.
#if defined(__APPLE__) || defined(DH_KQUEUE)

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <sys/event.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static const struct timespec at_once = {0, 0};

static int make_queue(void) {
    int queue = kqueue();
    if (queue < 0 || fcntl(queue, F_SETFD, FD_CLOEXEC) == 0) return queue;
    int reason = errno;
    close(queue);
    errno = reason;
    return -1;
}

// MARK: - Edges

int dh_edges_make(void) { return make_queue(); }

int dh_edges_add(int edges, int descriptor) {
    struct kevent change;
    EV_SET(&change, descriptor, EVFILT_READ, EV_ADD | EV_CLEAR, 0, 0, NULL);
    return kevent(edges, &change, 1, NULL, 0, NULL);
}

void dh_edges_remove(int edges, int descriptor) {
    struct kevent change;
    EV_SET(&change, descriptor, EVFILT_READ, EV_DELETE, 0, 0, NULL);
    kevent(edges, &change, 1, NULL, 0, NULL);
}

int dh_edges_take(int edges, int *descriptors, int limit) {
    struct kevent events[16];
    int count;
    do {
        count = kevent(edges, NULL, 0, events, limit, &at_once);
    } while (count < 0 && errno == EINTR);
    for (int index = 0; index < count; index++) descriptors[index] = (int)events[index].ident;
    return count < 0 ? 0 : count;
}

int dh_process_open(int32_t process) {
    int queue = make_queue();
    if (queue < 0) return -1;
    struct kevent change;
    EV_SET(&change, process, EVFILT_PROC, EV_ADD, NOTE_EXIT, 0, NULL);
    if (kevent(queue, &change, 1, NULL, 0, NULL) == 0) return queue;
    int reason = errno;
    close(queue);
    errno = reason;
    return -1;
}

// MARK: - Events

// epoll has one entry for a descriptor, a kqueue has one for each filter. The pointer of an entry holds the key, and above it what was
// wanted.
static void *entry(uint32_t wanted, uint32_t key) { return (void *)(uintptr_t)((uint64_t)wanted << 32 | key); }
static uint32_t wanted_of(const struct kevent *event) { return (uint32_t)((uint64_t)(uintptr_t)event->udata >> 32); }
static uint32_t key_of(const struct kevent *event) { return (uint32_t)(uintptr_t)event->udata; }

_Static_assert(sizeof(void *) == 8, "An entry does not fit into a pointer.");

// Arms the filters that are wanted and removes the others.
static int set_filters(int events, int descriptor, uint32_t wanted, void *entry) {
    struct kevent changes[2], results[2];
    int reads = wanted & POLLIN ? EV_ADD | EV_ONESHOT : EV_DELETE;
    int writes = wanted & POLLOUT ? EV_ADD | EV_ONESHOT : EV_DELETE;
    EV_SET(&changes[0], descriptor, EVFILT_READ, reads | EV_RECEIPT, 0, 0, entry);
    EV_SET(&changes[1], descriptor, EVFILT_WRITE, writes | EV_RECEIPT, 0, 0, entry);
    int count = kevent(events, changes, 2, results, 2, &at_once);
    if (count < 0) return -1;
    for (int index = 0; index < count; index++) {
        int is_removed = results[index].filter == EVFILT_READ ? !(wanted & POLLIN) : !(wanted & POLLOUT);
        // A filter that is to go may be gone.
        if (results[index].data == 0 || (is_removed && results[index].data == ENOENT)) continue;
        errno = (int)results[index].data;
        return -1;
    }
    return 0;
}

int dh_events_make(void) { return make_queue(); }

int dh_events_arm(int events, int descriptor, uint32_t wanted, uint32_t key) {
    return set_filters(events, descriptor, wanted, entry(wanted, key));
}

void dh_events_remove(int events, int descriptor) { set_filters(events, descriptor, 0, NULL); }

int dh_events_wait(int events, struct dh_event *found, int limit, int milliseconds) {
    struct kevent some[64];
    struct timespec end = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
    int count = kevent(events, NULL, 0, some, limit < 64 ? limit : 64, milliseconds < 0 ? NULL : &end);
    if (count < 0) return count;
    int distinct = 0;
    for (int index = 0; index < count; index++) {
        uint32_t bits = some[index].filter == EVFILT_READ ? POLLIN : POLLOUT;
        // The end of what can be read is read; poll(2) has no more to say about it either.
        if (some[index].filter == EVFILT_WRITE && some[index].flags & EV_EOF) bits |= POLLHUP;
        int at = 0;
        while (at < distinct && found[at].descriptor != (int)some[index].ident) at++;
        if (at == distinct) {
            found[distinct++] = (struct dh_event){.descriptor = (int)some[index].ident, .key = key_of(&some[index])};
        }
        found[at].found |= bits;
    }
    // A descriptor is found once: the filter that has not fired goes with the one that has.
    for (int index = 0; index < count; index++) {
        if (wanted_of(&some[index]) == (POLLIN | POLLOUT)) dh_events_remove(events, (int)some[index].ident);
    }
    return distinct;
}

#endif
