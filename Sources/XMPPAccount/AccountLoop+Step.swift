import Handlers
import IQTracker
import XMPPCore
import XMPPTransport

// One step for the stanzas and commands that arrived together (group commit), and the actions after its COMMIT.
//
//     work     0 fence (OwnerStep), 1 to 5 for each stanza (InboundStep), then the commands; finish: 6 expire, 7 read the outbox
//     COMMIT
//     follow   AccountMachine takes over the counts; outbox rows and the ack are written; events are delivered
//
// docs/internals/architecture.md, "From COMMIT to the socket", says what a kill costs between two of these.
extension AccountLoop {
    /// The maximum number of requests that time out, and of stanzas that are sent, in one step.
    private static let batchLimit = 512

    /// The work of a step after its commit.
    fileprivate struct Aftermath {
        var inbound: InboundStep?
        var fault: StreamFault?
        /// The number of events processed.
        var taken = 0
        var results: [Result<Void, any Error>] = []
        var stanzas: [Outbox.Stanza] = []
        var nextConnectedDeadline: Duration?
        var hasOpenRequests = false
        var storedConnectedTime: Duration?

        mutating func record(_ progress: InboundStep.Progress) {
            if case .end(let fault) = progress { self.fault = fault }
        }
    }

    /// The time for which a step processes input before it commits: what one slow handler took must not wait for the next one.
    private var longestStep: Duration { account.host?.slice ?? .milliseconds(20) }

    /// What a step takes in, and what becomes of it.
    final class Intake {
        let events: ArraySlice<StreamParser.Event>
        let commands: [StepCommand]
        /// What came before stream management began, ahead of `events`.
        let uncounted: [StreamParser.Event]
        /// Whether a step with them has failed, so that a stanza that fails again is passed over.
        let isCareful: Bool
        fileprivate var aftermath = Aftermath()

        init(
            _ events: ArraySlice<StreamParser.Event>, _ commands: [StepCommand],
            _ uncounted: [StreamParser.Event], isCareful: Bool = false
        ) {
            (self.events, self.commands, self.uncounted) = (events, commands, uncounted)
            self.isCareful = isCareful
        }

        var hasArrivals: Bool { !events.isEmpty || !uncounted.isEmpty }

        /// Takes one element in.
        fileprivate func process(
            _ event: StreamParser.Event, isCounted: Bool = true, _ inbound: inout InboundStep,
            in step: borrowing Step
        ) throws {
            aftermath.record(
                isCareful
                    ? try inbound.processCarefully(event, isCounted: isCounted, in: step)
                    : try inbound.process(event, isCounted: isCounted, in: step))
        }
    }

    /// Takes in what arrived and was asked, in one step, or in several when handlers are slow.
    ///
    /// - Parameter uncounted: What came before stream management began, ahead of `events`.
    func runStep(
        _ events: ArraySlice<StreamParser.Event>, _ commands: [StepCommand],
        uncounted: [StreamParser.Event] = []
    ) {
        var next = startStep(events, commands, uncounted: uncounted)
        while let step = next {
            step.run()
            endStep()
            next = nil
            guard let stream, !stream.unread.isEmpty else { return }
            let unread = stream.unread
            stream.unread = []
            next = startStep(unread, [])
        }
    }

    /// Runs the step for what came before a control command. What it leaves comes with the next turn, or again from the server.
    func runStep(_ events: ArraySlice<StreamParser.Event>, _ commands: [StepCommand], before command: Command)
    {
        // Without stream management nothing comes again.
        guard machine.stream?.isManaged == true else { return runStep(events, commands) }
        startStep(events, commands)?.run()
        endStep()
        guard command.endsStream, let stream, !stream.unread.isEmpty else { return }
        stream.unread = []
        stream.isLeaving = true
    }

