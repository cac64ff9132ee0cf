#define _GNU_SOURCE
#include "CWorld.h"

#include <dlfcn.h>
#include <stdlib.h>

#define SWIFT_CALL __attribute__((swiftcall))

// Source: include/swift/Runtime/Concurrency.h of the Swift runtime.
typedef SWIFT_CALL void (*enqueue)(void *job);

static dh_job_sink sink;

static SWIFT_CALL void take(void *job, enqueue original) { sink(job); }

// By name: a program that was linked against the variable would have a copy of its own, which the runtime does not read.
static void set(const char *hook) {
    void **place = dlsym(RTLD_DEFAULT, hook);
    if (!place) abort();
    *place = (void *)take;
}

void dh_take_jobs(dh_job_sink given) {
    sink = given;
    set("swift_task_enqueueGlobal_hook");
    set("swift_task_enqueueMainExecutor_hook");
}
