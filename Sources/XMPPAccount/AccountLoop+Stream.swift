import Handlers
import XMPPCore
import XMPPTransport

// Opening a stream, and committing its session: resumed or bound.
extension AccountLoop {
    /// OpenSSL takes some milliseconds until TLS can start for the first time. They pass while the account is taken over and
    /// that is written to the disk.
    func prepareTLS() {
        if account.configuration.usedNetwork.isSimulated { return }
        // The accounts of a host share a context, which the first of them has prepared.
        if loginMemory.hasContext(for: account.configuration) { return }
        preparation = try? WorkerThread("account TLS", blocksSignals: true) {
            [loginMemory, configuration = account.configuration] in
            // A failure is met again, and reported, when the stream is opened.
            _ = try? loginMemory.context(for: configuration)
        }
    }

    func open(_ attempt: Int) {
        do {
            let opener = StreamOpener(
                configuration: account.configuration,
                login: StoredLogin(account: account, owner: try owner), memory: loginMemory,
                resource: "\(account.configuration.resourcePrefix).\(StanzaID.random().prefix(12))",
                derivations: account.host?.derivations)
            let (events, mailbox, gate) = (events, account.mailbox, account.host?.gate)
            let server = ServerPlace(account.configuration)
            openers[attempt] = Task(executorPreference: events) {
                let result: Result<StreamOpener.Opening, any Error>
                do {
                    try await gate?.enter(server)
                    defer { gate?.leave(server) }
                    result = .success(try await opener.open(on: events))
                } catch {
                    result = .failure(error)
                }
                let isTaken = mailbox.post(.opened(result, attempt: attempt))
                if !isTaken, case .success(.opened(let stream)) = result { stream.connection.closeDirty() }
            }
        } catch {
            feed(.openingFailed(attempt: attempt, error))
        }
    }

    func finishOpening(_ result: Result<StreamOpener.Opening, any Error>, _ attempt: Int) {
        openers[attempt] = nil
        switch result {
        case .failure(let error): feed(.openingFailed(attempt: attempt, error))
        case .success(.wait(let time)): feed(.postponed(attempt: attempt, time))
        case .success(.opened(let opened)):
            self.opened = opened
            feed(.opened(attempt: attempt))
        }
    }

    // MARK: Starting

    func start(_ attempt: Int) {
        guard let opened else { return }
        self.opened = nil
        do {
            guard let fault = try start(opened) else { return }
            // The session is given up; without it the next attempt binds a new one.
            complain(fault, on: opened.connection)
            opened.connection.closeDirty()
            feed(.sessionRefused)
        } catch {
            opened.connection.closeDirty()
            feed(.openingFailed(attempt: attempt, error))
        }
    }

    /// Commits the outcome of opening a stream; only then may anything be sent on it.
    ///
    /// - Returns: Why the session that was resumed is of no use; it is given up then.
    private func start(_ opened: OpenedStream) throws -> StreamFault? {
        if case .bound(_, let failed) = opened.outcome { try settleLostSession(failed) }
        // The same for handlers with a timeout in this account's scope.
        let started = try account.runner.setConnected(in: account.scope) { startTime in
            try owner.run { step in
                try account.logins.learn(opened.learned, in: step)
                let started =
                    switch opened.outcome {
                    case .resumed(let h): try resume(h, in: step)
                    case .bound(let session, _): try bind(session, in: step)
                    }
                try startTime(step)
                return started
            }
        }
        if let fault = started.fault {
            try? account.runner.setConnected(false, in: account.scope)
            return fault
        }
        switch opened.outcome {
        case .resumed: try Failpoint.afterResumed.hit()
        case .bound: try Failpoint.afterBound.hit()
        }
        let state = started.state
        guard let own = state.fullJID else {
            throw AccountError(.protocolViolation, "the session has no address; a new one is bound")
        }
        account.connectedClock.start(at: state.connectedTime)
        stream = OpenStream(opened, state: state, own: own, hasClientState: started.hasClientState)
        let rules = rules(of: opened, state)
        opened.connection.limitUnacknowledged(toMilliseconds: rules.keepAlive.timeout.milliseconds)
        account.configuration.onMilestone?(rules.isResumed ? .resumed : .bound)
        announce(opened.outcome, own)
        for event in started.events { account.hub.send(event) }
        for answer in opened.answers { account.hub.send(.streamManagementAnswered(answer)) }
        feed(.started(rules))
        if opened.uncounted.isEmpty, machine.stream?.isManaged == true {
            // The step of this turn takes it in, which other accounts may share. What a command leaves of it comes again.
            stream?.unread = opened.early[...]
            stream?.hasMore = true
        } else {
            runStep(opened.early[...], [], uncounted: opened.uncounted)
        }
        return nil
    }

