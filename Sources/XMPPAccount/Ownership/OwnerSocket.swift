import Handlers
import Platform

/// What one process asks of the owner of an account, and what it hears.
enum OwnerQuestion: UInt8 {
    /// A worker asks whether it is needed.
    case isAlive = 0x61
    /// The main program asks for the stream.
    case handOver = 0x68
}

enum OwnerAnswer: UInt8 {
    /// The owner goes on.
    case keeping = 0x6b
    /// The owner closes its stream, keeps the session and frees its lock.
    case releasing = 0x72
}

/// The owner's ear: a Unix socket beside the database. A process that is frozen does not answer.
final class OwnerSocket: Sendable {
    private let listener: StreamSocket

    /// Begins to listen, in the place of whoever listened there before.
    ///
    /// - Throws: ``AccountError`` `invalidConfiguration` when the socket cannot be made, or something else stands there.
    init(path: String, beside database: String) throws(AccountError) {
        do {
            try PrivateFile.checkName(path, kind: .socket, beside: database)
        } catch {
            throw AccountError(.invalidConfiguration, error.message, cause: error)
        }
        do throws(Errno) {
            listener = try StreamSocket.listening(atPath: path, backlog: 8)
        } catch {
            throw AccountError(
                .invalidConfiguration,
                "the socket \(path) cannot be made (\(error)); check the database's folder")
        }
    }

    /// Answers on a thread of its own until told to stop: a long step of the account is not silence.
    ///
    /// - Parameters:
    ///   - stop: Raised when the process owns the account no longer.
    ///   - decide: Gives the answer to a question; called on that thread.
    /// - Returns: The thread, to be joined once it was told to stop.
    func answer(
        until stop: WakeSignal, _ decide: @escaping @Sendable (OwnerQuestion) -> OwnerAnswer
    ) throws(HandlerError) -> WorkerThread {
        try WorkerThread("account owner") { [self] in
            var entries = [PollEntry(stop.fileDescriptor), PollEntry(listener.descriptor)]
            while (try? PollEntry.wait(&entries, milliseconds: -1)) != nil {
                if entries[0].isReady { return }
                // Whoever waits stays readable: without a pause this would spin until a descriptor is free.
                if !answerWaiting(decide) {
                    _ = PollEntry.waitReadable(stop.fileDescriptor, milliseconds: 20)
                }
            }
        }
    }

    /// Answers everyone who waits.
    ///
    /// - Returns: False when somebody waits on and the process has no descriptor left for them.
    private func answerWaiting(_ decide: (OwnerQuestion) -> OwnerAnswer) -> Bool {
        do throws(Errno) {
            while let client = try StreamSocket.accept(from: listener.descriptor) {
                guard client.isPeerOwnUser, client.waitReadable(milliseconds: 20),
                    let question = client.receiveByte().flatMap(OwnerQuestion.init)
                else { continue }
                client.send(byte: decide(question).rawValue)
            }
            return true
        } catch {
            return !error.isExhaustion
        }
    }

    /// Asks the owner.
    ///
    /// - Parameter milliseconds: How long to wait for the answer.
    /// - Returns: The answer, or nil when the owner is silent or nobody listens.
    static func ask(
        _ question: OwnerQuestion, path: String, beside database: String, milliseconds: Int32
    ) -> OwnerAnswer? {
        // Connecting follows links, and somebody else may listen: who answers must be this user.
        guard (try? PrivateFile.checkName(path, kind: .socket, beside: database)) != nil,
            let owner = try? StreamSocket.connected(toPath: path, milliseconds: milliseconds),
            owner.isPeerOwnUser, owner.send(byte: question.rawValue),
            owner.waitReadable(milliseconds: milliseconds)
        else { return nil }
        return owner.receiveByte().flatMap(OwnerAnswer.init)
    }
}
