// kqueue(2) over epoll(7), as far as Sources/CPlatform/Kqueue.c calls it: it lets Darwin's part of Platform run on Linux.
#ifndef KQUEUE_SHIM_EVENT_H
#define KQUEUE_SHIM_EVENT_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define EVFILT_READ (-1)
#define EVFILT_WRITE (-2)
#define EVFILT_PROC (-5)

#define EV_ADD 0x0001
#define EV_DELETE 0x0002
#define EV_ONESHOT 0x0010
#define EV_CLEAR 0x0020
#define EV_RECEIPT 0x0040
#define EV_ERROR 0x4000
#define EV_EOF 0x8000

#define NOTE_EXIT 0x80000000

struct kevent {
    uintptr_t ident;
    int16_t filter;
    uint16_t flags;
    uint32_t fflags;
    intptr_t data;
    void *udata;
};

#define EV_SET(event, a, b, c, d, e, f) (*(event) = (struct kevent){(uintptr_t)(a), b, c, d, e, f})

int kqueue(void);
int kevent(int queue, const struct kevent *changes, int count, struct kevent *events, int limit, const struct timespec *timeout);

/// Darwin's wait for a time instead of until a time.
int pthread_cond_timedwait_relative_np(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *time);

#endif
