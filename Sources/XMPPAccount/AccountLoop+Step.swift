import Handlers
import XMPPCore
import XMPPTransport

// One step for everything that arrived and was asked together (group commit), and what follows its commit.
extension AccountLoop {
    /// How many requests may time out, and how many stanzas may be taken to the socket, in one step.
    private static let batchLimit = 512

    /// What a step leaves to be done after its commit.
    private struct Aftermath {
        var inbound: InboundStep?
        var fault: StreamFault?
        /// How many of the events were taken in.
        var taken = 0
        var results: [Result<Void, any Error>] = []
        var stanzas: [Outbox.Stanza] = []
        var nextDeadline: Int64?
        var hasOpenRequests = false
        var storedLiveTime: Int64?
    }

    /// How long a step may take things in before it commits them, in milliseconds: what one slow handler took must not wait
    /// for the next one.
    private static let longStep: Int64 = 20

    /// Takes in what arrived and was asked, in one step, or in several when handlers are slow.
    ///
    /// - Parameter uncounted: What came before stream management began, ahead of `events`.
    func runStep(
        _ events: [StreamParser.Event], _ commands: [StepCommand], uncounted: [StreamParser.Event] = []
    ) {
        guard !isFenced || commands.isEmpty else {
            let error = fencedError
            return commands.forEach { $0.finish(.failure(error)) }
        }
        var rest = answerAhead(events[...])
        var taken = runOneStep(rest, commands, uncounted)
        while let count = taken, count < rest.count, case .live(let stream) = phase {
            // Whoever waits for the stream need not wait for all that was read: what is not counted comes again.
            stream.isLeaving = stream.isManaged && account.mailbox.isLeaving
            if stream.isLeaving { return }
            rest = answerAhead(rest.dropFirst(count))
            taken = runOneStep(rest, [], [])
        }
    }

    /// A question for our count that comes before any stanza is answered at once: it asks about what is committed already.
    private func answerAhead(_ events: ArraySlice<StreamParser.Event>) -> ArraySlice<StreamParser.Event> {
        guard case .live(let stream) = phase, stream.isManaged, events.count > 1,
            case .element(let element) = events.first, element.has(name: "r", namespace: Namespaces.sm)
        else { return events[...] }
        stream.management.receiveRequest(now: now)
        tellAndAsk(stream)
        return events.dropFirst()
    }

    /// - Returns: How many of the events were taken in; nil when the step was given up.
    private func runOneStep(
        _ events: ArraySlice<StreamParser.Event>, _ commands: [StepCommand],
        _ uncounted: [StreamParser.Event]
    ) -> Int? {
        do {
            if Mutation.splitCommit.isOn { try countApart(events) }
            let aftermath = try account.store.step { step in
                try work(uncounted, events, commands, in: step)
            }
            stepRetry = nil
            for (command, result) in zip(commands, aftermath.results) { command.finish(result) }
            follow(aftermath)
            return aftermath.taken
        } catch {
            for command in commands { command.finish(.failure(error)) }
            giveUp(error, hasArrivals: !events.isEmpty || !uncounted.isEmpty)
            return nil
        }
    }

    /// The step itself; the numbers are those of the path at the top of Account.swift.
    private func work(
        _ uncounted: [StreamParser.Event], _ events: ArraySlice<StreamParser.Event>,
        _ commands: [StepCommand], in step: borrowing Step
    ) throws -> Aftermath {
        var aftermath = Aftermath()
        // 0. Fence.
        if let ownership { try account.ownerships.check(epoch: ownership.epoch, in: step) }
        if case .live(let stream) = phase {
            var inbound = inboundStep(stream)
            try inbound.findDeferred(now: now, in: step)
            // 1 to 4, for each element.
            for event in uncounted { try inbound.process(event, isCounted: false, in: step) }
            let begin = now
            for event in events where aftermath.fault == nil {
                do {
                    try inbound.process(event, in: step)
                } catch let fault as StreamFault {
                    // What was taken in before the fault stands and is committed.
                    aftermath.fault = fault
                }
                aftermath.taken += 1
                if now - begin >= Self.longStep { break }
            }
            let isAtEnd = aftermath.taken == events.count
            if aftermath.fault == nil, isAtEnd, let error = stream.parserError {
                aftermath.fault = try inbound.meetEndOfReading(error, in: step)
            }
            aftermath.inbound = inbound
        }
        for command in commands { aftermath.results.append(try attempt(command, in: step)) }
        if case .live(let stream) = phase { try finish(&aftermath, stream, in: step) }
        return aftermath
    }

    private func inboundStep(_ stream: LiveStream) -> InboundStep {
        InboundStep(
            account: account, own: stream.own, session: stream.session, isManaged: stream.isManaged,
            flushMark: stream.flushMark, now: now, management: stream.management)
    }

