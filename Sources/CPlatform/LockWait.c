#define _GNU_SOURCE
#include "CPlatform.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

struct wait {
    int descriptor;
    int64_t offset;
    dh_lock_wait_end end;
    void *context;
};

/// Touches nothing but its own stack and the descriptor, so that it may be canceled at any moment.
static int wait_for_lock(int descriptor, int64_t offset) {
    // For reading, so that any number of processes can wait for the same byte and all are woken.
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = offset, .l_len = 1};
    int result;
    do {
        result = fcntl(descriptor, F_OFD_SETLKW, &lock);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}

static void *run(void *argument) {
    struct wait *wait = argument;
    int descriptor = wait->descriptor;
    int64_t offset = wait->offset;
    dh_lock_wait_end end = wait->end;
    void *context = wait->context;
    // Freed before the only place where the thread can be canceled; free(3) is none.
    free(wait);
    int error = wait_for_lock(descriptor, offset);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = offset, .l_len = 1};
    fcntl(descriptor, F_OFD_SETLK, &lock);
    end(context, error);
    return NULL;
}

/// Small, for there may be one such thread for each other process; enough for the callback's SQL.
static const size_t stack_size = 512 * 1024;

int dh_lock_wait_start(
    pthread_t *thread, int descriptor, int64_t offset, dh_lock_wait_end end, void *context) {
    struct wait *wait = malloc(sizeof *wait);
    if (wait == NULL) return ENOMEM;
    *wait = (struct wait){descriptor, offset, end, context};
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_size);
    // The application's signal handlers run on the application's own threads.
    sigset_t all, previous;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous);
    int error = pthread_create(thread, &attributes, run, wait);
    pthread_sigmask(SIG_SETMASK, &previous, NULL);
    pthread_attr_destroy(&attributes);
    if (error != 0) free(wait);
    return error;
}

void dh_lock_wait_join(pthread_t thread) {
    pthread_cancel(thread);
    pthread_join(thread, NULL);
}
