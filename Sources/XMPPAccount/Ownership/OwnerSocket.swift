import Handlers
import Platform
import Synchronization
import XMPPTransport

/// A question of a process to the owner of an account.
package enum OwnerQuestion: UInt8, Sendable {
    /// A worker asks whether it is needed.
    case isAlive = 0x61
    /// The main program asks for the stream.
    case handOver = 0x68
}

/// The answer of the owner.
package enum OwnerAnswer: UInt8, Sendable {
    /// The owner goes on.
    case keeping = 0x6b
    /// The owner closes its stream, keeps the session and frees its lock.
    case releasing = 0x72
}

/// The Unix socket beside the database on which an owner answers. A process that is frozen does not answer.
final class OwnerSocket: Sendable {
    private let listener: StreamSocket

    /// Starts to listen, in place of any earlier listener.
    ///
    /// - Throws: ``AccountError`` `invalidConfiguration` when the socket cannot be made, or something else stands there.
    init(path: String, beside database: String) throws(AccountError) {
        do {
            try PrivateFile.checkName(path, kind: .socket, beside: database)
        } catch { throw AccountError(.invalidConfiguration, error.message, cause: error) }
        do throws(Errno) {
            listener = try StreamSocket.listening(atPath: path, backlog: 8)
        } catch {
            throw AccountError(
                .invalidConfiguration,
                "the socket \(path) cannot be made (\(error)); check the database's folder")
        }
    }

    /// Answers on a loop of its own, as a long step of the account is not silence.
    ///
    /// - Parameters:
    ///   - driver: Calls the turns of that loop.
    ///   - decide: Gives the answer to a question; called on the loop, which it must not hold up.
    /// - Returns: The answers, to be stopped when the process owns the account no longer.
    func answer(
        _ driver: any LoopDriver, _ decide: @escaping @Sendable (OwnerQuestion) -> OwnerAnswer
    ) throws(HandlerError) -> Answering {
        let end = try End(driver.makeSharedSignal())
        return Answering(end, try driver.startShared { [listener] in Answers(listener, end, decide) })
    }

    /// The loop that answers; releasing it stops it too.
    final class Answering: Sendable {
        private let end: End
        private let loop: any RunningLoop

        fileprivate init(_ end: End, _ loop: any RunningLoop) { (self.end, self.loop) = (end, loop) }

        deinit { end.reach() }

        /// When this returns, nothing is answered any more.
        func stop() {
            end.reach()
            loop.join()
        }
    }

    /// The end of the answers.
    fileprivate final class End: Sendable {
        let signal: WakeSignal
        private let state = Atomic(false)

        init(_ signal: WakeSignal) { self.signal = signal }

        var isReached: Bool { state.load(ordering: .acquiring) }

        func reach() {
            state.store(true, ordering: .releasing)
            signal.raise()
        }
    }

    private final class Answers: DrivenLoop {
        /// The time for a question, in milliseconds.
        private static let patience: Int64 = 20
        /// The maximum number of clients whose question is awaited.
        private static let clientLimit = 8

        private let listener: StreamSocket
        private let end: End
        private let decide: (OwnerQuestion) -> OwnerAnswer
        /// The processes that have connected and not asked yet.
        private var clients: [(socket: StreamSocket, deadline: Int64)] = []

        init(_ listener: StreamSocket, _ end: End, _ decide: @escaping (OwnerQuestion) -> OwnerAnswer) {
            (self.listener, self.end, self.decide) = (listener, end, decide)
        }

        var signal: WakeSignal? { end.signal }

        func turn(_ found: [PollEntry]) -> Pause? {
            if end.isReached { return nil }
            let now = SystemTime.monotonicNanoseconds() / 1_000_000
            let isExhausted = accept(at: now)
            clients.removeAll { answer($0.socket) || $0.deadline <= now }
            var pause = Pause([PollEntry(end.signal.fileDescriptor)])
            pause.entries += clients.map { PollEntry($0.socket.descriptor) }
            // A caller that has to wait stays readable: without a pause this would spin until a descriptor is free.
            if isExhausted || clients.count >= Self.clientLimit {
                pause.limit(to: Self.patience)
            } else {
                pause.entries.append(PollEntry(listener.descriptor))
            }
            if let first = clients.map(\.deadline).min() { pause.limit(to: max(0, first - now)) }
            return pause
        }

        /// Accepts the processes that wait.
        ///
        /// - Returns: Whether one still waits and this process has no descriptor left for it.
        private func accept(at now: Int64) -> Bool {
            do throws(Errno) {
                while clients.count < Self.clientLimit,
                    let client = try StreamSocket.accept(from: listener.descriptor)
                {
                    guard client.isPeerOwnUser else { continue }
                    clients.append((client, now + Self.patience))
                }
                return false
            } catch {
                return error.isExhaustion
            }
        }

        /// Answers a client that has asked.
        ///
        /// - Returns: Whether it gets no further answer.
        private func answer(_ client: StreamSocket) -> Bool {
            guard client.waitReadable(milliseconds: 0) else { return false }
            if let question = client.receiveByte().flatMap(OwnerQuestion.init) {
                client.send(byte: decide(question).rawValue)
            }
            return true
        }
    }

    /// Asks the owner.
    ///
    /// - Returns: The answer, or nil if the owner is silent or no process listens.
    static func ask(
        _ question: OwnerQuestion, path: String, beside database: String, until deadline: Deadline,
        on loop: EventLoop
    ) async -> OwnerAnswer? {
        // Connecting follows links, and somebody else may listen: who answers must be this user.
        guard (try? PrivateFile.checkName(path, kind: .socket, beside: database)) != nil,
            let owner = await connect(path, until: deadline, on: loop),
            owner.isPeerOwnUser, owner.send(byte: question.rawValue)
        else { return nil }
        var entries = [PollEntry(owner.descriptor)]
        guard await loop.wait(&entries, until: deadline) == .ready else { return nil }
        return owner.receiveByte().flatMap(OwnerAnswer.init)
    }

    /// Connects to the owner; the backlog of an owner that accepts no connections is full after a while.
    private static func connect(
        _ path: String, until deadline: Deadline, on loop: EventLoop
    ) async -> StreamSocket? {
        while true {
            do throws(Errno) {
                return try StreamSocket.connected(toPath: path)
            } catch {
                guard error == .wouldBlock, !loop.isPassed(deadline) else { return nil }
            }
            await loop.sleep(.milliseconds(1))
        }
    }
}
