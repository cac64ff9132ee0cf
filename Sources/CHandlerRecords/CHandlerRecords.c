#include "CHandlerRecords.h"

#ifdef __ELF__

// The linker defines both symbols when the section exists; weak, because a program may have no handler.
extern const dh_handler_record __start_dh_handlers[] __attribute__((weak));
extern const dh_handler_record __stop_dh_handlers[] __attribute__((weak));

int dh_handler_record_count(void) {
    return __start_dh_handlers ? (int)(__stop_dh_handlers - __start_dh_handlers) : 0;
}

dh_handler_record dh_handler_record_at(int index) { return __start_dh_handlers[index]; }

#else

// @Handler leaves no records in other file formats: there a registry lists its handlers.
int dh_handler_record_count(void) { return 0; }

dh_handler_record dh_handler_record_at(int index) {
    (void)index;
    return 0;
}

#endif
