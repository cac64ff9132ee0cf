#ifndef DH_LIBFUZZER_H
#define DH_LIBFUZZER_H

#include <stddef.h>
#include <stdint.h>

// libFuzzer comes without a header.
int LLVMFuzzerRunDriver(int *argc, char ***argv, int (*callback)(const uint8_t *data, size_t size));

#endif
