#define _GNU_SOURCE
#include "CPlatform.h"

#ifdef __linux__

#include <sys/prctl.h>

// Linux cuts a longer name itself; pthread_setname_np(3) would refuse it.
void dh_name_thread(const char *name) { prctl(PR_SET_NAME, name, 0, 0, 0); }

#else

#include <pthread.h>

void dh_name_thread(const char *name) { pthread_setname_np(name); }

#endif
