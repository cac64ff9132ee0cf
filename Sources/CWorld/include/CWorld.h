#ifndef CWORLD_H
#define CWORLD_H

// The hooks of Swift's global executor have Swift's calling convention, which only C can name.

/// Receives every job that becomes ready, on the thread where it does.
typedef void (*dh_job_sink)(void *_Nonnull job);

/// Takes all jobs of the process from the global executor.
void dh_take_jobs(dh_job_sink _Nonnull sink);

// SQLite's memory is configured by a function with a variable number of arguments, which only C can call.

/// Takes over SQLite's memory, before its first use in the process.
void dh_take_memory(void);

/// Lets one of SQLite's allocations fail: the next one for 1, none for 0; for -1 the next one and all after it.
///
/// Returns what was left until the one that was to fail.
int dh_fail_allocation(int number);

#endif
