import FoundationEssentials
import Platform
package import Handlers
package import XMPPAccount
package import TestServers

// Kills and freezes at places that a test chooses, with the same traffic, end and verdict as the random ones.
extension SimulationRun {
    // MARK: Kills at named places

    /// A place at which a process kills itself.
    package struct Target: Hashable, CustomStringConvertible {
        package var role: AccountRole
        package var failpoint: Failpoint

        package init(role: AccountRole, failpoint: Failpoint) {
            self.role = role
            self.failpoint = failpoint
        }
        package var description: String { "\(failpoint.rawValue) in \(role.rawValue)" }
    }

    /// The number of attempts to reach a place.
    private static let attempts = 8

    /// Lets main or a worker kill itself at each of the places, one after the other, with traffic before and after.
    ///
    /// - Parameter expiring: Whether the session ends after each kill, so that what was not acknowledged in it comes again.
    /// - Returns: The verdict over all of it, and the places that were not reached.
    package func run(killingAt targets: [Target], expiring: Bool = false) throws -> (
        Verdict, unreached: [Target]
    ) {
        defer { main?.killAndWait() }
        try world.startSending()
        let unreached = try targets.filter { target in
            try !(0..<Self.attempts).contains { attempt in
                try leaveWork(losingSession: target.failpoint.needsLostSession)
                // Let enough arrive that a worker's handlers have something to ask.
                if target.role == .worker { pause(milliseconds: 60...100) }
                let isOnce = target.failpoint.comesOnce || attempt > 1
                let nth = isOnce ? 1 : Int.random(in: 1...3, using: &random)
                // A busy machine needs longer for the way there.
                guard try killItself(target, at: nth, patience: .seconds(2 * (attempt + 1))) else {
                    return false
                }
                if expiring { _ = try world.expireSession() }
                return true
            }
        }
        return (try finish(), unreached)
    }

    /// A first process leaves work under way; the next one is the victim.
    private func leaveWork(losingSession: Bool) throws {
        try startMain(untilConnected: true)
        pause(milliseconds: 20...60)
        try killMain()
        if losingSession { _ = try world.expireSession() }
    }

    /// Everything is brought to its end and judged.
    private func finish() throws -> Verdict {
        try runWorker()
        try startMain(untilConnected: true)
        try settle()
        return try judge()
    }

    /// - Parameters:
    ///   - nth: At which of its visits, from 1.
    ///   - patience: After how long a main is stopped that did not come by.
    /// - Returns: False when the process never came to the place.
    private func killItself(_ target: Target, at nth: Int, patience: Duration) throws -> Bool {
        // Time runs out only for a worker that stays a while.
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
        // A worker ends by itself; a main that does not come by is stopped.
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

    /// A system call of a worker: its name and how many of that name came before it in its thread, from 1.
    struct SystemCall: Hashable {
        var name: String
        var nth: Int
    }

    /// How many messages wait for a worker at least. Each finds the same work, so that it makes the same calls: what a peer sends
    /// by the clock grows with the time that tracing takes, and with it that time.
    private static let waiting = 8

    /// Kills a worker before each system call that one run of it makes, with messages and answers waiting every time.
    ///
    /// - Parameter part: Which of how many equal shares of the calls to take, from 0.
    /// - Returns: The verdict, and how many of the calls were reached.
    package func runKillingBeforeSystemCalls(part: Int, of parts: Int) throws -> (
        Verdict, calls: Int, killed: Int
    ) {
        defer { main?.killAndWait() }
        try leaveWork(losingSession: false)
        // The backlog of the first run is larger than those of the runs that are killed; take one like theirs.
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

    /// Has the peer send until so many of its messages are not stored.
    private func leaveWaiting(_ count: Int) throws {
        let stored = try StoreReader(path: storePath).read { snapshot in
            try snapshot.all("SELECT count(DISTINCT stanza_id) FROM sim_received") {
                (row) throws(HandlerError) in Int(row.integer(0))
            }
        }
        let missing = count - (try world.sentCount() - stored[0])
        if missing > 0 { try world.send(missing) }
    }

    /// - Returns: False when the worker ended without having made the call.
    private func killWorker(before call: SystemCall) throws -> Bool {
        let ending = try traceWorker([
            "-e", "trace=\(call.name)", "-e", "inject=\(call.name):signal=SIGKILL:when=\(call.nth)", "-o",
            "/dev/null",
        ])
        guard ending.signal == Signal.kill else { return false }
        try count(.worker)
        return true
    }

    /// The number of times that a run of a worker makes a system call, in the thread that makes it most often.
    private struct CallCount {
        var all: Int
        /// Before it looks for the store. To be killed before one of these is the same as before any other.
        var early: Int
    }

    /// The calls that each of a few runs makes: one may wait or wake a little more than the next.
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
            // There is one thread so far. The call that starts the program names the store as well.
            if early == nil, name != "execve", line.contains(storePath) {
                early = counts.mapValues { $0.values.max() ?? 0 }
            }
            counts[String(name), default: [:]][words[0], default: 0] += 1
        }
        // strace counts for each thread; the highest count covers them all. The first call starts the program and the
        // last one ends it: there is nothing to be killed before the one and nothing to be lost after the other.
        for name in ["execve", "exit_group", "exit"] { counts[name] = nil }
        return Dictionary(
            uniqueKeysWithValues: counts.map { name, threads in
                (name, CallCount(all: threads.values.max() ?? 0, early: early?[name] ?? 0))
            })
    }

