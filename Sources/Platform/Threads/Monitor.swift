#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif
#if DH_KQUEUE
    import KqueueShim
#endif

/// State with its lock and a condition to wait for.
///
/// `@unchecked Sendable`: the state is touched only with the mutex held; mutex and condition live at fixed addresses and
/// may be used from any thread.
package final class Monitor<State>: @unchecked Sendable {
    private var state: State
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private var waiters = 0

    package init(_ state: State) {
        self.state = state
        pthread_mutex_init(mutex, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        #if !canImport(Darwin) && !DH_KQUEUE
            // A wait must not end early or late because somebody sets the machine's clock.
            pthread_condattr_setclock(&attributes, SystemTime.monotonic)
        #endif
        pthread_cond_init(condition, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(condition)
        pthread_mutex_destroy(mutex)
        condition.deallocate()
        mutex.deallocate()
    }

    /// Lends the state; waiters look again afterwards.
    package func withLock<Result>(_ body: (inout State) throws -> Result) rethrows -> Result {
        pthread_mutex_lock(mutex)
        defer {
            if waiters > 0 { pthread_cond_broadcast(condition) }
            pthread_mutex_unlock(mutex)
        }
        return try body(&state)
    }

    /// Waits until `body` gives something.
    ///
    /// - Parameter limit: How long to wait; nil without end.
    /// - Returns: What `body` gave, nil when the time was over before.
    package func wait<Result>(limit: Duration?, _ body: (inout State) -> Result?) -> Result? {
        var end = timespec()
        if let limit {
            clock_gettime(SystemTime.monotonic, &end)
            let (seconds, attoseconds) = limit.components
            let nanoseconds = end.tv_nsec + Int(attoseconds / 1_000_000_000)
            end.tv_sec += Int(clamping: seconds) + nanoseconds / 1_000_000_000
            end.tv_nsec = nanoseconds % 1_000_000_000
        }
        pthread_mutex_lock(mutex)
        waiters += 1
        defer {
            waiters -= 1
            pthread_mutex_unlock(mutex)
        }
        while true {
            if let result = body(&state) { return result }
            if limit == nil {
                pthread_cond_wait(condition, mutex)
            } else if waitForSignal(until: end) == ETIMEDOUT {
                return body(&state)
            }
        }
    }

    /// - Returns: 0, ETIMEDOUT or another error.
    private func waitForSignal(until end: timespec) -> Int32 {
        #if canImport(Darwin) || DH_KQUEUE
            // A condition has no choice of clock there: a wait until a time follows the wall clock, a wait for a time does not.
            var (now, rest) = (timespec(), timespec())
            clock_gettime(SystemTime.monotonic, &now)
            let nanoseconds = (end.tv_nsec - now.tv_nsec + 1_000_000_000) % 1_000_000_000
            rest.tv_sec = end.tv_sec - now.tv_sec - (end.tv_nsec < now.tv_nsec ? 1 : 0)
            rest.tv_nsec = nanoseconds
            if rest.tv_sec < 0 { return ETIMEDOUT }
            return pthread_cond_timedwait_relative_np(condition, mutex, &rest)
        #else
            var end = end
            return pthread_cond_timedwait(condition, mutex, &end)
        #endif
    }
}
