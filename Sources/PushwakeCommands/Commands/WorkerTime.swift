import Synchronization
import XMPPAccount

/// The time limit of a worker. When it is nearly over, the account is closed, whatever the worker is doing.
///
/// Closing stops reading, calls no more handlers, returns leased handlers to the queue, acknowledges the committed stanzas and
/// gives up the stream. It takes as long as the one running handler.
final class WorkerTime: Sendable {
    private let account: Account
    private let alarm: Task<Void, Never>

    /// The part of the worker's time in which it may start work. The rest is for its end.
    static func working(of time: Duration) -> Duration { time * 5 / 6 }

    /// - Parameter end: The time from which no work may start.
    init(until end: ContinuousClock.Instant, _ account: Account) {
        self.account = account
        let over = Flag()
        flag = over
        alarm = Task {
            do { try await Task.sleep(until: end, clock: .continuous) } catch { return }
            over.raise()
            await account.close()
        }
    }

    /// Whether the time was over before the work was done.
    var isOver: Bool { flag.isRaised }

    /// Closes the account once, and returns when it is closed.
    func close() async {
        alarm.cancel()
        await alarm.value
        await account.close()
    }

    private let flag: Flag
}

/// A flag that can be raised once.
final class Flag: Sendable {
    private let state = Mutex(false)
    var isRaised: Bool { state.withLock { $0 } }
    func raise() { state.withLock { $0 = true } }
}