    /// Runs one command; its error is its own unless the store failed.
    private func attempt(_ command: StepCommand, in step: borrowing Step) throws -> Result<Void, any Error> {
        do {
            try step.undoingOnError { try command.run(step) }
            return .success(())
        } catch let error as HandlerError where error.isStorageFailure {
            throw error
        } catch {
            return .failure(error)
        }
    }

    /// Timeouts, the count, and what goes to the socket next: the end of every step of a live stream.
    private func finish(_ aftermath: inout Aftermath, _ stream: LiveStream, in step: borrowing Step) throws {
        let liveTime = account.liveClock.milliseconds ?? 0
        try expire(liveTime: liveTime, in: step)
        var openDeadline: Int64?
        if stream.hasOpenRequests || aftermath.inbound?.opensRequests == true {
            openDeadline = try refuseUnanswered(liveTime: liveTime, in: step)
            aftermath.hasOpenRequests = openDeadline != nil
        }
        let received = aftermath.inbound?.management.received ?? stream.management.received
        if received != stream.management.received || stream.storedLiveTime + LiveClock.storedEvery <= liveTime
        {
            try account.sessions.advance(received: received, liveTime: liveTime, in: step)
            aftermath.storedLiveTime = liveTime
        }
        if stream.connection.canTakeMore {
            aftermath.stanzas = try account.outbox.next(
                session: stream.session, after: stream.flushMark, limit: Self.batchLimit, in: step)
        }
        aftermath.nextDeadline = [try account.requests.nextDeadline(in: step), openDeadline]
            .compactMap(\.self).min()
    }

    /// Answers those requests of others that nobody has answered in time.
    ///
    /// - Returns: When the next one is due; nil when none is open.
    private func refuseUnanswered(liveTime: Int64, in step: borrowing Step) throws -> Int64? {
        for request in try account.inboundRequests.takeExpired(
            liveTime: liveTime, limit: Self.batchLimit, in: step)
        {
            try account.markHandled(request, in: step)
            try account.reply(InboundRequestTable.refusal(to: request).element, in: step)
        }
        return try account.inboundRequests.nextDeadline(in: step)
    }

    /// Ends requests whose time ran out with an error of our own making, from the address that was asked.
    private func expire(liveTime: Int64, in step: borrowing Step) throws {
        for request in try account.requests.takeExpired(liveTime: liveTime, limit: Self.batchLimit, in: step)
        where try step.waits(request.handler) {
            try Failpoint.beforeTimeout.hit()
            guard request.timeoutPolicy == .call else {
                try step.invalidate(request.handler, reason: .timedOut, environment: account)
                continue
            }
            let peer = request.peer ?? account.configuration.jid
            let error = StanzaError(.remoteServerTimeout)
            let iq = IQ(type: .error, from: peer, id: request.stanzaID, payload: error.element)
            let context = IQReply(account: account, iq: iq, outcome: .timeout)
            try step.end(request.handler, .timeout, with: context)
        }
    }

    // MARK: After the commit

    private func follow(_ aftermath: Aftermath) {
        guard case .live(let stream) = phase, let inbound = aftermath.inbound else { return }
        if inbound.management.received != stream.management.received {
            account.configuration.onMilestone?(.handled)
        }
        do {
            stream.management = inbound.management
            stream.nextDeadline = aftermath.nextDeadline
            stream.hasOpenRequests = aftermath.hasOpenRequests
            stream.storedLiveTime = aftermath.storedLiveTime ?? stream.storedLiveTime
            // Before anything is written, so that the next question goes out together with what it asks about.
            if inbound.acknowledgementsReceived > 0 { caughtUp(stream) }
            try send(aftermath.stanzas, on: stream)
            for event in inbound.events { account.hub.send(event) }
            if let fault = aftermath.fault { end(stream, fault) }
        } catch {
            drop(AccountError(.connectionFailed, "the connection broke: \(error)", cause: error))
        }
    }

    /// Asks for the count again when stanzas were written, or callers came, after the last ack request.
    func requestAgain(_ stream: LiveStream) {
        guard stream.isManaged, stream.management.requestedAt == nil,
            !stream.barriers.isEmpty || stream.management.isRequestDue(now: now)
        else { return }
        request(stream)
    }

    /// Stanzas, the question behind them and our count, all in one record of TLS: the server wakes once.
    private func send(_ stanzas: [Outbox.Stanza], on stream: LiveStream) throws {
        write(stanzas, to: stream)
        requestAgain(stream)
        let isTelling = stream.isManaged && stream.management.isAcknowledgementDue(now: now)
        if isTelling { try tell(stream) }
        guard isTelling || !stanzas.isEmpty else { return }
        _ = try stream.connection.flush()
        if !stanzas.isEmpty { try Failpoint.afterWrite.hit() }
        if isTelling { try Failpoint.afterAcknowledge.hit() }
    }

    private func write(_ stanzas: [Outbox.Stanza], to stream: LiveStream) {
        stream.hasMore = stanzas.count == Self.batchLimit || !stream.connection.canTakeMore
        guard let last = stanzas.last else { return }
        ownership?.willWrite(upTo: last.seq)
        for stanza in stanzas { stream.connection.write(stanza.xml) }
        stream.flushMark = last.seq
        if stream.isManaged { stream.management.didWrite(stanzas.count, now: now) }
    }

