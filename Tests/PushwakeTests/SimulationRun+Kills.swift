import FoundationEssentials
import Handlers
import Platform
import TestServers
import XMPPAccount

@testable import Simulation

// Kills and freezes at places that a test chooses. The traffic, the end and the verdict are those of random kills.
extension SimulationRun {
    // MARK: Kills at named places

    /// A place where a process kills itself.
    struct Target: Hashable, CustomStringConvertible {
        var role: AccountRole
        var failpoint: Failpoint

        init(role: AccountRole, failpoint: Failpoint) {
            self.role = role
            self.failpoint = failpoint
        }
        var description: String { "\(failpoint.rawValue) in \(role.rawValue)" }
    }

    /// The number of attempts to reach a place.
    private static let attempts = 8

    /// Makes main or a worker kill itself at each of the places in turn, with traffic before and after.
    ///
    /// - Parameter expiring: Whether the session ends after each kill, so that its unacknowledged stanzas arrive again.
    /// - Returns: The verdict over the whole run, and the places that were not reached.
    func run(killingAt targets: [Target], expiring: Bool = false) throws -> (
        Verdict, unreached: [Target]
    ) {
        defer { main?.killAndWait() }
        try world.startSending()
        let unreached = try targets.filter { target in
            try !(0..<Self.attempts).contains { attempt in
                try leaveWork(losingSession: target.failpoint.needsLostSession)
                // Waits until enough has arrived, so that a worker's handlers send requests.
                if target.role == .worker { pause(milliseconds: 60...100) }
                let isOnce = target.failpoint.comesOnce || attempt > 1
                let nth = isOnce ? 1 : Int.random(in: 1...3, using: &random)
                // A busy machine needs longer to reach the place.
                guard try killItself(target, at: nth, patience: .seconds(2 * (attempt + 1))) else {
                    return false
                }
                if expiring { _ = try world.expireSession() }
                return true
            }
        }
        return (try finish(), unreached)
    }

    /// Leaves work in progress from a first process; the next process is the one to be killed.
    private func leaveWork(losingSession: Bool) throws {
        try startMain(untilConnected: true)
        pause(milliseconds: 20...60)
        try killMain()
        if losingSession { _ = try world.expireSession() }
    }

    /// Ends all work and judges the run.
    private func finish() throws -> Verdict {
        try runWorker()
        try startMain(untilConnected: true)
        try settle()
        return try judge()
    }

    /// - Parameters:
    ///   - nth: The visit of the place at which the process kills itself, from 1.
    ///   - patience: The time after which main is stopped if it did not reach the place.
    ///
    /// - Returns: False when the process never reached the place.
    private func killItself(_ target: Target, at nth: Int, patience: Duration) throws -> Bool {
        // A timeout can expire only in a worker that stays for a while.
        let lingering =
            target.role == .worker && target.failpoint == .beforeTimeout ? ["--linger", "80"] : []
        let process = try start(
            target.role.rawValue, lingering,
            with: ["HANDLERS_FAILPOINT": "\(target.failpoint.rawValue):kill:\(nth)"])
        if target.role == .main && target.failpoint == .beforeRelease {
            while let line = try process.output?.readLine(deadline: .now + .seconds(30)), line != "connected"
            {}
            try process.write("quit\n")
        }
        // A worker ends by itself. A main that does not reach the place is stopped.
        let limit: Duration = target.role == .main ? patience : .seconds(30)
        guard let ending = try? process.waitUntilExit(deadline: .now + limit) else {
            process.killAndWait()
            return false
        }
        guard ending.signal == Signal.kill else {
            guard ending.status == 0 else {
                throw SimulationError("\(target.role.rawValue) failed before it reached \(target): \(ending)")
            }
            return false
        }
        try count(target.role)
        return true
    }

    // MARK: Kills before system calls

    /// A system call of a worker: its name, and its number among the calls of that name in its thread, from 1.
    struct SystemCall: Hashable {
        var name: String
        var nth: Int
    }

    /// The minimum number of messages that wait for a worker. Every worker must find the same work, so that it makes the same
    /// calls. Messages that a peer sends by the clock would grow with the time for tracing, and would themselves prolong it.
    private static let waiting = 8

    /// Kills a worker before each system call of a run, with messages and answers waiting each time.
    ///
    /// - Parameters:
    ///   - part: The index of the share of the calls to kill before, from 0.
    ///   - parts: The number of equal shares.
    /// - Returns: The verdict, the number of calls in the share, and the number of calls that were reached.
    func runKillingBeforeSystemCalls(part: Int, of parts: Int) throws -> (
        Verdict, calls: Int, killed: Int
    ) {
        defer { main?.killAndWait() }
        try leaveWork(losingSession: false)
        // The first run has a larger backlog than the killed ones, so this run only reduces it to their size.
        try runWorker()
        let calls = try systemCallsOfWorker().enumerated().filter { $0.offset % parts == part }.map(\.element)
        let killed = try calls.filter { call in
            try (1...3).contains { attempt in
                // A worker makes fewer calls when fewer stanzas wait for it.
                try leaveWaiting(Self.waiting * attempt)
                return try killWorker(before: call)
            }
        }
        return (try finish(), calls.count, killed.count)
    }

