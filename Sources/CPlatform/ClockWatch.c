#include "CPlatform.h"

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

#ifdef __linux__

#include <sys/timerfd.h>

int dh_clock_watch_make(void) {
    int watch = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (watch < 0) return -1;
    // It never expires: only a change of the clock ends its wait.
    struct itimerspec never = {.it_value = {.tv_sec = INT64_MAX}};
    if (timerfd_settime(watch, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL) == 0) return watch;
    int reason = errno;
    close(watch);
    errno = reason;
    return -1;
}

int dh_clock_watch_take(int watch) {
    uint64_t expirations;
    return read(watch, &expirations, sizeof expirations) < 0 && errno == ECANCELED;
}

#else

#include <fcntl.h>
#include <notify.h>
#include <sys/event.h>

int dh_clock_watch_make(int *token) {
    int watch = kqueue();
    if (watch < 0) return -1;
    int notices = -1;
    if (notify_register_file_descriptor("com.apple.system.clock_set", &notices, 0, token) != NOTIFY_STATUS_OK) {
        close(watch);
        errno = EMFILE;
        return -1;
    }
    struct kevent changes[2];
    EV_SET(&changes[0], notices, EVFILT_READ, EV_ADD | EV_CLEAR, 0, 0, NULL);
    // No notification follows a suspension. An interval that goes on during it has passed when the machine wakes.
    EV_SET(&changes[1], 0, EVFILT_TIMER, EV_ADD, NOTE_SECONDS | NOTE_MACH_CONTINUOUS_TIME | NOTE_BACKGROUND, 60, NULL);
    if (fcntl(watch, F_SETFD, FD_CLOEXEC) == 0 && fcntl(notices, F_SETFD, FD_CLOEXEC) == 0 &&
        fcntl(notices, F_SETFL, O_NONBLOCK) == 0 && kevent(watch, changes, 2, NULL, 0, NULL) == 0)
        return watch;
    int reason = errno;
    dh_clock_watch_close(watch, *token);
    errno = reason;
    return -1;
}

int dh_clock_watch_take(int watch) {
    struct kevent events[2];
    struct timespec now = {0, 0};
    int is_set = 0;
    int count = kevent(watch, NULL, 0, events, 2, &now);
    for (int index = 0; index < count; index++) {
        if (events[index].filter != EVFILT_READ) continue;
        // One token for each time that the clock was set.
        int tokens[16];
        while (read((int)events[index].ident, tokens, sizeof tokens) > 0) is_set = 1;
    }
    return is_set;
}

void dh_clock_watch_close(int watch, int token) {
    close(watch);
    // Closes the descriptor of the notification, too.
    notify_cancel(token);
}

#endif
