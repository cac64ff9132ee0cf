import Glibc
import Synchronization

// Two GNU functions of <spawn.h> that the Glibc module hides because it is imported without _GNU_SOURCE. They take plain pointers
// and integers, for which Swift's and C's calling conventions are the same on Linux.
@_silgen_name("posix_spawn_file_actions_addclosefrom_np")
private func addCloseFrom(_ actions: UnsafeMutablePointer<posix_spawn_file_actions_t>, _ first: Int32)
    -> Int32
@_silgen_name("posix_spawn_file_actions_addchdir_np")
private func addChangeFolder(
    _ actions: UnsafeMutablePointer<posix_spawn_file_actions_t>, _ folder: UnsafePointer<CChar>
) -> Int32

/// The arguments of `posix_spawn`.
struct SpawnRequest: Sendable {
    /// The program's path and all arguments.
    var command: [String]
    var environment: [String]
    var folder: String?
    /// The descriptors that become 0, 1 and 2.
    var streams: [Int32]
}

/// The state that a child's thread and its owner share. The thread may outlive an owner that did not wait.
final class SharedChildState: Sendable {
    struct Current: ~Copyable {
        var processID: Int32 = 0
        var ending: ChildEnding?
        /// Closed when the child has been reaped, which wakes every thread that polls the other end.
        var running: FileDescriptor?
    }

    let current: Mutex<Current>

    init(running: consuming FileDescriptor) { current = Mutex(Current(running: running)) }
}

/// The work of one child's thread: spawn the child, report its id, wait for its end, and reap it.
final class ChildLaunch: Sendable {
    private let request: SpawnRequest
    private let state: SharedChildState
    private let started: FileDescriptor

    init(request: SpawnRequest, state: SharedChildState, started: consuming FileDescriptor) {
        self.request = request
        self.state = state
        self.started = started
    }

    func run() {
        let begin = ContinuousClock.now
        var answer = Self.spawn(request)
        state.current.withLock { $0.processID = max(0, answer) }
        _ = write(started.number, &answer, MemoryLayout<Int32>.size)
        if answer > 0 { reap(answer, begin: begin) }
    }

    private func reap(_ processID: Int32, begin: ContinuousClock.Instant) {
        // Waits until the child has ended without reaping it, so that its id still belongs to it and its group.
        var information = siginfo_t()
        while waitid(P_PID, id_t(processID), &information, WEXITED | WNOWAIT) != 0, errno == EINTR {}
        let elapsed = begin.duration(to: .now)
        state.current.withLock { state in
            kill(-processID, SIGKILL)
            var status: Int32 = 0
            var usage = rusage()
            while wait4(processID, &status, 0, &usage) < 0, errno == EINTR {}
            state.ending = ChildEnding(status: status, usage: usage, elapsed: elapsed)
            state.running = nil
        }
    }

    /// Returns the process id, or the negated error number.
    private static func spawn(_ request: SpawnRequest) -> Int32 {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for (target, source) in request.streams.enumerated() {
            posix_spawn_file_actions_adddup2(&actions, source, Int32(target))
        }
        _ = addCloseFrom(&actions, 3)
        if let folder = request.folder { _ = addChangeFolder(&actions, folder) }

        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        var all = sigset_t()
        sigemptyset(&none)
        sigfillset(&all)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setflags(
            &attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP))

        var processID: pid_t = 0
        let failure = withCStrings(request.command) { arguments in
            withCStrings(request.environment) { variables in
                posix_spawn(&processID, request.command[0], &actions, &attributes, arguments, variables)
            }
        }
        return failure == 0 ? processID : -failure
    }

    private static func withCStrings<R>(
        _ texts: [String], _ body: ([UnsafeMutablePointer<CChar>?]) -> R
    ) -> R {
        let pointers = texts.map { strdup($0) } + [nil]
        defer { pointers.forEach { free($0) } }
        return body(pointers)
    }
}

extension ChildEnding {
    fileprivate init(status: Int32, usage: rusage, elapsed: Duration) {
        // The macros WIFEXITED, WEXITSTATUS and WTERMSIG of wait(2), which Swift cannot import.
        let signal = status & 0x7f
        cause = signal == 0 ? .exited((status >> 8) & 0xff) : .signaled(signal)
        userTime = Duration(usage.ru_utime)
        systemTime = Duration(usage.ru_stime)
        peakResidentBytesBound = usage.ru_maxrss * 1024
        self.elapsed = elapsed
    }
}

extension Duration {
    fileprivate init(_ time: timeval) {
        self = .seconds(time.tv_sec) + .microseconds(time.tv_usec)
    }
}
