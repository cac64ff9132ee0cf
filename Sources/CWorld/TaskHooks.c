#define _GNU_SOURCE
#include "CWorld.h"

#include <dlfcn.h>
#include <sqlite3.h>
#include <stdlib.h>

#define SWIFT_CALL __attribute__((swiftcall))

// Source: include/swift/Runtime/Concurrency.h of the Swift runtime.
typedef SWIFT_CALL void (*enqueue)(void *job);

static dh_job_sink sink;

static SWIFT_CALL void take(void *job, enqueue original) { sink(job); }

// The hook is found by name. A program that links the variable has another copy, which the runtime does not read.
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

static sqlite3_mem_methods system_memory;
static int allocations_left;

// A negative value -n means that the n-th allocation from now and all after it fail.
static int fails(void) {
    if (allocations_left > 0) return --allocations_left == 0;
    if (allocations_left == -1) return 1;
    if (allocations_left < 0) allocations_left++;
    return 0;
}
static void *allocate(int size) { return fails() ? NULL : system_memory.xMalloc(size); }
static void *reallocate(void *memory, int size) { return fails() ? NULL : system_memory.xRealloc(memory, size); }

void dh_take_memory(void) {
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &system_memory) != SQLITE_OK) abort();
    sqlite3_mem_methods limited = system_memory;
    limited.xMalloc = allocate;
    limited.xRealloc = reallocate;
    if (sqlite3_config(SQLITE_CONFIG_MALLOC, &limited) != SQLITE_OK) abort();
}

int dh_fail_allocation(int number) {
    int before = allocations_left;
    allocations_left = number;
    return before;
}
