import Synchronization
import XMPPAccount

/// The time that a worker has: when it is nearly over, the account is closed, whatever it is doing.
///
/// Closing stops reading, calls no handler any more, takes back what runs under a lease, tells the server what is committed,
/// and gives the stream back. It takes as long as the one handler that runs.
final class WorkerTime: Sendable {
    private let account: Account
    private let alarm: Task<Void, Never>

    /// How much of its time a worker may begin work in; the rest is for ending it.
    static func working(of time: Duration) -> Duration { time * 5 / 6 }

    /// - Parameter end: From when on nothing may be begun.
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

    /// Whether it ended before the work did.
    var isOver: Bool { flag.isRaised }

    /// Closes the account, once, and returns when it is closed.
    func close() async {
        alarm.cancel()
        await alarm.value
        await account.close()
    }

    private let flag: Flag
}

/// Something that happens once and is asked about.
final class Flag: Sendable {
    private let state = Mutex(false)
    var isRaised: Bool { state.withLock { $0 } }
    func raise() { state.withLock { $0 = true } }
}
