import Platform

/// Wakes a thread out of poll(2).
package final class WakeSignal: Sendable {
    let pipe: WakePipe
    /// Readable while the signal is raised.
    package var fileDescriptor: Int32 { pipe.readEnd }

    package init() throws(HandlerError) {
        do throws(Errno) {
            pipe = try WakePipe()
        } catch {
            throw HandlerError(
                .resourcesExhausted,
                "no pipe could be made (\(error)); raise the process's limit of open files")
        }
    }

    /// Raises the signal; a raised signal stays raised.
    package func raise() { pipe.raise() }

    package func clear() { pipe.clear() }

    /// Waits until the signal is raised.
    ///
    /// - Parameter limit: The longest wait; nil for no limit.
    package func wait(atMost limit: Duration? = nil) {
        _ = PollEntry.waitReadable(
            fileDescriptor, milliseconds: limit.map { Int32(clamping: $0.milliseconds) } ?? -1)
    }
}
