import Platform
import Synchronization

/// A call on another thread that can be given up.
///
/// The call raises a pipe when it is done. If its waiter gives up, the call goes on and then keeps nothing but this object.
package final class OutsideCall<Value: Sendable>: Sendable {
    private let value = Mutex<Value?>(nil)
    private let isGivenUp = Atomic(false)
    private let done: WakePipe

    private init() throws(TransportError) {
        do throws(Errno) { done = try WakePipe() } catch { throw Socket.creationFailure(error) }
    }

    /// Makes a call and waits for it.
    ///
    /// - Parameters:
    ///   - deadline: When to give up.
    ///   - loop: What waits. Canceling the task ends the wait.
    ///   - start: Has another thread run what it is given.
    ///   - body: The call; not made if its waiter has given up before.
    /// - Returns: The result of the wait, and the value of the call if it is ready.
    /// - Throws: `TransportError` with `systemFailure`, and what `start` throws.
    package static func wait(
        until deadline: Deadline, on loop: EventLoop,
        start: (@escaping @Sendable () -> Void) throws(TransportError) -> Void,
        _ body: @escaping @Sendable () -> Value
    ) async throws(TransportError) -> (WaitResult, Value?) {
        let call = try OutsideCall()
        try start {
            if call.isGivenUp.load(ordering: .relaxed) { return }
            let value = body()
            call.value.withLock { $0 = value }
            call.done.raise()
        }
        var entries = [PollEntry(call.done.readEnd)]
        let result = await loop.wait(&entries, until: deadline)
        call.isGivenUp.store(true, ordering: .relaxed)
        return (result, call.value.withLock { $0 })
    }
}