    /// Makes the peer send until this number of its messages is not stored.
    private func leaveWaiting(_ count: Int) throws {
        let stored = try StoreReader(path: storePath).read { snapshot in
            try snapshot.all("SELECT count(DISTINCT stanza_id) FROM sim_received") { Int($0.integer(0)) }
        }
        let missing = count - (try world.sentCount() - stored[0])
        if missing > 0 { try world.send(missing) }
    }

    /// - Returns: False when the worker ended without making the call.
    private func killWorker(before call: SystemCall) throws -> Bool {
        let ending = try traceWorker([
            "-e", "trace=\(call.name)", "-e", "inject=\(call.name):signal=SIGKILL:when=\(call.nth)", "-o",
            "/dev/null",
        ])
        guard ending.signal == Signal.kill else { return false }
        try count(.worker)
        return true
    }

    /// How often a worker makes a system call, in the thread that makes it most often.
    private struct CallCount {
        var all: Int
        /// The number of calls before it opens the store. A kill before any of them has the same effect.
        var early: Int
    }

    /// Returns the calls that each of several runs makes, because a run may wait or wake slightly more often than another.
    private func systemCallsOfWorker() throws -> [SystemCall] {
        var counts = try traceSystemCalls()
        for _ in 0..<3 {
            let others = try traceSystemCalls()
            counts = counts.filter { others[$0.key] != nil }.merging(others) {
                CallCount(all: min($0.all, $1.all), early: min($0.early, $1.early))
            }.filter { counts[$0.key] != nil }
        }
        return counts.sorted { $0.key < $1.key }.flatMap { name, count in
            let limit = Self.inward.contains(name) ? 20 : 150
            let late = Self.spread(count.early + 1, count.all, limit: limit)
            return ((count.early > 0 ? [1] : []) + late).map { SystemCall(name: name, nth: $0) }
        }
    }

    private func traceSystemCalls() throws -> [String: CallCount] {
        let trace = storePath + ".trace"
        try leaveWaiting(Self.waiting)
        _ = try traceWorker(["-o", trace])
        let text = try String(contentsOf: URL(filePath: trace), encoding: .utf8)
        var counts: [String: [Substring: Int]] = [:]
        var early: [String: Int]?
        for line in text.split(separator: "\n") {
            let words = line.split(separator: " ", omittingEmptySubsequences: true)
            guard words.count > 1, let name = words[1].split(separator: "(").first, words[1].contains("(")
            else { continue }
            // Only one thread runs so far. The call that starts the program also contains the store's path.
            if early == nil, name != "execve", line.contains(storePath) {
                early = counts.mapValues { $0.values.max() ?? 0 }
            }
            counts[String(name), default: [:]][words[0], default: 0] += 1
        }
        // strace counts for each thread, and the highest count covers all threads. The first call starts the program and the last
        // one ends it, so a kill before the first or after the last call has no effect.
        for name in ["execve", "exit_group", "exit"] { counts[name] = nil }
        return Dictionary(
            uniqueKeysWithValues: counts.map { name, threads in
                (name, CallCount(all: threads.values.max() ?? 0, early: early?[name] ?? 0))
            })
    }

    /// Calls without an effect outside the process. A kill before one of them equals a kill before the next call with an effect,
    /// which has its own test.
    private static let inward: Set = [
        "access", "arch_prctl", "brk", "epoll_create1", "epoll_ctl", "epoll_wait", "eventfd2", "geteuid",
        "getpid", "getrandom", "getsockopt", "gettid", "lseek", "madvise", "mmap", "mprotect", "mremap",
        "munmap", "newfstatat", "prctl", "prlimit64", "readlink", "rseq", "rt_sigaction", "rt_sigprocmask",
        "sched_getaffinity", "sched_yield", "set_robust_list", "set_tid_address", "statx", "sysinfo",
        "timerfd_create", "timerfd_settime",
    ]

    /// Returns the numbers of the calls to kill before: all, or at most `limit` evenly spread ones.
    private static func spread(_ first: Int, _ last: Int, limit: Int) -> [Int] {
        let count = last - first + 1
        guard count > limit else { return Array(first..<last + 1) }
        return (0..<limit).map { first + $0 * count / limit }
    }

