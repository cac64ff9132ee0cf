// memfd_create is declared only with _GNU_SOURCE, which Swift's Glibc module does not set.
#define _GNU_SOURCE
#include "CPlatform.h"

#include <sys/mman.h>

#ifdef __linux__

int dh_memory_file(void) { return memfd_create("shared", MFD_CLOEXEC); }

#else

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

// A name of at most 31 bytes (PSHMNAMLEN), which it loses at once. shm_open sets FD_CLOEXEC.
int dh_memory_file(void) {
    char name[32];
    snprintf(name, sizeof name, "/dh-%08x%08x", arc4random(), arc4random());
    int descriptor = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (descriptor >= 0) shm_unlink(name);
    return descriptor;
}

#endif
