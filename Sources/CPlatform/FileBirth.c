#define _GNU_SOURCE
#include "CPlatform.h"

#include <fcntl.h>
#include <sys/stat.h>

static int64_t nanoseconds(int64_t seconds, int64_t rest) { return seconds * 1000000000 + rest; }

#ifdef __linux__

int64_t dh_file_birth(const char *path) {
    struct statx found;
    if (statx(AT_FDCWD, path, AT_STATX_SYNC_AS_STAT, STATX_BTIME, &found) != 0) return 0;
    if (!(found.stx_mask & STATX_BTIME)) return 0;
    return nanoseconds(found.stx_btime.tv_sec, found.stx_btime.tv_nsec);
}

#else

int64_t dh_file_birth(const char *path) {
    struct stat found;
    if (stat(path, &found) != 0) return 0;
    return nanoseconds(found.st_birthtimespec.tv_sec, found.st_birthtimespec.tv_nsec);
}

#endif
