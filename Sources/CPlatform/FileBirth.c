#define _GNU_SOURCE
#include "CPlatform.h"

#include <fcntl.h>
#include <sys/stat.h>

int64_t dh_file_birth(const char *path) {
    struct statx found;
    if (statx(AT_FDCWD, path, AT_STATX_SYNC_AS_STAT, STATX_BTIME, &found) != 0) return 0;
    if (!(found.stx_mask & STATX_BTIME)) return 0;
    return (int64_t)found.stx_btime.tv_sec * 1000000000 + found.stx_btime.tv_nsec;
}
