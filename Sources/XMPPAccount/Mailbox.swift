import Handlers
import Platform
import Synchronization

/// A command of another thread to an account's loop.
enum Command: Sendable {
    /// Work inside the loop's next step.
    case step(StepCommand)
    /// Take ownership, open the stream and keep it open, also when the first attempts fail if it retries.
    case connect(retries: Bool, Completion)
    /// Close the stream dirtily, keep the session and give ownership back.
    case suspend(Completion)
    /// End the session for good and invalidate what waits.
    case logOut(Completion)
    /// Resolve once everything the server sent before now has been committed.
    case catchUp(Completion)
    /// Say something about counts at once, whatever the policy says.
    case manage(ManagementAction, Completion)
    /// Look after the connection: the network is not what it was.
    case networkChanged
    /// Suspend, because another process asked for the stream.
    case handOver
    /// Suspend and end the loop.
    case close(Completion)
    /// The task that took over has ended.
    case tookOver(AccountMachine.Purpose, Result<Ownership, any Error>)
    /// The task that opened a stream has ended.
    case opened(Result<StreamOpener.Opening, any Error>, attempt: Int)

    var isEndOfTakeOver: Bool { if case .tookOver = self { true } else { false } }

    /// Whether the stream is closed by it.
    var endsStream: Bool {
        switch self {
        case .suspend, .logOut, .handOver, .close: true
        case .step, .connect, .catchUp, .manage, .networkChanged, .tookOver, .opened: false
        }
    }
}

/// A stream management action that a program requests (XEP-0198 section 4).
enum ManagementAction: Sendable {
    /// Ask the server for its count.
    case request
    /// Tell it ours.
    case acknowledge
}

typealias Completion = @Sendable (Result<Void, any Error>) -> Void

/// Work for the loop's next step, and the waiter for its commit.
struct StepCommand: Sendable {
    let run: @Sendable (borrowing Step) throws -> Void
    let finish: Completion
}

/// Commands on their way to the loop.
final class Mailbox: Sendable {
    private struct State {
        var commands: [Command] = []
        var isClosed = false
        var hasNewRows = false
        /// The newest row that another process may have left.
        var rowsOfOthers: Int64 = 0
        /// The loop's own thread.
        var loop: ThreadID?
    }

    let signal: WakeSignal
    private let state = Mutex(State())

    init(_ driver: any LoopDriver) throws(HandlerError) { signal = try driver.makeSignal() }

    /// - Returns: False if the loop has ended and will not perform the command.
    func post(_ command: Command) -> Bool {
        let isTaken = state.withLock { state in
            if !state.isClosed { state.commands.append(command) }
            return !state.isClosed
        }
        if isTaken { signal.raise() }
        return isTaken
    }

    /// Returns the commands since the last call, and whether rows were committed that the loop has not read.
    ///
    /// - Parameter mark: The newest row that it has read.
    func removeAll(readUpTo mark: Int64) -> (commands: [Command], hasNewRows: Bool) {
        state.withLock { state in
            defer {
                state.commands.removeAll()
                (state.hasNewRows, state.rowsOfOthers) = (false, 0)
            }
            return (state.commands, state.hasNewRows || state.rowsOfOthers > mark)
        }
    }

    /// Whether the loop has ended.
    var isClosed: Bool { state.withLock { $0.isClosed } }

    /// Whether a caller waits for the end of the stream.
    var isLeaving: Bool { state.withLock { $0.commands.contains { $0.endsStream } } }

    /// Runs a part of a turn of the loop on the calling thread.
    func asLoop<Result>(_ body: () throws -> Result) rethrows -> Result {
        let before = state.withLock { state in
            defer { state.loop = .current }
            return state.loop
        }
        defer { state.withLock { $0.loop = before } }
        return try body()
    }

    /// Whether the calling code is a part of a turn of the loop.
    var isOnLoop: Bool { state.withLock { $0.loop == .current } }

    /// Stanzas to send were committed, not by a step of the loop.
    func recordRows() {
        let isNews = state.withLock { state in
            // A step notes each of its stanzas. Whoever set the mark raises the signal, and the loop takes the mark after
            // it has taken the signal.
            defer { state.hasNewRows = true }
            return !state.hasNewRows
        }
        if isNews { signal.raise() }
    }

    /// Another process may have left stanzas to send.
    ///
    /// - Parameter row: The newest of them, as far as is known.
    func recordRowsOfOthers(upTo row: Int64 = .max) {
        state.withLock { $0.rowsOfOthers = max($0.rowsOfOthers, row) }
        signal.raise()
    }

    /// Refuses further commands and returns those that came too late.
    func close() -> [Command] {
        state.withLock { state in
            state.isClosed = true
            defer { state.commands.removeAll() }
            return state.commands
        }
    }
}
