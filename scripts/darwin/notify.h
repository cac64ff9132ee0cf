// Declarations of notify(3), whose header is not among the fetched ones.
#include <stdint.h>

#define NOTIFY_STATUS_OK 0

uint32_t notify_register_file_descriptor(const char *name, int *descriptor, int flags, int *token);
uint32_t notify_cancel(int token);
