import Handlers
import XMPPCore
import XMPPTransport

// The life of a stream: opened, resumed or bound, broken, given back.
extension AccountLoop {
    // MARK: Opening

    /// - Parameter retries: Whether failures of the first attempts are followed by further ones.
    func connect(retries: Bool, _ completion: @escaping Completion) {
        if case .live = phase { return completion(.success(())) }
        prepare()
        if retries {
            isEstablished = true
            retrying.append(completion)
            reconnection.reset()
            if case .opening = phase { return }
            return reopen()
        }
        do {
            try takeOwnership()
        } catch {
            return completion(.failure(error))
        }
        connecting.append(completion)
        reconnection.reset()
        switch phase {
        case .idle, .waiting: openStream()
        case .opening, .live: break
        }
    }

    /// OpenSSL takes some milliseconds until TLS can begin for the first time. They pass while the account is taken over and
    /// that is written to the disk.
    private func prepare() {
        guard preparation == nil else { return }
        preparation = try? WorkerThread("account TLS", blocksSignals: true) {
            [loginMemory, configuration = account.configuration] in
            // A failure is met again, and told, when the stream is opened.
            _ = try? loginMemory.context { () throws(TransportError) in try configuration.tlsContext() }
        }
    }

    func takeOwnership() throws {
        guard ownership == nil else { return }
        ownership = try Ownership.take(
            account.ownerships, store: account.store, role: account.configuration.role,
            owner: "\(account.configuration.role.rawValue)", silence: account.configuration.ownerSilence,
            handOver: { [mailbox = account.mailbox] in _ = mailbox.post(.handOver) })
        isFenced = false
        ownedAt = now
        if let file = ownership?.narrowedFile {
            account.configuration.note(.warning, .session, PrivateFile.narrowed(file))
        }
        account.configuration.onMilestone?(.owned)
    }

    func openStream() {
        attempts += 1
        let attempt = attempts
        do {
            let interrupt = try WakeSignal()
            phase = .opening(attempt: attempt, interrupt: interrupt)
            let opener = StreamOpener(
                configuration: account.configuration,
                login: StoredLogin(account: account, owner: try owner), memory: loginMemory,
                resource: "\(account.configuration.resourcePrefix).\(StanzaID.random().prefix(12))")
            let mailbox = account.mailbox
            openers[attempt] = try WorkerThread("account opening") {
                let result = Result { try opener.open(interrupt: interrupt.fileDescriptor) }
                let isTaken = mailbox.post(.opened(result, attempt: attempt))
                if !isTaken, case .success(let stream) = result { stream.connection.closeDirty() }
            }
        } catch {
            failed(error)
        }
    }

    func opened(_ result: Result<OpenedStream, any Error>, attempt: Int) {
        openers.removeValue(forKey: attempt)?.join()
        guard case .opening(let current, _) = phase, current == attempt else {
            if case .success(let stream) = result { stream.connection.closeDirty() }
            return
        }
        do {
            let opened = try result.get()
            do {
                guard let fault = try begin(opened) else { return }
                // The session is given up; without it the next attempt binds a new one.
                complain(fault, on: opened.connection)
                opened.connection.closeDirty()
                openStream()
            } catch {
                opened.connection.closeDirty()
                throw error
            }
        } catch {
            failed(error)
        }
    }

    /// Commits the outcome of opening a stream; only then may anything be sent on it.
    ///
    /// - Returns: Why the session that was resumed is of no use; it is given up then.
    private func begin(_ opened: OpenedStream) throws -> StreamFault? {
        let begun =
            switch opened.outcome {
            case .resumed(let handled): try resume(handled, learned: opened.learned)
            case .bound(let session, let failed): try bind(session, failed: failed, learned: opened.learned)
            }
        if let fault = begun.fault { return fault }
        let state = begun.state
        guard let own = state.fullJID else {
            throw AccountError(.protocolViolation, "the session has no address; a new one is begun")
        }
        account.liveClock.start(at: state.liveTime)
        // The same for handlers with a timeout in this account's scope. When the store fails, they come late.
        try? account.runner.startLiveTime(of: account.scope)
        reconnection.trusted()
        isHinted = false
        let stream = LiveStream(
            opened, state: state, own: own, policy: account.acknowledgements,
            hasClientState: begun.hasClientState,
            keepAlive: KeepAlive(
                interval: keepAliveInterval, timeout: account.configuration.acknowledgementTimeout,
                openedAt: now),
            now: now)
        stream.parserError = opened.parserError
        phase = .live(stream)
        account.configuration.onMilestone?(stream.isResumed ? .resumed : .bound)
        announce(opened.outcome, own)
        for answer in opened.answers { account.hub.send(.streamManagementAnswered(answer)) }
        isEstablished = true
        let waiting = connecting + retrying
        (connecting, retrying) = ([], [])
        waiting.forEach { $0(.success(())) }
        let behind = catchingUp
        catchingUp = []
        behind.forEach(catchUp)
        stepRetry = nil
        runStep(opened.early, [], uncounted: opened.uncounted)
        return nil
    }

    /// A session as it was committed when its stream was opened.
    private struct Begun {
        var state: SessionTable.State
        /// Whether the server wants to know if the client is looked at.
        var hasClientState = false
        /// Why the session is of no use; nothing else holds then.
        var fault: StreamFault?
    }

    private func announce(_ outcome: StreamOpener.Outcome, _ own: JID) {
        defer {
            arrivals.forEach(account.hub.send)
            arrivals = []
        }
        switch outcome {
        case .resumed: account.hub.send(.resumed(own))
        case .bound(let session, _):
            account.hub.send(.bound(own))
            guard session.isManaged else { return account.hub.send(.notEnabled(session.refusal)) }
            let window = session.window.map { Duration.seconds($0) }
            account.hub.send(.enabled(window: session.resumptionID == nil ? .zero : window))
        }
    }

