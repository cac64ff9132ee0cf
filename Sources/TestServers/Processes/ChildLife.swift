import Glibc
import Platform
import Synchronization

/// One child, from its spawn until it is reaped.
///
/// One thread spawns the child, waits for its end and reaps it. It must be the same thread all the time: the kernel sends the
/// parent-death signal when the *thread* that spawned the child ends, and a thread of a pool may end at any time.
final class ChildLife: Sendable {
    let processID: Int32
    private let state: SharedChildState
    private let ended: FileDescriptor

    init(_ request: SpawnRequest) throws(ChildProcessError) {
        let running = try FileDescriptor.pipe()
        let started = try FileDescriptor.pipe()
        state = SharedChildState(running: running.writing)
        ended = running.reading
        let launch = ChildLaunch(request: request, state: state, started: started.writing)
        do throws(Errno) {
            // The program's other threads handle signals to the program.
            _ = try SystemThread("child", blocksSignals: true) { launch.run() }
        } catch { throw ChildProcessError(.startFailed, "The system refused a thread: \(error).") }
        processID = try Self.awaitStart(of: request.command[0], started.reading)
    }

    deinit {
        killGroup()
        // A killed process ends within microseconds, unless a device blocks it, and then nothing can be done here.
        _ = waitUntilExit(deadline: .now + .seconds(10))
    }

    var ending: ChildEnding? { state.current.withLock { $0.ending } }

    func waitUntilExit(deadline: ContinuousClock.Instant) -> ChildEnding? {
        _ = waitReadable(ended.number, deadline: deadline)
        return ending
    }

    @discardableResult
    func send(_ signal: Int32) -> Bool {
        // The child is reaped under this lock, so its id cannot belong to another process here.
        state.current.withLock { $0.ending == nil && kill($0.processID, signal) == 0 }
    }

    func killGroup() {
        state.current.withLock { if $0.ending == nil { kill(-$0.processID, SIGKILL) } }
    }

    /// Reads the process id, or the negated error number, which the thread writes once.
    private static func awaitStart(
        of program: String, _ started: borrowing FileDescriptor
    ) throws(ChildProcessError) -> Int32 {
        var answer: Int32 = 0
        var count = -1
        repeat {
            count = read(started.number, &answer, MemoryLayout<Int32>.size)
        } while count < 0 && errno == EINTR
        guard count == MemoryLayout<Int32>.size, answer > 0 else {
            throw ChildProcessError(
                .startFailed, "\(program) could not be started: \(Errno(rawValue: -answer)).")
        }
        return answer
    }
}
