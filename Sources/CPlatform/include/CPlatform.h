// System calls that Swift cannot make itself, and calls that Linux and Darwin make in different ways.
#ifndef C_PLATFORM_H
#define C_PLATFORM_H

#include <stdint.h>

// MARK: - A thread's name

// In C because the function has no header that Swift imports.

/// Gives the calling thread the name that debuggers and the system show; only its first 15 bytes count.
void dh_name_thread(const char *_Nonnull name);

// MARK: - A file's birth

// In C because the function has no header that Swift imports.

/// When a file was created, in nanoseconds since 1970; 0 where the file system does not say.
int64_t dh_file_birth(const char *_Nonnull path);

// MARK: - Edges of descriptors

// In C because <sys/epoll.h> is not in Swift's Glibc module, and because syscall(2) is variadic.

/// An empty set of descriptors that are watched for edges; -1 and errno on failure.
int dh_edges_make(void);

/// Adds a descriptor to a set: it is found each time it becomes readable. Returns 0, or -1 with errno.
int dh_edges_add(int edges, int descriptor);

/// Removes a descriptor from a set; nothing happens where it is not in it.
void dh_edges_remove(int edges, int descriptor);

/// Finds at most `limit` (1 to 16) descriptors that became readable since they were found last, and returns their number. Never
/// waits.
int dh_edges_take(int edges, int *_Nonnull descriptors, int limit);

// MARK: - Events of many descriptors

/// An empty queue of events; -1 and errno on failure.
int dh_events_make(void);

/// Waits for the next event of a descriptor, once. `wanted` has the bits of poll(2). Returns 0, or -1 with errno.
int dh_events_arm(int events, int descriptor, uint32_t wanted, uint32_t key);

/// Removes a descriptor; nothing happens where it is not in the queue.
void dh_events_remove(int events, int descriptor);

struct dh_event {
    int descriptor;
    /// What it was armed with.
    uint32_t key;
    /// The bits of poll(2).
    uint32_t found;
};

/// Waits for events, of which it finds at most `limit` (1 to 64), and returns their number; -1 and errno on failure.
int dh_events_wait(int events, struct dh_event *_Nonnull found, int limit, int milliseconds);

// MARK: - The end of a process

/// A descriptor of a process, which is readable when the process has ended; -1 and errno on failure.
int dh_process_open(int32_t process);

// MARK: - Changes of the wall clock

// In C because <sys/timerfd.h> is not in Swift's Glibc module.

#ifdef __linux__

/// A descriptor that becomes readable when the wall clock is set, and when the machine wakes from a suspension; -1 and errno on
/// failure.
int dh_clock_watch_make(void);

/// Returns 1 if that happened since the last call, else 0. Never waits.
int dh_clock_watch_take(int watch);

#else

/// A descriptor that becomes readable when the wall clock is set, and once a minute, also after a suspension; -1 and errno on failure.
/// `token` is for dh_clock_watch_close.
int dh_clock_watch_make(int *_Nonnull token);

/// Returns 1 if the clock was set since the last call, else 0. Never waits.
int dh_clock_watch_take(int watch);

void dh_clock_watch_close(int watch, int token);

#endif

// MARK: - Stream sockets

// In C because glibc declares accept4 only under _GNU_SOURCE, which Swift's Glibc module is built without.
// The sockets do not block. On Linux no program that another thread starts at this moment inherits them.

/// Makes a socket of an address family. Returns the descriptor, or -1 with errno.
int dh_socket(int family);

/// Makes two sockets that are connected to each other. Returns 0, or -1 with errno.
int dh_socket_pair(int *_Nonnull ends);

/// Accepts a waiting connection. Returns the descriptor, or -1 with errno.
int dh_accept(int listener);

/// Makes a socket like the ones above. Returns 0, or -1 with errno.
int dh_prepare_socket(int descriptor);

#ifdef __APPLE__

/// The calling thread's relative paths start in this folder until dh_leave_folder. Returns 0, or -1 with errno: always on iOS.
int dh_enter_folder(int descriptor);

void dh_leave_folder(void);

#endif

// An empty file in memory, without a name; -1 and errno on failure.
int dh_memory_file(void);

#endif