    /// Calls that change nothing outside of the process: to be killed before one is to be killed before the next call that
    /// does, which is tried by itself.
    private static let inward: Set = [
        "access", "arch_prctl", "brk", "epoll_create1", "epoll_ctl", "epoll_wait", "eventfd2", "geteuid",
        "getpid", "getrandom", "getsockopt", "gettid", "lseek", "madvise", "mmap", "mprotect", "mremap",
        "munmap", "newfstatat", "prctl", "prlimit64", "readlink", "rseq", "rt_sigaction", "rt_sigprocmask",
        "sched_getaffinity", "sched_yield", "set_robust_list", "set_tid_address", "statx", "sysinfo",
        "timerfd_create", "timerfd_settime",
    ]

    /// The numbers of the calls to be killed before: all, or as many as this spread over them.
    private static func spread(_ first: Int, _ last: Int, limit: Int) -> [Int] {
        let count = last - first + 1
        guard count > limit else { return Array(first..<last + 1) }
        return (0..<limit).map { first + $0 * count / limit }
    }

    /// Returns the number of times that a run of a worker reads from a file at a place, as it does for each page of the store.
    package func readsOfWorker() throws -> Int {
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

    /// Freezes main at a place, lets a worker take over, thaws main.
    ///
    /// - Parameter place: The failpoint at which main stops itself; it must lie outside a transaction.
    /// - Returns: The verdict, and main's exit status: 3 when it noticed that the stream is no longer its own, nil when it
    ///   went on and was killed.
    package func run(freezingAt place: Failpoint) throws -> (Verdict, status: Int32?) {
        let frozen = try startFrozenOutsideTransaction(at: place)
        defer { frozen.killAndWait() }
        try runWorker()
        frozen.signal(Signal.resume)
        let status = try? frozen.waitUntilExit(deadline: .now + .seconds(10)).status
        frozen.killAndWait()
        return (try finish(), status)
    }

    /// Freezes main inside a transaction, where it blocks everyone: a worker must say so. Then main is killed, as the
    /// platform does with a process that is suspended while it holds a database.
    ///
    /// - Returns: The verdict, and what the worker complained.
    package func runFreezingInTransaction() throws -> (Verdict, complaint: String) {
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

    /// The place is outside of transactions, but another thread of main may be inside one at that moment: then main is
    /// killed, as the platform does, and the next one is frozen. So is a main that has no stream yet, as happens on a busy
    /// machine: it loses nothing, and thawed it connects as the next owner.
    private func startFrozenOutsideTransaction(at place: Failpoint) throws -> ChildProcess {
        for attempt in 0..<Self.attempts {
            let process = try startFrozen(at: place, nth: 7 + 6 * attempt)
            if try !isLocked(), hasConnected(process) { return process }
            process.killAndWait()
        }
        throw SimulationError("main was frozen inside a transaction, or before it had the stream, each time")
    }

    /// Returns whether a stopped main has said that it is connected.
    private func hasConnected(_ main: ChildProcess) -> Bool {
        (try? main.output?.readLine(deadline: .now) { $0 == "connected" }) != nil
    }

    private func isLocked() throws -> Bool {
        do {
            try HandlerStore(path: storePath, registry: HandlerRegistry(), busyTimeout: 100).step { _ in }
            return false
        } catch let error as HandlerError where error.code == .databaseLocked {
            return true
        }
    }

    /// - Parameter nth: At which of its visits to the place, from 1; the first commits come before it has the stream.
    package func startFrozen(at place: Failpoint, nth: Int = 7) throws -> ChildProcess {
        try world.startSending()
        try leaveWork(losingSession: false)
        let process = try start("main", with: ["HANDLERS_FAILPOINT": "\(place.rawValue):stop:\(nth)"])
        let end = ContinuousClock.now + .seconds(20)
        while !isStopped(process.processID) {
            guard ContinuousClock.now < end, process.isRunning else {
                process.killAndWait()
                throw SimulationError("main did not come to \(place.rawValue)")
            }
            SystemThread.sleep(microseconds: 1000)
        }
        return process
    }

    /// The third field of the kernel's line about a process is `T` while it is stopped.
    func isStopped(_ processID: Int32) -> Bool {
        let text = try? String(contentsOf: URL(filePath: "/proc/\(processID)/stat"), encoding: .utf8)
        return text?.split(separator: ")").last?.hasPrefix(" T") == true
    }
}

extension Failpoint {
    /// Whether it is reached only when the server does not know the session any more.
    var needsLostSession: Bool {
        switch self {
        case .afterSessionLost, .afterBound, .beforeInvalidation: true
        default: false
        }
    }

    /// Whether one process comes by once at most.
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
