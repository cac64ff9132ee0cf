#include "CPlatform.h"

#ifdef __APPLE__

#include <TargetConditionals.h>
#include <errno.h>

#if TARGET_OS_OSX

// libSystem exports it, and no header declares it: an app in a store of Apple's may not be allowed to call it.
extern int pthread_fchdir_np(int descriptor);

int dh_enter_folder(int descriptor) { return pthread_fchdir_np(descriptor); }

void dh_leave_folder(void) { pthread_fchdir_np(-1); }

#else

int dh_enter_folder(int descriptor) {
    (void)descriptor;
    errno = ENAMETOOLONG;
    return -1;
}

void dh_leave_folder(void) {}

#endif

#endif
