import Handlers
import Platform
import Synchronization
import XMPPTransport

/// What a store answers to other processes for the accounts that it owns.
final class OwnerAnswers: Sendable {
    typealias Decide = @Sendable (OwnerQuestion) -> OwnerAnswer

    /// An account that this store owns.
    private struct Owned {
        /// The place that answers: the last one that took the account over.
        let place: ObjectIdentifier
        /// Nil while the account is taken over.
        var decide: Decide?
    }

    private let owned = Mutex<[Int64: Owned]>([:])
    private let signal: WakeSignal
    private let isOver = Atomic(false)

    init(_ signal: WakeSignal) { self.signal = signal }

    /// Receives questions for an account from now on; they wait for ``answer(_:of:_:)``.
    func expect(_ account: Int64, of place: AnyObject) {
        owned.withLock { $0[account] = Owned(place: ObjectIdentifier(place)) }
    }

    func answer(_ account: Int64, of place: AnyObject, _ decide: @escaping Decide) {
        owned.withLock { owned in
            if owned[account]?.place == ObjectIdentifier(place) { owned[account]?.decide = decide }
        }
        signal.raise()
    }

    /// When this returns, nothing is answered any more.
    func stop(_ account: Int64, of place: AnyObject) {
        owned.withLock { owned in
            if owned[account]?.place == ObjectIdentifier(place) { owned[account] = nil }
        }
        signal.raise()
    }

    /// Ends the loop that answers.
    func end() {
        isOver.store(true, ordering: .releasing)
        signal.raise()
    }

    enum Reply {
        case answer(OwnerAnswer)
        /// This store is about to own the account.
        case later
        case notOwned
    }

    func reply(_ question: OwnerQuestion, _ account: Int64) -> Reply {
        // With the lock held: after `stop` has returned, no question is being answered any more.
        owned.withLock { owned in
            guard let found = owned[account] else { return .notOwned }
            return found.decide.map { .answer($0(question)) } ?? .later
        }
    }

    // MARK: The loop

    /// Returns the loop that answers what is asked at a socket, a loop of its own, as a long step of an account is not silence.
    func makeLoop(_ listener: StreamSocket) -> any DrivenLoop { Loop(listener, self) }

    private final class Loop: DrivenLoop {
        /// The time for a question, in milliseconds.
        private static let patience: Int64 = 20
        /// The maximum number of clients whose question is awaited, or waits.
        private static let clientLimit = 32

        private struct Client {
            let socket: StreamSocket
            let deadline: Int64
            var question: (OwnerQuestion, account: Int64)?
        }

        private let listener: StreamSocket
        private let answers: OwnerAnswers
        private var clients: [Client] = []

        init(_ listener: StreamSocket, _ answers: OwnerAnswers) {
            (self.listener, self.answers) = (listener, answers)
        }

        var signal: WakeSignal? { answers.signal }

        func turn(_ found: [PollEntry]) -> Pause? {
            if answers.isOver.load(ordering: .acquiring) { return nil }
            let now = SystemTime.monotonicNanoseconds() / 1_000_000
            let isExhausted = accept(at: now)
            clients = clients.compactMap { serve($0, at: now) }
            var pause = Pause([PollEntry(answers.signal.fileDescriptor)])
            pause.entries += clients.map { PollEntry($0.socket.descriptor) }
            // A caller that has to wait stays readable: without a pause this would spin until a descriptor is free.
            if isExhausted || clients.count >= Self.clientLimit {
                pause.limit(to: Self.patience)
            } else {
                pause.entries.append(PollEntry(listener.descriptor))
            }
            if let first = clients.lazy.filter({ $0.question == nil }).map(\.deadline).min() {
                pause.limit(to: max(0, first - now))
            }
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
                    clients.append(Client(socket: client, deadline: now + Self.patience))
                }
                return false
            } catch {
                return error.isExhaustion
            }
        }

        /// Answers a client that has asked.
        ///
        /// - Returns: The client, if it is to be looked at again.
        private func serve(_ client: Client, at now: Int64) -> Client? {
            var client = client
            let isReadable = client.socket.waitReadable(milliseconds: 0)
            if client.question == nil {
                guard isReadable else { return client.deadline > now ? client : nil }
                guard let question = OwnerQuestion.read(from: client.socket) else { return nil }
                client.question = question
            } else if isReadable {
                // It has nothing more to say: it is gone.
                return nil
            }
            guard let (question, account) = client.question else { return nil }
            switch answers.reply(question, account) {
            case .answer(let answer): client.socket.send([answer.rawValue])
            case .later: return client
            case .notOwned: break
            }
            return nil
        }
    }
}