    /// Starts a step, which other accounts may share; ``endStep()`` ends it.
    ///
    /// - Returns: Nil when the step was given up.
    func startStep(
        _ events: ArraySlice<StreamParser.Event>, _ commands: [StepCommand],
        uncounted: [StreamParser.Event] = []
    ) -> GroupedStep? {
        let intake = Intake(answerAhead(events), commands, uncounted)
        if machine.isFenced, !commands.isEmpty {
            give(up: intake, AccountError.fenced)
            return nil
        }
        do {
            if BuiltInFault.splitCommit.isOn { try countApart(intake.events) }
            if BuiltInFault.ackBeforeCommit.isOn { try acknowledgeAhead(intake.events) }
        } catch {
            give(up: intake, error)
            react(to: error, while: .storing(hasArrivals: !events.isEmpty || !uncounted.isEmpty))
            return nil
        }
        return start(intake)
    }

    private func start(_ intake: Intake) -> GroupedStep {
        let grouped =
            if let ownership {
                ownership.step.grouped { [self] step in
                    try account.mailbox.asLoop { try work(intake, in: step) }
                }
            } else {
                GroupedStep(in: account.store) { [self] step in try workWithoutStream(intake, in: step) }
            }
        step = (intake, grouped)
        return grouped
    }

    private func give(up intake: Intake, _ error: any Error) {
        for command in intake.commands { command.finish(.failure(error)) }
    }

    /// Performs the actions after the commit of the started step, if there is one.
    func endStep() {
        guard let (intake, grouped) = step else { return }
        step = nil
        switch grouped.result {
        case .success:
            let aftermath = intake.aftermath
            stream?.stepRetry = nil
            for (command, result) in zip(intake.commands, aftermath.results) { command.finish(result) }
            follow(aftermath)
            guard aftermath.taken < intake.events.count, let stream else { return }
            // Whoever waits for the stream need not wait for all that was read: what is not counted comes again.
            stream.isLeaving = machine.stream?.isManaged == true && account.mailbox.isLeaving
            if !stream.isLeaving { stream.unread = intake.events.dropFirst(aftermath.taken) }
        case .failure(let error)
        where intake.hasArrivals && !intake.isCareful && InboundStep.isOfStanza(error):
            start(Intake(intake.events, intake.commands, intake.uncounted, isCareful: true)).run()
            endStep()
        case .failure(let error):
            give(up: intake, error)
            react(to: error, while: .storing(hasArrivals: intake.hasArrivals))
        case nil: break
        }
    }

    /// A question for our count that comes before any stanza is answered at once: it asks about what is committed already.
    private func answerAhead(_ events: ArraySlice<StreamParser.Event>) -> ArraySlice<StreamParser.Event> {
        guard events.count > 1, machine.stream?.isManaged == true, events.first?.asksForCount == true else {
            return events
        }
        feed(.ackRequested)
        return events.dropFirst()
    }

    /// The same for a question that comes alone: it needs no step.
    func answerAlone(_ events: ArraySlice<StreamParser.Event>) -> ArraySlice<StreamParser.Event> {
        guard events.count == 1, machine.stream?.isManaged == true, events.first?.asksForCount == true else {
            return events
        }
        feed(.ackRequested)
        return []
    }

    /// The step of a process that is not the owner: what its commands send waits in the outbox for a stream.
    private func workWithoutStream(_ intake: Intake, in step: borrowing Step) throws {
        // It may run a second time.
        intake.aftermath = Aftermath()
        for command in intake.commands {
            intake.aftermath.results.append(try attempt(command, in: step))
        }
    }

