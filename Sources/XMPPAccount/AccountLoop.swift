import Handlers
import Platform
import XMPPCore
import XMPPTransport

/// Owns an account's stream. Each turn reads, steps and writes, in that order.
///
/// Stanzas and commands that arrived since the last turn share one step. ``AccountMachine`` decides when streams start and end; the
/// loop performs its actions.
final class AccountLoop: GroupedLoop {
    let account: Account
    private(set) var machine = AccountMachine()
    /// The connection of the open stream.
    var stream: OpenStream? { didSet { account.hasStream.store(stream != nil, ordering: .relaxed) } }
    var ownership: Ownership? { didSet { account.ownsStream.store(ownership != nil, ordering: .relaxed) } }
    let loginMemory: LoginMemory
    /// Prepares TLS for the first stream.
    var preparation: WorkerThread?
    /// Runs the tasks that open and close streams between the steps.
    let events: EventLoop
    /// The tasks that open streams, by their attempt, until they have ended.
    var openers: [Int: Task<Void, Never>] = [:]
    /// A stream that was opened, until the machine has decided whether it is started or discarded.
    var opened: OpenedStream?
    /// When the last pause ended, by the monotonic clock.
    private var awakeAt = Duration.zero
    /// Whether the account was open when the turn started.
    private var isWorking = false
    /// Whether the turn has read from the connection, and not only what was read before.
    private var hasRead = false
    /// The step of the turn, until it ends.
    var step: (intake: Intake, grouped: GroupedStep)?
    /// The last pause: when it started, by the monotonic clock, and its planned length; nil before the first turn and after a turn
    /// without a pause.
    private var pause: (startedAt: Duration, planned: Duration)?
    /// The number of descriptors of the last pause that belong to the loop itself.
    private var ownEntries = 0
    /// Commands that wait for the result of a takeover.
    private var postponed: [Command] = []
    /// When the account was taken over, by the monotonic clock.
    var ownedAt = Duration.zero
    /// The progress of forgetting marks of received messages.
    var forgetting = Forgetting.waiting(until: .zero)

    init(_ account: Account) {
        self.account = account
        loginMemory = LoginMemory(account.host?.contexts)
        events = EventLoop(clock: account.configuration.usedNetwork.clock) {
            [signal = account.mailbox.signal] in signal.raise()
        }
    }

    /// The time of the monotonic clock.
    var now: Duration { account.configuration.time.wholeMonotonic() }

    /// Whether the account was closed.
    private var isClosed: Bool { if case .closed = machine.state { true } else { false } }

    /// Gives the machine an input and performs what it wants done.
    func feed(_ input: AccountMachine.Input) {
        for action in machine.handle(input, now: now) { perform(action) }
    }

    // MARK: A turn

    var signal: WakeSignal? { account.mailbox.signal }

    var place: ObjectIdentifier { ObjectIdentifier(account.store) }

    /// Reads, and starts a step for stanzas and commands.
    func startTurn(_ found: [PollEntry]) -> (any GroupedWork)? { account.mailbox.asLoop { startWork(found) } }

    /// Ends the step, then does everything that depends on time.
    func endTurn() -> Pause? { account.mailbox.asLoop { endWork() } }

    private func startWork(_ found: [PollEntry]) -> GroupedStep? {
        endPause(found)
        events.runJobs()
        isWorking = !isClosed
        guard isWorking else { return nil }
        ownership?.acquireLockIfFree()
        let events = removeAnswers(receive())
        let (commands, hasNewRows) = removeCommands()
        if hasNewRows { stream?.hasMore = true }
        machine.configure(acknowledgements: account.acknowledgements, keepAlive: keepAliveInterval)
        return run(events, commands)
    }

    private func endWork() -> Pause? {
        if isWorking { finishWork() }
        guard isClosed else {
            account.runner.rest(atMost: longestRest)
            return startPause()
        }
        // Canceled tasks wait no longer. A stream that was logged out is closed first.
        for opener in openers.values { opener.cancel() }
        events.runJobs()
        if !events.isIdle { return startPause() }
        preparation?.join()
        return nil
    }

    private func finishWork() {
        endStep()
        if machine.isTakingOver { return }
        endAbandonedLeave()
        // What arrived by now is read first: an answer may be in it.
        let isRead = hasRead && stream.map { $0.connection.isDrained && $0.unread.isEmpty } ?? false
        feed(.time(readAt: isRead ? awakeAt : nil))
        forgetDuplicates()
        writeClientState()
        flush()
    }

