import Handlers
import Platform
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

    /// Answers until it is stopped, on a loop of its own: a long step of the account is not silence.
    ///
    /// - Parameters:
    ///   - driver: Calls the turns of that loop.
    ///   - stop: Raised when the process owns the account no longer.
    ///   - decide: Gives the answer to a question; called on the loop.
    /// - Returns: The loop, to be joined once it was stopped.
    func answer(
        _ driver: any LoopDriver, until stop: WakeSignal,
        _ decide: @escaping @Sendable (OwnerQuestion) -> OwnerAnswer
    ) throws(HandlerError) -> any RunningLoop {
        try driver.start("account owner", blocksSignals: false) { [self] in
            Answers(socket: self, stop: stop, decide: decide)
        }
    }

    private final class Answers: DrivenLoop {
        private let socket: OwnerSocket
        private let stop: WakeSignal
        private let decide: (OwnerQuestion) -> OwnerAnswer

        init(socket: OwnerSocket, stop: WakeSignal, decide: @escaping (OwnerQuestion) -> OwnerAnswer) {
            (self.socket, self.stop, self.decide) = (socket, stop, decide)
        }

        func turn(_ found: [PollEntry]) -> Pause? {
            if found.first?.isReady == true { return nil }
            let stopped = PollEntry(stop.fileDescriptor)
            // A caller that has to wait stays readable: without a pause this would spin until a descriptor is free.
            guard socket.answerWaiting(decide) else { return Pause([stopped], milliseconds: 20) }
            return Pause([stopped, PollEntry(socket.listener.descriptor)])
        }
    }

    /// Answers everyone who waits.
    ///
    /// - Returns: False if a process still waits and this one has no descriptor left for it.
    private func answerWaiting(_ decide: (OwnerQuestion) -> OwnerAnswer) -> Bool {
        do throws(Errno) {
            while let client = try StreamSocket.accept(from: listener.descriptor) {
                guard client.isPeerOwnUser, client.waitReadable(milliseconds: 20),
                    let question = client.receiveByte().flatMap(OwnerQuestion.init)
                else { continue }
                client.send(byte: decide(question).rawValue)
            }
            return true
        } catch { return !error.isExhaustion }
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
