import Handlers

/// A handler that has not ended, with all that the store's rows hold about why.
///
/// A program's registry is not in the store. So the context of a handler is not known here, only its key, its times, its call, and
/// the rows that name it.
struct WaitingHandler {
    /// The handlers for which it waits.
    struct Join {
        /// The number of them that have not ended.
        var count: Int64
        /// The number of results for which it still waits; nil if all have to end.
        var needed: Int64?
        /// The first of them, as `12 shop.ask`.
        var first: [String]
    }

    /// The runner that calls or expires it.
    struct Runner {
        var scope: String?
        /// Whether only a main program may call it.
        var isOfMain = false
        /// Whether a process runs one in which the connected time of the scope counts.
        var isThere = true
        /// Whether any process has the store open.
        var isStoreOpen = true
    }

    var status: HandlerStatus
    /// The time until a runner calls or expires it, in milliseconds; nil without such a time.
    var left: Int64?
    /// The same in connected time.
    var connectedLeft: Int64?
    /// 0 for a timer that follows a calendar.
    var period: Int64?
    /// The calendar, such as `by '0 9 * * *' in UTC`.
    var calendar: String?
    /// The operation for which a workflow waits.
    var operation: String?
    /// Whether a call is stored that a runner makes.
    var isCalled = false
    /// Whether a context is stored for that call; a timer has none.
    var hasInput = false
    /// The reason of an invalidation that a runner makes.
    var invalidation: InvalidationReason?
    var runner = Runner()
    /// The process that runs it, such as `process 4711`; nil if that is gone.
    var process: String?
    var join: Join?
    /// What it waits for in its lane; nil if it waits for nothing there.
    var lane: String?
    /// What it has said about its progress, such as `12 of 100 pages, 3 s ago`.
    var progress: String?
    /// What the account's tables name, such as `the answer of PEER to the request 'ID'`.
    var awaited: String?
}

// MARK: The sentence

extension WaitingHandler {
    /// The reason why it has not ended, as a sentence without its subject.
    var why: String {
        switch status.state {
        case .pending: isCalled ? called : uncalled
        case .parked: "waits for a program that knows it\(because)"
        case .quarantined: "waits for a person, who requeues or discards it\(because)"
        case .running:
            (process.map { "is run by \($0)" }
                ?? "was run by a process that is gone; waits for another process, which frees it")
                + (progress.map { ": \($0)" } ?? "")
        }
    }

    private var because: String { status.reason.map { ": \($0)" } ?? "" }

    private var called: String {
        if let invalidation { return "waits for \(runner.text), which invalidates it (\(invalidation))" }
        if let operation { return "is a workflow that waits for \(operation)" }
        if let calendar, left == nil { return "is paused; called \(calendar) once it is resumed" }
        if let period, left == nil, period > 0 {
            return "is paused; called every \(Span.text(period)) once it is resumed"
        }
        if let lane { return "was called; waits \(lane)" }
        let left = left ?? 0
        if let period {
            return left > 0
                ? "waits for its time in \(Span.text(left)), and then \(calendar ?? "every \(Span.text(period))")"
                : "its time came \(Span.text(-left)) ago; waits for \(runner.text)"
        }
        if status.attempts > 0 {
            let attempt = "attempt \(status.attempts + 1)"
            return left > 0
                ? "waits for \(attempt) in \(Span.text(left))\(because)"
                : "waits for \(runner.text), which makes \(attempt)\(because)"
        }
        if left > 0 { return "waits for its time in \(Span.text(left))" }
        return hasInput
            ? "was called; waits for \(runner.text)"
            : "its time came \(Span.text(-left)) ago; waits for \(runner.text)"
    }

    private var uncalled: String {
        let key = status.key.map { ", or a signal to the key '\($0)'" } ?? ""
        let call =
            join?.text ?? awaited ?? (status.isStanding ? "each of its calls\(key)" : "its call\(key)")
        return "waits for \(call)\(deadline)\(timeout)"
    }

    private var deadline: String {
        guard let left else { return "" }
        return left > 0
            ? "; its deadline is in \(Span.text(left))"
            : "; its deadline passed \(Span.text(-left)) ago, and it waits for \(runner.text)"
    }

    private var timeout: String {
        guard let connectedLeft else { return "" }
        return connectedLeft > 0
            ? "; its timeout is in \(Span.text(connectedLeft)) of connected time"
            : "; its connected time is over, and it waits for \(runner.text)"
    }
}

extension WaitingHandler.Runner {
    fileprivate var text: String {
        let kind = isOfMain ? "a runner of a main program" : "a runner"
        let scope = scope.map { isOfMain ? ", for the scope '\($0)'" : " of the scope '\($0)'" } ?? ""
        guard isStoreOpen else { return "\(kind)\(scope) (no process has the store open)" }
        if isThere { return kind + scope }
        return
            "\(kind)\(scope) (\(self.scope == nil ? "no process runs one now" : "no process is connected in it now"))"
    }
}

extension WaitingHandler.Join {
    fileprivate var text: String {
        let more = count - Int64(first.count)
        let list = first.joined(separator: ", ") + (more > 0 ? " and \(more) more" : "")
        let handlers = Terminal.count(count, "handler")
        guard let needed else { return "the end of \(handlers): \(list)" }
        return "\(Terminal.count(needed, "result")) of \(handlers): \(list)"
    }
}