    /// Returns how many times a worker reads from a file at an offset, which it does for each page of the store.
    func readsOfWorker() throws -> Int {
        let trace = storePath + ".reads"
        let ending = try traceWorker(["-e", "trace=pread64", "-o", trace])
        guard ending.status == 0 else { throw SimulationError("the worker failed: \(ending)") }
        return try String(contentsOf: URL(filePath: trace), encoding: .utf8).split(separator: "\n").count
    }

    private func traceWorker(_ options: [String]) throws -> ChildEnding {
        let process = try ChildProcess(
            "strace", ["-f", "-qq"] + options + [program] + arguments("worker"),
            environment: .inheriting(environment))
        return try process.waitUntilExit(deadline: .now + .seconds(60))
    }

    // MARK: Freezing

    /// Freezes main at a place, lets a worker take over, and thaws main.
    ///
    /// - Parameter place: The failpoint where main stops itself. It must be outside a transaction.
    /// - Returns: The verdict and main's exit status: 3 when it noticed the loss of the stream, or nil when it went on and was
    ///   killed.
    func run(freezingAt place: Failpoint) throws -> (Verdict, status: Int32?) {
        let frozen = try startFrozenOutsideTransaction(at: place)
        defer { frozen.killAndWait() }
        try runWorker()
        frozen.signal(Signal.resume)
        let status = try? frozen.waitUntilExit(deadline: .now + .seconds(10)).status
        frozen.killAndWait()
        return (try finish(), status)
    }

    /// Freezes main inside a transaction, where it blocks every process. A worker must report that. Then main is killed, as the
    /// platform kills a process that is suspended while it holds a database lock.
    ///
    /// - Returns: The verdict, and the worker's error message.
    func runFreezingInTransaction() throws -> (Verdict, complaint: String) {
        let frozen = try startFrozen(at: .beforeCommit)
        defer { frozen.killAndWait() }
        let worker = try ChildProcess(
            program, arguments("worker"), environment: .inheriting(environment), errors: .pipe)
        let complaint = try worker.errors?.readToEnd(deadline: .now + .seconds(30)) ?? ""
        guard try worker.waitUntilExit(deadline: .now + .seconds(10)).status == 1 else {
            throw SimulationError("the worker did not fail although the database was locked")
        }
        frozen.killAndWait()
        return (try finish(), complaint)
    }

    /// The place is outside transactions, but another thread of main may be inside one. Then main is killed, as the platform does,
    /// and the next one is frozen. The same applies to a main without a stream, as on a busy machine: it has nothing to lose, and
    /// would just connect as the next owner.
    private func startFrozenOutsideTransaction(at place: Failpoint) throws -> ChildProcess {
        for attempt in 0..<Self.attempts {
            let process = try startFrozen(at: place, nth: 7 + 6 * attempt)
            if try !isLocked(), hasConnected(process) { return process }
            process.killAndWait()
        }
        throw SimulationError("main was frozen inside a transaction, or before it had the stream, each time")
    }

    /// Returns whether a stopped main has reported that it is connected.
    private func hasConnected(_ main: ChildProcess) -> Bool {
        (try? main.output?.readLine(deadline: .now) { $0 == "connected" }) != nil
    }

    private func isLocked() throws -> Bool {
        do {
            try HandlerStore(path: storePath, registry: HandlerRegistry(), busyTimeout: .milliseconds(100))
                .step { _ in }
            return false
        } catch let error as HandlerError where error.code == .databaseLocked {
            return true
        }
    }

    /// - Parameter nth: The visit of the place at which main stops, from 1. The first commits happen before it has the stream.
    func startFrozen(at place: Failpoint, nth: Int = 7) throws -> ChildProcess {
        try world.startSending()
        try leaveWork(losingSession: false)
        let process = try start("main", with: ["HANDLERS_FAILPOINT": "\(place.rawValue):stop:\(nth)"])
        let end = ContinuousClock.now + .seconds(20)
        while !process.isStopped {
            guard ContinuousClock.now < end, process.isRunning else {
                process.killAndWait()
                throw SimulationError("main did not come to \(place.rawValue)")
            }
            SystemThread.sleep(microseconds: 1000)
        }
        return process
    }
}

extension Failpoint {
    /// Whether it is reached only when the server no longer knows the session.
    var needsLostSession: Bool {
        switch self {
        case .afterSessionLost, .afterBound, .beforeInvalidation: true
        default: false
        }
    }

    /// Whether a process reaches it at most once.
    var comesOnce: Bool {
        switch self {
        case .afterLock, .afterTakeover, .afterResumeSent, .afterResumed, .afterSessionLost, .afterBound,
            .beforeRelease,
            .beforeInvalidation, .beforeTimeout:
            true
        default: false
        }
    }
}
