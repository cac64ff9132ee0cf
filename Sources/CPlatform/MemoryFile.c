// memfd_create is declared only with _GNU_SOURCE, which Swift's Glibc module does not set.
#define _GNU_SOURCE
#include "CPlatform.h"
#include <sys/mman.h>

int dh_memory_file(void) { return memfd_create("shared", MFD_CLOEXEC); }
