// System calls that Swift cannot make itself.
#ifndef C_PLATFORM_H
#define C_PLATFORM_H

#include <pthread.h>
#include <stdint.h>

// MARK: - A thread that waits for a file lock and can be called off

// In C because a wait for a lock ends early by pthread_cancel(3) only, which unwinds the thread: no Swift frame may
// stand in its way. The only other means is a signal handler, and those belong to the application.

/// Called once on the waiting thread, with 0 when the lock was granted and given back, otherwise with an errno.
typedef void (*dh_lock_wait_end)(void *_Nullable context, int error);

/// Starts a thread that waits until nobody else holds a write lock on the byte at `offset` of `descriptor`.
///
/// The lock is of the kind that belongs to an open file description. The descriptor must stay open until
/// dh_lock_wait_join has returned. Returns 0 or an errno.
int dh_lock_wait_start(
    pthread_t *_Nonnull thread, int descriptor, int64_t offset, dh_lock_wait_end _Nonnull end,
    void *_Nullable context);

/// Calls the wait off, unless it is over, and waits for the thread's end; `end` runs to its end if it has begun.
void dh_lock_wait_join(pthread_t thread);

// MARK: - A thread's name

// In C because the function has no header that Swift imports.

/// Gives the calling thread the name that debuggers and the system show; only its first 15 bytes count.
void dh_name_thread(const char *_Nonnull name);

// MARK: - A file's birth

// In C because the function has no header that Swift imports.

/// When a file was created, in nanoseconds since 1970; 0 where the file system does not say.
int64_t dh_file_birth(const char *_Nonnull path);

// MARK: - A word of shared memory to wait for

// In C because syscall(2) is variadic. The word may lie in a mapped file: then it is the same for all processes.

/// Waits until the word is woken, unless it is not `value` already. May return without a reason.
void dh_word_wait(const void *_Nonnull word, uint32_t value);

/// Wakes all who wait for the word.
void dh_word_wake(const void *_Nonnull word);

// MARK: - An accepted connection

// In C because glibc declares accept4 only under _GNU_SOURCE, which Swift's Glibc module is built without.

/// Accepts a waiting connection, which neither blocks nor is inherited by a program that another thread starts at this
/// moment. Returns the descriptor, or -1 with errno.
int dh_accept(int listener);

// An empty file in memory, without a name; -1 and errno on failure.
int dh_memory_file(void);

#endif