    /// The step itself; the numbers are those of the path at the top of Account.swift.
    private func work(_ intake: Intake, in step: borrowing Step) throws {
        // It may run a second time.
        intake.aftermath = Aftermath()
        if let stream, let rules = machine.stream {
            var inbound = account.inboundStep(
                own: stream.own, session: stream.session, isManaged: rules.isManaged,
                flushMark: stream.flushMark, now: now, management: rules.management)
            try inbound.findDeferred(now: now, in: step)
            // 1 to 5, for each element.
            for event in intake.uncounted where intake.aftermath.fault == nil {
                try intake.process(event, isCounted: false, &inbound, in: step)
            }
            let start = account.configuration.time.monotonic()
            for event in intake.events where intake.aftermath.fault == nil {
                try intake.process(event, &inbound, in: step)
                intake.aftermath.taken += 1
                if account.configuration.time.monotonic() - start >= longestStep { break }
            }
            let isAtEnd = intake.aftermath.taken == intake.events.count && !stream.isLeaving
            if intake.aftermath.fault == nil, isAtEnd, let error = stream.parserError {
                intake.aftermath.fault = try inbound.meetEndOfReading(error, in: step)
            }
            intake.aftermath.inbound = inbound
        }
        for command in intake.commands { intake.aftermath.results.append(try attempt(command, in: step)) }
        if let stream { try finish(&intake.aftermath, stream, in: step) }
    }

    /// Runs one command; its error is its own unless the store failed.
    private func attempt(_ command: StepCommand, in step: borrowing Step) throws -> Result<Void, any Error> {
        do {
            try step.undoingOnError { try command.run(step) }
            return .success(())
        } catch  where !step.isUsable {
            throw error
        } catch { return .failure(error) }
    }

    /// Timeouts, the count, and what goes to the socket next: the end of every step of an open stream.
    private func finish(_ aftermath: inout Aftermath, _ stream: OpenStream, in step: borrowing Step) throws {
        let connectedTime = account.connectedClock.connectedTime ?? .zero
        // 6. Expire.
        var nextDeadline = try account.requests.nextConnectedDeadline(in: step)
        if let deadline = nextDeadline, deadline <= connectedTime {
            try expire(connectedTime: connectedTime, in: step)
            nextDeadline = try account.requests.nextConnectedDeadline(in: step)
        }
        var openDeadline: Duration?
        if stream.hasOpenRequests || aftermath.inbound?.opensRequests == true {
            openDeadline = try refuseUnanswered(connectedTime: connectedTime, in: step)
            aftermath.hasOpenRequests = openDeadline != nil
        }
        let counted = machine.stream?.management.received
        if let received = aftermath.inbound?.management.received ?? counted,
            received != counted || stream.storedConnectedTime + ConnectedClock.storedEvery <= connectedTime
        {
            let stored = BuiltInFault.countAfterAck.isOn ? counted ?? received : received
            try account.sessions.advance(received: stored, connectedTime: connectedTime, in: step)
            aftermath.storedConnectedTime = connectedTime
        }
        // 7. Read the outbox.
        if stream.connection.canTakeMore {
            aftermath.stanzas = try account.outbox.next(
                session: stream.session, after: stream.flushMark, limit: Self.batchLimit, in: step)
        }
        if BuiltInFault.flushBeforeCommit.isOn { try flushAhead(&aftermath, on: stream) }
        aftermath.nextConnectedDeadline = [nextDeadline, openDeadline].compactMap(\.self).min()
    }

    /// Answers requests of others whose handler did not answer in time.
    ///
    /// - Returns: When the next one is due; nil when none is open.
    private func refuseUnanswered(connectedTime: Duration, in step: borrowing Step) throws -> Duration? {
        for request in try account.inboundRequests.claimExpired(
            connectedTime: connectedTime, limit: Self.batchLimit, in: step)
        {
            try account.acknowledge(request, in: step)
            try account.reply(InboundRequestTable.refusal(to: request).element, in: step)
        }
        return try account.inboundRequests.nextConnectedDeadline(in: step)
    }

    private func expire(connectedTime: Duration, in step: borrowing Step) throws {
        try account.requests.expire(
            connectedTime: connectedTime, limit: Self.batchLimit, environment: account, in: step
        ) { IQReply.timeout(of: $0, account: account) }
    }

    // MARK: After the commit

