import Platform
import Synchronization

/// Wakes a thread out of poll(2), or a loop on a thread with others.
package final class WakeSignal: Sendable {
    private let ends: Ends?
    /// Wakes a loop whose thread has one descriptor for all of its loops.
    private let loop: LoopSignal?

    private final class Ends: Sendable {
        let pipe: WakePipe
        init() throws(Errno) { pipe = try WakePipe() }
    }

    package init() throws(HandlerError) {
        do throws(Errno) {
            ends = try Ends()
        } catch {
            throw HandlerError(
                .resourcesExhausted,
                "no pipe could be made (\(error)); raise the process's limit of open files")
        }
        loop = nil
    }

    init(of loop: LoopSignal) {
        ends = nil
        self.loop = loop
    }

    /// Readable while the signal is raised; negative when its loop needs none.
    package var fileDescriptor: Int32 { ends?.pipe.readEnd ?? -1 }

    /// Raises the signal when it is written to.
    var writeEnd: Int32 { ends?.pipe.writeEnd ?? -1 }

    /// Raises the signal; a raised signal stays raised.
    package func raise() {
        ends?.pipe.raise()
        loop?.raise()
    }

    package func clear() {
        ends?.pipe.clear()
        loop?.clear()
    }

    /// Clears the signal of a loop that shares its thread, when a turn starts.
    func clearAtTurn() { loop?.clear() }

    /// Makes the signal of a loop that shares its thread call `wake` whenever it is raised.
    func attach(_ wake: @escaping @Sendable () -> Void) { loop?.attach(wake) }

    /// Waits until the signal is raised. It must have a descriptor.
    ///
    /// - Parameter limit: The longest wait; nil for no limit.
    package func wait(atMost limit: Duration? = nil) {
        _ = PollEntry.waitReadable(
            fileDescriptor, milliseconds: limit.map { Int32(clamping: $0.milliseconds) } ?? -1)
    }
}

/// The signal of a loop that shares its thread with others.
final class LoopSignal: Sendable {
    private struct State {
        var isRaised = false
        /// Makes the next turn of the loop due; nil before the loop is on its thread.
        var wake: (@Sendable () -> Void)?
    }

    private let state = Mutex(State())

    func raise() {
        let wake = state.withLock { state in
            defer { state.isRaised = true }
            return state.isRaised ? nil : state.wake
        }
        wake?()
    }

    func clear() { state.withLock { $0.isRaised = false } }

    /// The loop's first turn is due in any case.
    func attach(_ wake: @escaping @Sendable () -> Void) { state.withLock { $0.wake = wake } }
}