    /// XEP-0198 section 5: the count of `<resumed/>` acknowledges; the rest is sent again, in order, and counts once.
    private func resume(_ handled: HandledCount, learned: LearnedLogin) throws -> Begun {
        let begun = try owner.run { step in
            try account.logins.learn(learned, in: step)
            let state = try account.sessions.load(in: step)
            var inbound = InboundStep(
                account: account, own: state.fullJID ?? account.configuration.jid, session: state.number,
                isManaged: true, flushMark: .max, now: now,
                management: state.management(account.acknowledgements))
            if let fault = try inbound.acknowledge(handled, in: step) {
                // The counts contradict each other: nothing sent in this session can be trusted to have arrived.
                try account.sessions.lose(in: step)
                return Begun(state: state, fault: fault)
            }
            // What the server has not counted it has not taken, so the counts are none the less right without it.
            let refused = try account.takeOutRefused(in: step)
            try account.sessions.resume(in: step)
            try adopt(session: state.number, in: step)
            try account.beginModules(.stream, in: step)
            arrivals = inbound.events + refused
            return try loaded(in: step)
        }
        if begun.fault == nil { try Failpoint.afterResumed.hit() }
        return begun
    }

    private func bind(
        _ session: BoundSession, failed: StreamOpener.FailedResumption?, learned: LearnedLogin
    ) throws -> Begun {
        try settleLostSession(failed)
        let begun = try owner.run { step in
            try account.logins.learn(learned, in: step)
            try account.sessions.begin(session, in: step)
            let begun = try loaded(in: step)
            arrivals = try account.takeOutRefused(in: step)
            try adopt(session: begun.state.number, in: step)
            if let features = session.features { try account.showModules(features, in: step) }
            try account.beginModules(.session, in: step)
            return begun
        }
        try Failpoint.afterBound.hit()
        return begun
    }

    private func loaded(in step: borrowing Step) throws -> Begun {
        Begun(
            state: try account.sessions.load(in: step),
            hasClientState: try account.logins.hasClientState(in: step))
    }

    /// Stanzas that no session has carried go with this one, behind what it carries already.
    private func adopt(session: Int64, in step: borrowing Step) throws {
        try account.outbox.adopt(session: session, in: step)
        try account.requests.adopt(session: session, in: step)
    }

    // MARK: Ending

    /// Ends the connection as a broken line would.
    ///
    /// - Returns: The session's live time, to be committed.
    @discardableResult
    private func leave(_ stream: LiveStream) -> Int64 {
        stream.connection.closeDirty()
        catchingUp += stream.takeBarriers()
        let liveTime = account.liveClock.milliseconds ?? 0
        account.liveClock.stop()
        try? account.runner.stopLiveTime(of: account.scope)
        phase = .idle
        return liveTime
    }

    func close(_ stream: LiveStream) {
        let liveTime = leave(stream)
        do {
            try owner.run { step in try account.sessions.suspend(liveTime: liveTime, in: step) }
        } catch {
            react(to: error, while: .closing)
        }
    }

    /// Closes the connection so that the session can be resumed, and gives ownership back.
    @discardableResult
    func suspend() -> Result<Void, any Error> {
        let error = AccountError(.closed, "the account was suspended")
        var liveTime: Int64?
        switch phase {
        case .opening(_, let interrupt): interrupt.raise()
        case .live(let stream):
            if stream.isManaged {
                ownership?.willTell(stream.management.handled, of: stream.session)
                stream.acknowledge()
            }
            _ = try? stream.connection.flush(until: .after(.milliseconds(100)))
            liveTime = leave(stream)
        case .idle, .waiting: break
        }
        phase = .idle
        failWaiting(error)
        guard let liveTime else { return releaseOwnership() }
        let result = releaseOwnership { [account] step in
            try account.sessions.suspend(liveTime: liveTime, in: step)
        }
        if case .failure(let error as AccountError) = result, error.code == .ownershipLost {
            loseOwnership(error)
            return .success(())
        }
        return result
    }

    /// There will be no stream: nobody waits for one any longer.
    func failWaiting(_ error: any Error) {
        isEstablished = false
        let waiting = connecting + retrying + catchingUp
        (connecting, retrying, catchingUp) = ([], [], [])
        waiting.forEach { $0(.failure(error)) }
    }

    @discardableResult
    func releaseOwnership(
        _ last: ((borrowing Step) throws -> Void)? = nil
    ) -> Result<Void, any Error> {
        guard let ownership else { return .success(()) }
        self.ownership = nil
        defer { account.configuration.onMilestone?(.released) }
        return Result { try ownership.release(last) }
    }

    /// Another process owns the account: nothing more may leave this one, not even the end of the stream, which would
    /// end the session for the new owner too.
    func loseOwnership(_ error: AccountError) {
        if case .live(let stream) = phase { leave(stream) }
        phase = .idle
        isFenced = true
        ownership?.abandon()
        ownership = nil
        // What was committed here since, in the belief that it would be sent from here.
        account.store.tellOthers()
        failWaiting(error)
        account.hub.send(.stopped(error))
    }

    var fencedError: AccountError {
        AccountError(.ownershipLost, "another process took this account over; connect again to ask for it")
    }

    /// What is committed for the stream goes through this.
    ///
    /// - Throws: ``AccountError`` `ownershipLost` when this process does not own the account.
    var owner: OwnerStep {
        get throws {
            guard let ownership else { throw fencedError }
            return ownership.step
        }
    }
}