    private func rules(of opened: OpenedStream, _ state: SessionTable.State) -> StreamRules {
        let isResumed = if case .resumed = opened.outcome { true } else { false }
        return StreamRules(
            peer: "\(opened.connection.peer)", isManaged: state.isManaged, isResumed: isResumed,
            management: state.management(account.acknowledgements),
            keepAlive: KeepAlive(
                interval: keepAliveInterval,
                timeout: account.configuration.acknowledgementTimeout,
                openedAt: now),
            now: now)
    }

    /// A session as it was committed when its stream was opened.
    private struct Started {
        var state: SessionTable.State
        /// Whether the server wants to know if the client is looked at.
        var hasClientState = false
        /// Events of the commit, to be sent after those that announce the stream.
        var events: [AccountEvent] = []
        /// The reason why the session is unusable; the other values are then invalid.
        var fault: StreamFault?
    }

    private func announce(_ outcome: StreamOpener.Outcome, _ own: JID) {
        switch outcome {
        case .resumed: account.hub.send(.resumed(own))
        case .bound(let session, _):
            account.hub.send(.bound(own))
            guard session.isManaged else { return account.hub.send(.notEnabled(session.refusal)) }
            let window = session.window
            account.hub.send(.enabled(window: session.resumptionID == nil ? .zero : window))
        }
    }

    /// XEP-0198 section 5: the count of `<resumed/>` acknowledges; the rest is sent again, in order, and counts once.
    private func resume(_ h: HandledCount, in step: borrowing Step) throws -> Started {
        let state = try account.sessions.load(in: step)
        account.assigned.withLock { $0 = state.fullJID?.bare }
        var inbound = account.inboundStep(
            own: state.fullJID ?? account.configuration.jid, session: state.number, now: now,
            management: state.management(account.acknowledgements))
        let claimed = BuiltInFault.resendAcknowledged.isOn ? state.acknowledged : h
        if let fault = try inbound.acknowledge(claimed, in: step) {
            // The counts contradict each other: nothing sent in this session can be trusted to have arrived.
            try account.sessions.lose(in: step)
            return Started(state: state, fault: fault)
        }
        if BuiltInFault.dropUnacknowledged.isOn {
            _ = try account.outbox.forget(session: state.number, upTo: .max, in: step)
        }
        // What the server has not counted it has not taken, so the counts are none the less right without it.
        let refused = try account.removeRefused(in: step)
        try account.sessions.resume(in: step)
        try adopt(session: state.number, in: step)
        try account.startModules(.stream, in: step)
        return try loaded(inbound.events + refused, in: step)
    }

    private func bind(_ session: BoundSession, in step: borrowing Step) throws -> Started {
        try account.sessions.start(session, in: step)
        account.assigned.withLock { $0 = session.fullJID.bare }
        let started = try loaded(account.removeRefused(in: step), in: step)
        try adopt(session: started.state.number, in: step)
        if let features = session.features { try account.showModules(features, in: step) }
        try account.startModules(.session, in: step)
        return started
    }

    private func loaded(_ events: [AccountEvent], in step: borrowing Step) throws -> Started {
        Started(
            state: try account.sessions.load(in: step),
            hasClientState: try account.logins.hasClientState(in: step), events: events)
    }

    /// Adds the stanzas that no session has carried to this session, after those that it carries already.
    private func adopt(session: Int64, in step: borrowing Step) throws {
        try account.outbox.adopt(session: session, in: step)
        try account.requests.adopt(session: session, in: step)
    }
}
