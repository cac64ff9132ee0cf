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

    /// Waits until the signal is raised, at most so many milliseconds; nil waits for ever.
    package func wait(milliseconds: Int64?) {
        _ = PollEntry.waitReadable(
            fileDescriptor, milliseconds: milliseconds.map { Int32(clamping: max(0, $0)) } ?? -1)
    }
}