    /// Ends a stream that reads nothing more because a command was to close it, and the command failed: the server sends the rest
    /// again.
    private func endAbandonedLeave() {
        guard stream?.isLeaving == true, !account.mailbox.isLeaving else { return }
        broke(AccountError(.connectionFailed, "the stream was to be closed, and that failed"))
    }

    /// - Returns: The last step for these events and commands; nil when nothing is left for one.
    private func run(_ events: ArraySlice<StreamParser.Event>, _ commands: [Command]) -> GroupedStep? {
        var events = events
        var steps: [StepCommand] = []
        for (index, command) in commands.enumerated() {
            if machine.isTakingOver {
                postponed = Array(commands[index...])
                break
            }
            if isClosed {
                refuse(command)
                continue
            }
            if case .step(let step) = command {
                steps.append(step)
                continue
            }
            // A control command comes after the work that was asked before it.
            if !events.isEmpty || !steps.isEmpty { runStep(events, steps, before: command) }
            (events, steps) = ([], [])
            control(command)
        }
        if events.isEmpty, let stream, !stream.unread.isEmpty {
            // What came with the answer that started the stream.
            (events, stream.unread) = (stream.unread, [])
        }
        if isStepDue || !steps.isEmpty { return startStep(events, steps) }
        events = answerAlone(events)
        return events.isEmpty ? nil : startStep(events, [])
    }

    /// Returns the commands posted since the last turn; during a takeover only its result.
    private func removeCommands() -> (commands: [Command], hasNewRows: Bool) {
        let (commands, hasNewRows) = account.mailbox.removeAll(readUpTo: stream?.flushMark ?? 0)
        guard machine.isTakingOver else { return (commands, hasNewRows) }
        postponed += commands
        guard let end = postponed.firstIndex(where: \.isEndOfTakeOver),
            case .tookOver(let purpose, let result) = postponed.remove(at: end)
        else { return ([], hasNewRows) }
        finishTakeOver(purpose, result)
        defer { postponed = [] }
        return (postponed, hasNewRows)
    }

    /// XEP-0352 section 4.1: the server is told when that changes. It is no stanza, and is not told again.
    private func writeClientState() {
        let state = account.clientState
        guard let stream, stream.hasClientState, stream.clientState != state else { return }
        stream.clientState = state
        stream.connection.write(Serializer().bytes(Element(state.rawValue, namespace: Namespaces.csi)))
    }

    private func flush() {
        guard let stream else { return }
        do {
            let isFlushed = try stream.connection.flush()
            let isForgotten = BuiltInFault.deleteWhenWritten.isOn || machine.stream?.isManaged == false
            if isFlushed, isForgotten { try forget(stream) }
        } catch {
            react(to: error, while: .sending)
        }
    }

    // MARK: Waiting

    private func startPause() -> Pause {
        (pause, ownEntries) = (nil, 0)
        if let stream, stream.connection.hasBufferedInput || !stream.unread.isEmpty { return .none }
        let rest = timeUntilDue
        var next = Pause([PollEntry(account.mailbox.signal.fileDescriptor)], milliseconds: rest?.milliseconds)
        if let stream {
            next.entries.append(
                PollEntry(stream.connection.fileDescriptor, for: stream.connection.pollEvents))
        }
        ownEntries = next.entries.count
        let planned = rest ?? .zero
        pause = (now, planned)
        account.connectedClock.plan(planned)
        events.extend(&next)
        return next
    }

    private func endPause(_ found: [PollEntry]) {
        if let pause {
            account.connectedClock.plan(.zero)
            // A clock turned by hand is not frozen, however far it is turned.
            if account.configuration.time.onTurn == nil {
                skipFrozenTime(
                    busy: pause.startedAt - awakeAt, waited: now - pause.startedAt, planned: pause.planned)
            }
            if found.first?.isReady == true { account.mailbox.signal.clear() }
            events.resume(found.dropFirst(ownEntries))
        }
        awakeAt = now
    }

    /// The time until something is due, 0 or more; nil when nothing is.
    private var timeUntilDue: Duration? {
        if machine.isTakingOver { return nil }
        if isStepDue { return .zero }
        var due: [Duration] = []
        // The lock tells others that this owner is alive: do not stay without it for long. The end of a process that keeps it
        // longer than that wakes this one.
        if let ownership, !ownership.holdsLock, now - ownedAt < Self.lockPatience { due.append(.seconds(1)) }
        if let next = machine.nextDue { due.append(next - now) }
        if let stream {
            if let forgettingDue { due.append(forgettingDue - now) }
            if let retry = stream.stepRetry {
                due.append(retry - now)
            } else if let deadline = stream.nextConnectedDeadline,
                let connected = account.connectedClock.connectedTime
            {
                let longest = longestUnstored(until: deadline, connected)
                due.append(min(deadline, stream.storedConnectedTime + longest) - connected)
            }
        }
        return due.min().map { max(.zero, $0) }
    }

