import Handlers
import Platform
import Synchronization
import XMPPTransport

/// Derives keys from passwords, one at a time for each server: the server decides how long that takes, and pays with its own accounts.
///
/// ```text
/// server a:  key, key, key ──╮
/// server b:  key ────────────┼──▶ one key of each server in turn ──▶ threads, others for keys that take long
/// server c:  key, key ───────╯
/// ```
final class KeyDerivations: Sendable {
    private struct Job {
        let number: Int
        let isLong: Bool
        let body: @Sendable () -> Void
    }

    private struct State {
        /// Computations that have not started, of each server.
        var waiting: [ServerPlace: ArraySlice<Job>] = [:]
        /// Servers for which a thread computes, or is about to.
        var busy: Set<ServerPlace> = []
        var lastNumber = 0
    }

    /// From more iterations on a computation takes long: some tenth of a second. Such ones have threads of their own, so that however
    /// many servers demand them, keys that take milliseconds do not wait.
    static let longFrom = 100_000

    private let state = Mutex(State())
    private let short = WorkThreads(ThisProcess.processors, "key derivations")
    private let long = WorkThreads(ThisProcess.processors, "long derivation")

    /// Has a key computed.
    ///
    /// - Parameters:
    ///   - derivation: The key.
    ///   - server: The server that wants it.
    ///   - deadline: When to give up. A computation that has not started by then never does.
    ///   - loop: What waits. Canceling the task ends the wait.
    /// - Returns: The result of the wait, and the key if it is ready.
    /// - Throws: `TransportError` with `systemFailure`.
    func run(
        _ derivation: SCRAMClient.Derivation, for server: ServerPlace, until deadline: Deadline,
        on loop: EventLoop
    ) async throws(TransportError) -> (WaitResult, SCRAMKeys?) {
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        defer { drop(number, of: server) }
        return try await OutsideCall.wait(
            until: deadline, on: loop,
            start: { body in
                add(
                    Job(number: number, isLong: derivation.iterations > Self.longFrom, body: body),
                    for: server)
            }, derivation.run)
    }

    /// The number of computations of a server that have not started.
    func waiting(for server: ServerPlace) -> Int { state.withLock { $0.waiting[server]?.count ?? 0 } }

    private func add(_ job: Job, for server: ServerPlace) {
        let isFree = state.withLock { state in
            state.waiting[server, default: []].append(job)
            return state.busy.insert(server).inserted
        }
        if isFree { start(server, isLong: job.isLong) }
    }

    /// Removes a computation whose waiter has given up; one that runs goes on.
    private func drop(_ number: Int, of server: ServerPlace) {
        state.withLock { state in
            guard let index = state.waiting[server]?.firstIndex(where: { $0.number == number }) else {
                return
            }
            state.waiting[server]?.remove(at: index)
        }
    }

    /// Has a thread compute the next key of a server, after those of the servers that were there before.
    private func start(_ server: ServerPlace, isLong: Bool) {
        (isLong ? long : short).start { [self] in runNext(of: server, isLong: isLong) }
    }

    private func runNext(of server: ServerPlace, isLong: Bool) {
        let job = state.withLock { state -> Job? in
            // What was first may have been dropped, and what follows take another time.
            guard let first = state.waiting[server]?.first, first.isLong == isLong else { return nil }
            return state.waiting[server]?.popFirst()
        }
        job?.body()
        let next = state.withLock { state -> Job? in
            if let next = state.waiting[server]?.first { return next }
            state.waiting[server] = nil
            state.busy.remove(server)
            return nil
        }
        if let next { start(server, isLong: next.isLong) }
    }
}
