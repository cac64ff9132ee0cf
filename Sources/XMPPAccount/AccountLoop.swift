import Handlers
import Platform
import XMPPCore
import XMPPTransport

/// The one thread that owns an account's stream: it waits, reads, steps and writes, in that order.
///
/// It works at its own pace: whatever has arrived and whatever was asked meanwhile goes into one step.
final class AccountLoop {
    enum Phase {
        /// No stream is wanted.
        case idle
        /// A thread is opening one; raising the signal stops it.
        case opening(attempt: Int, interrupt: WakeSignal)
        case live(LiveStream)
        /// The next attempt comes at that time of the monotonic clock.
        case waiting(until: Int64)
    }

    let account: Account
    var phase = Phase.idle
    var ownership: Ownership? {
        didSet { account.ownsStream.store(ownership != nil, ordering: .relaxed) }
    }
    let loginMemory = LoginMemory()
    /// Prepares TLS for the first stream.
    var preparation: WorkerThread?
    /// Set when another process took over, until the program connects again.
    var isFenced = false
    /// Callers that wait for the attempt under way.
    var connecting: [Completion] = []
    /// Callers that wait for a stream, however many attempts it takes.
    var retrying: [Completion] = []
    /// Whoever waits to have caught up, while there is no stream to ask on.
    var catchingUp: [Completion] = []
    /// Whether the stream is opened again until somebody ends that: there was one since the program asked for it, or the
    /// program asked for that.
    var isEstablished = false
    /// When to try again.
    var reconnection = Reconnection()
    /// Whether the network changed while a stream was being opened.
    var isHinted = false
    var attempts = 0
    /// The threads that open streams, by their attempt, until they have ended.
    var openers: [Int: WorkerThread] = [:]
    /// What the last resumption acknowledged and what the server does not take, to be told behind the stream's beginning.
    var arrivals: [AccountEvent] = []
    var isClosed = false
    /// When the last wait ended.
    var awakeAt: Int64 = 0
    /// When the account was taken over.
    var ownedAt: Int64 = 0
    /// When a step that could not be committed is tried again; until then no step is due.
    var stepRetry: Int64?
    /// How far the marks of handled messages were looked through.
    var forgetting = Forgetting.waiting(until: 0)

    init(_ account: Account) { self.account = account }

    var now: Int64 { account.configuration.time.milliseconds() }

    func run() {
        account.mailbox.begin()
        while !isClosed {
            wait()
            awakeAt = now
            ownership?.takeLockIfFree()
            let events = receive()
            let (commands, hasNewRows) = account.mailbox.takeAll()
            if case .live(let stream) = phase {
                if hasNewRows { stream.hasMore = true }
                stream.management.policy = account.acknowledgements
            }
            takeTurn(takeAnswers(events), commands)
            account.runner.rest(atMost: longestRest)
        }
        // Interrupted by now.
        for opener in openers.values { opener.join() }
        preparation?.join()
    }

    /// One turn: steps for what arrived and was asked, then everything that depends on time.
    private func takeTurn(_ events: [StreamParser.Event], _ commands: [Command]) {
        var events = events
        var steps: [StepCommand] = []
        for command in commands {
            if isClosed {
                refuse(command)
                continue
            }
            if case .step(let step) = command {
                steps.append(step)
                continue
            }
            // A control command comes after the work that was asked before it.
            if !events.isEmpty || !steps.isEmpty { runStep(events, steps) }
            (events, steps) = ([], [])
            control(command)
        }
        if !events.isEmpty || !steps.isEmpty || isStepDue { runStep(events, steps) }
        keepTime()
        forgetCopies()
        tellClientState()
        flush()
    }

    /// XEP-0352 section 4.1: the server is told when that changes. It is no stanza, and is not told again.
    private func tellClientState() {
        let state = account.clientState
        guard case .live(let stream) = phase, stream.hasClientState, stream.clientState != state else {
            return
        }
        stream.clientState = state
        stream.connection.write(Serializer().bytes(Element(state.rawValue, namespace: Namespaces.csi)))
    }

    // MARK: Waiting

    private func wait() {
        if case .live(let stream) = phase, stream.connection.hasBufferedInput { return }
        var entries = [PollEntry(account.mailbox.signal.fileDescriptor)]
        if case .live(let stream) = phase {
            entries.append(PollEntry(stream.connection.fileDescriptor, for: stream.connection.pollEvents))
        }
        let planned = timeout
        let begin = now
        account.liveClock.plan(Int64(max(0, planned)))
        _ = try? PollEntry.wait(&entries, milliseconds: planned)
        account.liveClock.plan(0)
        // A clock turned by hand is not frozen, however far it is turned.
        if account.configuration.time.onTurn == nil {
            skipFrozenTime(busy: begin - awakeAt, waited: now - begin, planned: Int64(planned))
        }
        if entries[0].isReady { account.mailbox.signal.clear() }
    }

