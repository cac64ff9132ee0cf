#include "CHandlerRecords.h"

#ifdef __ELF__

// The linker defines both symbols when the section exists; weak, because a program may have no handler.
extern const dh_handler_record __start_dh_handlers[] __attribute__((weak));
extern const dh_handler_record __stop_dh_handlers[] __attribute__((weak));

int dh_handler_record_count(void) {
    return __start_dh_handlers ? (int)(__stop_dh_handlers - __start_dh_handlers) : 0;
}

dh_handler_record dh_handler_record_at(int index) { return __start_dh_handlers[index]; }

#elif defined(__APPLE__)

#include <mach-o/dyld.h>
#include <mach-o/getsect.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// The records of all images, in the order in which they were loaded: an index keeps its meaning.
static dh_handler_record *records;
static size_t count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void add_image(const struct mach_header *header, intptr_t slide) {
    (void)slide;
    unsigned long size = 0;
    const void *section = getsectiondata((const struct mach_header_64 *)header, "__DATA", "dh_handlers", &size);
    size_t added = section ? size / sizeof(dh_handler_record) : 0;
    if (!added) return;
    pthread_mutex_lock(&lock);
    records = reallocf(records, (count + added) * sizeof *records);
    if (!records) abort();  // A program that lacks some of its handlers must not run.
    memcpy(records + count, section, added * sizeof *records);
    count += added;
    pthread_mutex_unlock(&lock);
}

// Calls add_image for each image that is loaded, and later for each that will be.
static void find_records(void) { _dyld_register_func_for_add_image(add_image); }

int dh_handler_record_count(void) {
    pthread_once(&once, find_records);
    pthread_mutex_lock(&lock);
    int found = (int)count;
    pthread_mutex_unlock(&lock);
    return found;
}

dh_handler_record dh_handler_record_at(int index) {
    pthread_mutex_lock(&lock);
    dh_handler_record record = records[index];
    pthread_mutex_unlock(&lock);
    return record;
}

#else

// @Handler leaves no records in other file formats: there a registry lists its handlers.
int dh_handler_record_count(void) { return 0; }

dh_handler_record dh_handler_record_at(int index) {
    (void)index;
    return 0;
}

#endif
