#ifndef CWORLD_H
#define CWORLD_H

// The hooks of Swift's global executor have Swift's calling convention, which only C can name.

/// Receives every job that becomes ready, on the thread where it does.
typedef void (*dh_job_sink)(void *_Nonnull job);

/// Takes all jobs of the process from the global executor.
void dh_take_jobs(dh_job_sink _Nonnull sink);

#endif