    /// Milliseconds until something is due; -1 when nothing is.
    private var timeout: Int32 {
        if isStepDue { return 0 }
        var due: [Int64] = []
        // The lock tells others that this owner is alive: do not stay without it for long. The end of a process that keeps it
        // longer than that wakes this one.
        if let ownership, !ownership.holdsLock, now - ownedAt < Self.lockPatience { due.append(1000) }
        switch phase {
        case .idle, .opening: break
        case .waiting(let until): due.append(until - now)
        case .live(let stream):
            if let next = stream.keepAlive.nextDue { due.append(next - now) }
            if stream.isManaged, let next = stream.management.nextDue { due.append(next - now) }
            if let linkCheck = stream.linkCheck { due.append(linkCheck - now) }
            if let forgettingDue { due.append(forgettingDue - now) }
            if let stepRetry {
                due.append(stepRetry - now)
            } else if let deadline = stream.nextDeadline, let live = account.liveClock.milliseconds {
                let longest = longestUnstored(until: deadline, live)
                due.append(min(deadline, stream.storedLiveTime + longest) - live)
            }
        }
        return due.min().map { Int32(clamping: max(0, $0)) } ?? -1
    }

    /// How long the lock of a process that was passed over is looked at every second, in milliseconds.
    private static let lockPatience: Int64 = 10_000

    // MARK: Reading

    /// What one turn takes in at most; the rest stays in the socket, whose window then holds the server back. Parsed, it
    /// takes some times the memory, of which a worker has little.
    private var readLimit: Int { account.configuration.role == .worker ? 32 * 1024 : 256 * 1024 }

    /// What was read last; kept, since one that grows anew each time costs more than to parse it.
    private var input: [UInt8] = []

    private func receive() -> [StreamParser.Event] {
        guard case .live(let stream) = phase, !stream.isLeaving else { return [] }
        input.removeAll(keepingCapacity: true)
        do {
            var isOpen = true
            while input.count < readLimit {
                let result: Connection.ReadResult
                do throws(TransportError) {
                    result = try stream.connection.read(into: &input)
                } catch {
                    // What came before is taken in first: perhaps the error that explains it. The next read fails too.
                    if input.isEmpty { throw error }
                    break
                }
                if case .bytes = result { continue }
                isOpen = result != .closed
                break
            }
            guard !input.isEmpty || !isOpen else { return [] }
            if !input.isEmpty {
                stream.heardAt = now
                stream.linkCheck = nil
            }
            let events = try stream.parser.parse(input)
            if events.contains(where: { $0 != .closed }) { try Failpoint.afterRead.hit() }
            // The end of the connection is met again at the next read, once these events are committed.
            if !isOpen && events.isEmpty {
                drop(AccountError(.connectionFailed, "\(stream.connection.peer) closed the connection"))
            }
            return events
        } catch let error as StreamParserError {
            stream.parserError = error
            return error.events
        } catch {
            drop(AccountError(.connectionFailed, "the connection broke: \(error)", cause: error))
        }
        return []
    }

    // MARK: Commands

    private func control(_ command: Command) {
        switch command {
        case .step: break
        case .connect(let retries, let completion): connect(retries: retries, completion)
        case .networkChanged: networkChanged()
        case .opened(let result, let attempt): opened(result, attempt: attempt)
        case .suspend(let completion): completion(suspend())
        case .logOut(let completion): completion(Result { try logOut() })
        case .catchUp(let completion): catchUp(completion)
        case .manage(let action, let completion): completion(Result { try manage(action) })
        case .handOver:
            guard ownership != nil else { return }
            suspend()
            account.hub.send(.handedOver)
        case .close(let completion):
            let result = suspend()
            isClosed = true
            for late in account.mailbox.close() { refuse(late) }
            account.hub.finish()
            completion(result)
        }
    }

    private func refuse(_ command: Command) {
        let error = AccountError(.closed, "the account was closed; make a new one")
        switch command {
        case .step(let step): step.finish(.failure(error))
        case .handOver, .networkChanged: break
        case .connect(_, let completion), .suspend(let completion), .logOut(let completion),
            .catchUp(let completion), .manage(_, let completion), .close(let completion):
            completion(.failure(error))
        case .opened(let result, _): if case .success(let stream) = result { stream.connection.closeDirty() }
        }
    }

    func catchUp(_ completion: @escaping Completion) {
        guard case .live(let stream) = phase else {
            // A stream that broke is being opened again.
            if ownership != nil || !retrying.isEmpty { return catchingUp.append(completion) }
            return completion(
                .failure(
                    AccountError(.connectionFailed, "there is no stream to catch up with; connect first")))
        }
        guard stream.isManaged else {
            return completion(
                .failure(
                    AccountError(
                        .protocolViolation,
                        "the server has no stream management; there is nothing to wait for")))
        }
        // An answer that is under way already says nothing about what comes behind it: ask again after it.
        guard stream.management.requestedAt == nil else { return stream.nextBarriers.append(completion) }
        request(stream)
        stream.barriers.append(completion)
    }

    // MARK: Time

    private var isStepDue: Bool {
        guard case .live(let stream) = phase else { return false }
        if let stepRetry { return stepRetry <= now }
        if stream.parserError != nil { return true }
        if stream.hasMore && stream.connection.canTakeMore { return true }
        guard let deadline = stream.nextDeadline, let live = account.liveClock.milliseconds else {
            return false
        }
        return deadline <= live || stream.storedLiveTime + LiveClock.storedEvery <= live
    }

    private func keepTime() {
        switch phase {
        case .waiting(let until) where until <= now: reopen()
        case .live(let stream):
            if let linkCheck = stream.linkCheck, linkCheck <= now { return dropSilent(stream) }
            if keepAlive(stream) { tellAndAsk(stream) }
        default: break
        }
    }

    private func flush() {
        guard case .live(let stream) = phase else { return }
        do {
            let isFlushed = try stream.connection.flush()
            if isFlushed && !stream.isManaged { try forget(stream) }
        } catch {
            react(to: error, while: .sending)
        }
    }
}