    /// Without stream management nobody will acknowledge: that the socket took it is all that can be known.
    func forget(_ stream: LiveStream) throws {
        guard stream.flushMark > stream.forgottenMark else { return }
        let handlers = try fenced { step in
            let handlers = try account.outbox.forget(
                session: stream.session, upTo: stream.flushMark, in: step)
            for handler in handlers {
                try step.invalidate(handler, reason: .neverAcknowledged, environment: account)
            }
            return handlers
        }
        stream.forgottenMark = stream.flushMark
        // An invalidation may have sent something.
        if !handlers.isEmpty { stream.hasMore = true }
    }

    private func acknowledge(_ stream: LiveStream) throws {
        try tell(stream)
        _ = try stream.connection.flush()
        try Failpoint.afterAcknowledge.hit()
    }

    private func tell(_ stream: LiveStream) throws {
        try Failpoint.beforeAcknowledge.hit()
        ownership?.willTell(stream.management.handled, of: stream.session)
        stream.acknowledge()
    }

    func request(_ stream: LiveStream) {
        stream.requestAcknowledgement(now: now)
        account.hub.send(.acknowledgementRequested)
    }

    /// What the policy says is due by now.
    func tellAndAsk(_ stream: LiveStream) {
        guard stream.isManaged else { return }
        if stream.management.isRequestDue(now: now) { request(stream) }
        guard stream.management.isAcknowledgementDue(now: now) else { return }
        do {
            // Outside of a step nothing else says whether this process may still speak for the account.
            try fenced { _ in }
            try acknowledge(stream)
        } catch let error as AccountError where error.code == .ownershipLost {
            loseOwnership(error)
        } catch is HandlerError {
            // Told with the next step.
        } catch {
            drop(AccountError(.connectionFailed, "the connection broke: \(error)", cause: error))
        }
    }

    /// What the program asked for, whatever the policy says.
    func manage(_ action: ManagementAction) throws {
        guard case .live(let stream) = phase, stream.isManaged else {
            throw AccountError(
                .connectionFailed,
                "there is no stream with stream management; connect to a server that has it")
        }
        switch action {
        case .request: request(stream)
        case .acknowledge:
            // Another process may have marked deferred stanzas.
            if stream.management.hasDeferred { runStep([], []) }
            try fenced { _ in }
            try acknowledge(stream)
        }
    }

    /// The server answered an ack request.
    func caughtUp(_ stream: LiveStream) {
        stream.management.didReceiveAnswer()
        stream.keepAlive.didReceiveAnswer(now: now)
        stream.hasCaughtUp = true
        reconnection.heard()
        let waiting = stream.barriers
        (stream.barriers, stream.nextBarriers) = (stream.nextBarriers, [])
        waiting.forEach { $0(.success(())) }
    }

    private func end(_ stream: LiveStream, _ fault: StreamFault) {
        if fault.endsSession {
            complain(fault, on: stream.connection)
            giveUpSession()
        }
        drop(fault.error)
    }

    /// XEP-0198 section 4: tells the server what was wrong with its count.
    func complain(_ fault: StreamFault, on connection: Connection) {
        guard let counts = fault.error.cause as? HandledCountError else { return }
        let condition = Element(
            "handled-count-too-high", namespace: Namespaces.sm,
            attributes: ["h": counts.claimed.description, "send-count": counts.sent.description])
        let error = StreamError(.undefinedCondition, applicationCondition: condition)
        connection.write(Serializer().bytes(error.element) + Serializer.streamEnd)
        _ = try? connection.flush()
    }

    /// How long the loop waits before it tries a step again that could not be committed, in milliseconds.
    private static let stepRetryDelay: Int64 = 500

    /// The step could not be committed: if anything had arrived in it, the server must send that again.
    private func giveUp(_ error: any Error, hasArrivals: Bool) {
        if let error = error as? AccountError, error.code == .ownershipLost { return loseOwnership(error) }
        guard hasArrivals else {
            stepRetry = now + Self.stepRetryDelay
            return
        }
        drop(
            AccountError(
                .connectionFailed,
                "what arrived could not be stored: \(error); the server will send it again", cause: error))
    }

    // MARK: A fault built in on purpose

    /// `Mutation.splitCommit`: commits, and acknowledges, the count before the handlers ran. A kill in between loses
    /// what was counted, which the kill tests must notice.
    private func countApart(_ events: ArraySlice<StreamParser.Event>) throws {
        guard case .live(let stream) = phase, stream.isManaged else { return }
        let stanzas = events.count(where: \.isStanza)
        guard stanzas > 0 else { return }
        let count = stream.management.received + stanzas
        try account.store.step { step in
            try account.sessions.advance(
                received: count, liveTime: account.liveClock.milliseconds ?? 0, in: step)
        }
    }
}