    private func follow(_ aftermath: Aftermath) {
        guard let stream, let inbound = aftermath.inbound else { return }
        if inbound.management.received != machine.stream?.management.received {
            account.configuration.onMilestone?(.handled)
        }
        do {
            stream.nextConnectedDeadline = aftermath.nextConnectedDeadline
            stream.hasOpenRequests = aftermath.hasOpenRequests
            stream.storedConnectedTime = aftermath.storedConnectedTime ?? stream.storedConnectedTime
            feed(.committed(inbound.management, isAnswer: inbound.acknowledgementsReceived > 0))
            try send(aftermath.stanzas, on: stream)
            if BuiltInFault.countAfterAck.isOn { try store(inbound.management.received) }
            for event in inbound.events { account.hub.send(event) }
            if let fault = aftermath.fault { broke(fault.error, endsSession: fault.endsSession) }
        } catch {
            react(to: error, while: .sending)
        }
    }

    /// Writes stanzas, the ack request after them and our count, all in one record of TLS: the server wakes once.
    private func send(_ stanzas: [Outbox.Stanza], on stream: OpenStream) throws {
        stream.hasMore = stanzas.count == Self.batchLimit || !stream.connection.canTakeMore
        if let last = stanzas.last {
            ownership?.willWrite(upTo: last.seq)
            for stanza in stanzas { stream.connection.write(stanza.xml) }
            stream.flushMark = last.seq
        }
        feed(.wrote(stanzas: stanzas.count))
        guard !stanzas.isEmpty else { return try flushAck() }
        _ = try stream.connection.flush()
        try Failpoint.afterWrite.hit()
        try flushAck()
    }

    /// Without stream management there are no acks: a stanza counts as sent once the socket has it.
    func forget(_ stream: OpenStream) throws {
        guard stream.flushMark > stream.forgottenMark else { return }
        let handlers = try owner.run { step in
            let handlers = try account.outbox.forget(
                session: stream.session, upTo: stream.flushMark, in: step)
            for handler in handlers {
                try step.invalidateAlone(handler, reason: .neverAcknowledged, environment: account)
            }
            return handlers
        }
        stream.forgottenMark = stream.flushMark
        // An invalidation may have sent something.
        if !handlers.isEmpty { stream.hasMore = true }
    }

    // MARK: Faults built in on purpose

    /// `BuiltInFault.splitCommit`: commits, and acknowledges, the count before the handlers ran.
    private func countApart(_ events: ArraySlice<StreamParser.Event>) throws {
        if let count = countAhead(events) { try store(count) }
    }

    /// `BuiltInFault.ackBeforeCommit`: acknowledges stanzas that no step has stored.
    private func acknowledgeAhead(_ events: ArraySlice<StreamParser.Event>) throws {
        guard let stream, let count = countAhead(events) else { return }
        stream.writeAck(count)
        _ = try stream.connection.flush()
    }

    /// The count after stanzas that no step has processed; nil without any.
    private func countAhead(_ events: ArraySlice<StreamParser.Event>) -> HandledCount? {
        guard let rules = machine.stream, rules.isManaged else { return nil }
        let stanzas = events.count(where: \.isStanza)
        return stanzas > 0 ? rules.management.received + stanzas : nil
    }

    private func store(_ count: HandledCount) throws {
        try account.store.step { step in
            try account.sessions.advance(
                received: count, connectedTime: account.connectedClock.connectedTime ?? .zero, in: step)
        }
    }

    /// `BuiltInFault.flushBeforeCommit`: writes stanzas inside the step that stores them.
    private func flushAhead(_ aftermath: inout Aftermath, on stream: OpenStream) throws {
        for stanza in aftermath.stanzas { stream.connection.write(stanza.xml) }
        stream.flushMark = aftermath.stanzas.last?.seq ?? stream.flushMark
        aftermath.stanzas = []
        _ = try stream.connection.flush()
    }
}

extension StreamParser.Event {
    /// Whether it is a question for our count (XEP-0198 section 4).
    fileprivate var asksForCount: Bool {
        if case .element(let element) = self {
            element.has(name: "r", namespace: Namespaces.sm)
        } else {
            false
        }
    }
}
