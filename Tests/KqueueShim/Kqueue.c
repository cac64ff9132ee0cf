#define _GNU_SOURCE
#include <sys/event.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

// A queue is an epoll descriptor, so it can be polled. epoll has one entry for a descriptor, which the two filters of a note share.

enum { kept = EV_ADD | EV_ONESHOT | EV_CLEAR };

struct filter {
    uint16_t flags;
    void *data;
};

struct note {
    struct note *next;
    int queue;
    /// A descriptor, or a process.
    uint32_t ident;
    int is_process;
    /// What epoll watches.
    int descriptor;
    struct filter read, write;
};

static struct note *buckets[4096];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/// Returns where the pointer to a note is, or where one to a new note belongs.
static struct note **find(int queue, uint32_t ident, int is_process) {
    struct note **at = &buckets[((uint32_t)queue * 131 + ident) % 4096];
    while (*at && ((*at)->queue != queue || (*at)->ident != ident || (*at)->is_process != is_process)) at = &(*at)->next;
    return at;
}

static void discard(struct note **at) {
    struct note *note = *at;
    *at = note->next;
    if (note->is_process) close(note->descriptor);
    free(note);
}

static int apply(const struct note *note) {
    struct epoll_event event = {.data.u64 = (uint64_t)note->is_process << 32 | note->ident};
    uint16_t flags = note->read.flags | note->write.flags;
    if (note->read.flags) event.events |= EPOLLIN | EPOLLRDHUP;
    if (note->write.flags) event.events |= EPOLLOUT;
    if (flags & EV_CLEAR) event.events |= EPOLLET;
    if (flags & EV_ONESHOT) event.events |= EPOLLONESHOT;
    if (epoll_ctl(note->queue, EPOLL_CTL_MOD, note->descriptor, &event) == 0) return 0;
    // New, or a descriptor that was closed since.
    if (errno != ENOENT) return errno;
    return epoll_ctl(note->queue, EPOLL_CTL_ADD, note->descriptor, &event) == 0 ? 0 : errno;
}

/// Darwin knows no process that has ended, also where its parent has not yet been told.
static int open_process(pid_t process) {
    int descriptor = (int)syscall(SYS_pidfd_open, process, 0);
    struct pollfd entry = {.fd = descriptor, .events = POLLIN};
    if (descriptor < 0 || poll(&entry, 1, 0) == 0) return descriptor;
    close(descriptor);
    errno = ESRCH;
    return -1;
}

static int add(struct note **at, int queue, const struct kevent *change) {
    int is_process = change->filter == EVFILT_PROC;
    if (!*at) {
        int descriptor = is_process ? open_process((pid_t)change->ident) : (int)change->ident;
        if (descriptor < 0) return errno;
        struct note *note = calloc(1, sizeof *note);
        if (!note) abort();
        *note = (struct note){.queue = queue, .ident = (uint32_t)change->ident, .is_process = is_process, .descriptor = descriptor};
        *at = note;
    }
    struct filter *filter = change->filter == EVFILT_WRITE ? &(*at)->write : &(*at)->read;
    *filter = (struct filter){(change->flags & kept) | (is_process ? EV_CLEAR : 0), change->udata};
    int code = apply(*at);
    if (code) discard(at);
    return code;
}

static int delete(struct note **at, const struct kevent *change) {
    if (!*at) return ENOENT;
    struct filter *filter = change->filter == EVFILT_WRITE ? &(*at)->write : &(*at)->read;
    if (!filter->flags) return ENOENT;
    filter->flags = 0;
    if ((*at)->read.flags | (*at)->write.flags) return apply(*at);
    epoll_ctl((*at)->queue, EPOLL_CTL_DEL, (*at)->descriptor, NULL);
    discard(at);
    return 0;
}

/// Makes the changes until one fails that gets no receipt. Returns the number of receipts, or -1 with errno.
static int change_all(int queue, const struct kevent *changes, int count, struct kevent *events, int limit) {
    int receipts = 0;
    for (int index = 0; index < count; index++) {
        const struct kevent *change = &changes[index];
        struct note **at = find(queue, (uint32_t)change->ident, change->filter == EVFILT_PROC);
        int code = change->flags & EV_DELETE ? delete(at, change) : add(at, queue, change);
        if (receipts < limit && (code || change->flags & EV_RECEIPT)) {
            events[receipts] = *change;
            events[receipts].flags |= EV_ERROR;
            events[receipts++].data = code;
        } else if (code) {
            errno = code;
            return -1;
        }
    }
    return receipts;
}

/// Writes the events of a note that epoll has found, 0 to 2.
static int report(struct note **at, uint32_t bits, struct kevent *events) {
    struct note *note = *at;
    uint32_t end = bits & (EPOLLHUP | EPOLLERR);
    int count = 0;
    if (note->read.flags && bits & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        uint16_t flags = end || bits & EPOLLRDHUP ? EV_EOF : 0;
        int filter = note->is_process ? EVFILT_PROC : EVFILT_READ;
        EV_SET(&events[count++], note->ident, (int16_t)filter, flags, 0, 0, note->read.data);
        if (note->read.flags & EV_ONESHOT) note->read.flags = 0;
    }
    if (note->write.flags && (end || bits & EPOLLOUT)) {
        EV_SET(&events[count++], note->ident, EVFILT_WRITE, end ? EV_EOF : 0, 0, 0, note->write.data);
        if (note->write.flags & EV_ONESHOT) note->write.flags = 0;
    }
    // epoll disarms both filters, a kqueue the one that has fired.
    if ((note->read.flags | note->write.flags) & EV_ONESHOT) apply(note);
    if (!(note->read.flags | note->write.flags)) {
        epoll_ctl(note->queue, EPOLL_CTL_DEL, note->descriptor, NULL);
        discard(at);
    }
    return count;
}

int kqueue(void) {
    int queue = epoll_create1(0);
    // An earlier queue may have had the number; Darwin discards the notes of a queue when it is closed.
    pthread_mutex_lock(&lock);
    for (int bucket = 0; bucket < 4096; bucket++) {
        for (struct note **at = &buckets[bucket]; *at;) {
            if ((*at)->queue == queue) discard(at);
            else at = &(*at)->next;
        }
    }
    pthread_mutex_unlock(&lock);
    return queue;
}

int kevent(int queue, const struct kevent *changes, int count, struct kevent *events, int limit, const struct timespec *timeout) {
    pthread_mutex_lock(&lock);
    int receipts = change_all(queue, changes, count, events, limit);
    pthread_mutex_unlock(&lock);
    if (receipts != 0 || limit == 0) return receipts;
    // Each may become two events in a queue with both filters, for which the limit is 64.
    struct epoll_event found[32];
    int most = limit < 32 ? limit : 32;
    int milliseconds = timeout ? (int)(timeout->tv_sec * 1000 + timeout->tv_nsec / 1000000) : -1;
    int ready = epoll_wait(queue, found, most, milliseconds);
    int reported = 0;
    pthread_mutex_lock(&lock);
    for (int index = 0; index < ready; index++) {
        struct note **at = find(queue, (uint32_t)found[index].data.u64, (int)(found[index].data.u64 >> 32));
        if (*at) reported += report(at, found[index].events, events + reported);
    }
    pthread_mutex_unlock(&lock);
    return ready < 0 ? ready : reported;
}

int pthread_cond_timedwait_relative_np(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *time) {
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += time->tv_sec + (end.tv_nsec + time->tv_nsec) / 1000000000;
    end.tv_nsec = (end.tv_nsec + time->tv_nsec) % 1000000000;
    return pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &end);
}
