#ifndef CWORLD_H
#define CWORLD_H

// Only C can name the hooks of Swift's global executor, because they have Swift's calling convention.

/// Receives every job on the thread where it becomes ready.
typedef void (*dh_job_sink)(void *_Nonnull job);

/// Replaces the global executor: all jobs of the process go to `sink`.
void dh_take_jobs(dh_job_sink _Nonnull sink);

// Only C can call the function that configures SQLite's memory, because it has a variable number of arguments.

/// Replaces SQLite's allocator. Call it before SQLite is used in the process.
void dh_take_memory(void);

/// Makes SQLite's allocations fail: `n` the n-th from now, `-n` the n-th and all after it, 0 none.
///
/// Returns the previous number, counted down by the allocations since then.
int dh_fail_allocation(int number);

#endif
