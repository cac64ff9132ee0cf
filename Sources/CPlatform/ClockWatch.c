#include "CPlatform.h"

#include <errno.h>
#include <stdint.h>
#include <sys/timerfd.h>
#include <unistd.h>

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
