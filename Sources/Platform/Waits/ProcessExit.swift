import CPlatform

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The end of another process, as a descriptor that becomes readable then. The locks of the process are free before that.
package final class ProcessExit: Sendable {
    package let descriptor: Int32

    /// - Parameter process: The id of a process as this one sees it.
    /// - Returns: Nil where the process is gone, or where the system gives no such descriptor.
    package init?(of process: Int32) {
        descriptor = dh_process_open(process)
        if descriptor < 0 { return nil }
    }

    deinit { close(descriptor) }
}