    /// The time for which the lock of a fenced process is checked every second.
    private static let lockPatience = Duration.seconds(10)

    /// Neither a long turn nor a wait that took longer than planned counts against the server: the process was busy or frozen.
    private func skipFrozenTime(busy: Duration, waited: Duration, planned: Duration) {
        let wait = waited - planned >= ConnectedClock.frozenAfter ? waited : .zero
        let skipped = (busy >= ConnectedClock.frozenAfter ? busy : .zero) + wait
        if skipped > .zero { feed(.skipped(skipped)) }
    }

    private var isStepDue: Bool {
        guard let stream else { return false }
        if let retry = stream.stepRetry { return retry <= now }
        if stream.parserError != nil { return !stream.isLeaving }
        if stream.hasMore && stream.connection.canTakeMore { return true }
        guard let deadline = stream.nextConnectedDeadline,
            let connected = account.connectedClock.connectedTime
        else { return false }
        return deadline <= connected || stream.storedConnectedTime + ConnectedClock.storedEvery <= connected
    }

    // MARK: Reading

    /// The maximum number of bytes that a turn reads; the rest stays in the socket, whose window then holds the server
    /// back. Parsed, it takes some times the memory, of which a worker has little.
    private var readLimit: Int {
        if account.host != nil { return 64 * 1024 }
        return account.configuration.role == .worker ? 32 * 1024 : 256 * 1024
    }

    /// The bytes of the last read; kept, as growing a new buffer costs more than parsing it. Of many accounts each would keep one.
    private var input: [UInt8] = []

    private func receive() -> ArraySlice<StreamParser.Event> {
        hasRead = false
        guard let stream, !stream.isLeaving else { return [] }
        if !stream.unread.isEmpty {
            defer { stream.unread = [] }
            return stream.unread
        }
        input.removeAll(keepingCapacity: true)
        defer { if account.host != nil { input = [] } }
        hasRead = true
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
            if !input.isEmpty { feed(.heard) }
            let events = try stream.parser.parse(input)
            if events.contains(where: { $0 != .closed }) { try Failpoint.afterRead.hit() }
            // The end of the connection is met again at the next read, once these events are committed.
            if !isOpen && events.isEmpty {
                broke(AccountError(.connectionFailed, "\(stream.connection.peer) closed the connection"))
            }
            return events[...]
        } catch let error as StreamParserError {
            stream.parserError = error
            return error.events[...]
        } catch {
            broke(AccountError(.connectionFailed, "the connection broke: \(error)", cause: error))
        }
        return []
    }

    // MARK: Commands

    private func control(_ command: Command) {
        switch command {
        case .step: break
        case .connect(let retries, let completion): feed(.connect(caller(completion), retries: retries))
        case .networkChanged: feed(.networkChanged)
        case .tookOver(let purpose, let result): finishTakeOver(purpose, result)
        case .opened(let result, let attempt): finishOpening(result, attempt)
        case .suspend(let completion): feed(.suspend(caller(completion)))
        case .logOut(let completion): feed(.logOut(caller(completion)))
        case .catchUp(let completion): feed(.catchUp(caller(completion)))
        case .manage(.request, let completion): feed(.requestAck(caller(completion)))
        case .manage(.acknowledge, let completion): feed(.sendAck(caller(completion)))
        case .handOver: feed(.handOver)
        case .close(let completion): feed(.close(caller(completion)))
        }
    }

    func refuse(_ command: Command) {
        let error = AccountError(.closed, "the account was closed; make a new one")
        switch command {
        case .step(let step): step.finish(.failure(error))
        case .handOver, .networkChanged, .tookOver: break
        case .connect(_, let completion), .suspend(let completion), .logOut(let completion),
            .catchUp(let completion), .manage(_, let completion), .close(let completion):
            completion(.failure(error))
        case .opened(.success(.opened(let stream)), _): stream.connection.closeDirty()
        case .opened: break
        }
    }

    // MARK: Callers

    private var completions: [AccountMachine.Caller: Completion] = [:]
    private var lastCaller = 0

    private func caller(_ completion: @escaping Completion) -> AccountMachine.Caller {
        lastCaller += 1
        let caller = AccountMachine.Caller(number: lastCaller)
        completions[caller] = completion
        return caller
    }

    func finish(_ caller: AccountMachine.Caller, _ error: (any Error)?) {
        completions.removeValue(forKey: caller)?(error.map { .failure($0) } ?? .success(()))
    }
}
