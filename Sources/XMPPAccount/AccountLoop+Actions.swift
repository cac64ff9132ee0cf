import Handlers
import XMPPCore
import XMPPTransport

// What AccountMachine wants done.
extension AccountLoop {
    func perform(_ action: AccountMachine.Action) {
        switch action {
        case .prepareTLS: prepareTLS()
        case .takeOver(let purpose): takeOver(for: purpose)
        case .checkOwner(let caller):
            // The end of the stream ends the session, also for a new owner: only the owner may send it.
            feed(.tookOver(.logOut(caller), failure { try owner.check() }))
        case .open(let attempt): open(attempt)
        case .cancelOpening: for opener in openers.values { opener.cancel() }
        case .discardOpened:
            opened?.connection.closeDirty()
            opened = nil
        case .start(let attempt): start(attempt)
        case .requestAck(let isReported): requestAck(isReported: isReported)
        case .ping: ping()
        case .acknowledge(let isFenced): acknowledge(isFenced: isFenced)
        case .acknowledgeFor(let caller): finish(caller, failure { try acknowledgeNow() })
        case .breakStream(let error): broke(error)
        case .closeStream(let closing): closeStream(closing)
        case .release(let caller): release(caller)
        case .abandon: abandon()
        case .logOut(let caller): feed(.loggedOut(caller, failure { try logOut() }))
        case .finish(let callers, let error): for caller in callers { finish(caller, error) }
        case .send(let event):
            account.hub.send(event)
            if case .stopped(let error) = event { account.gaveUp(account, error) }
        case .shutDown:
            for late in account.mailbox.close() { refuse(late) }
            account.hub.finish()
        }
    }

    /// - Returns: The error of `body`, or nil.
    private func failure(_ body: () throws -> Void) -> (any Error)? {
        do {
            try body()
            return nil
        } catch { return error }
    }

    // MARK: Taking over, giving back

    /// Commands wait until the result is known.
    private func takeOver(for purpose: AccountMachine.Purpose) {
        let (account, mailbox, events) = (account, account.mailbox, events)
        let configuration = account.configuration
        Task(executorPreference: events) {
            let result: Result<Ownership, any Error>
            do {
                result = .success(
                    try await Ownership.acquire(
                        account.ownerships, store: account.store, places: account.ownerPlaces,
                        role: configuration.role, owner: configuration.role.rawValue,
                        silence: configuration.ownerSilence, on: events,
                        handOver: { _ = mailbox.post(.handOver) }))
            } catch {
                result = .failure(error)
            }
            // The mailbox is open: its loop closes it in no other state.
            _ = mailbox.post(.tookOver(purpose, result))
        }
    }

    func finishTakeOver(_ purpose: AccountMachine.Purpose, _ result: Result<Ownership, any Error>) {
        switch result {
        case .failure(let error):
            let isHeld = (error as? AccountError)?.code == .ownershipHeld
            account.isHeldElsewhere.store(isHeld, ordering: .relaxed)
            feed(.tookOver(purpose, error))
        case .success(let taken):
            ownership = taken
            ownedAt = now
            if let file = taken.narrowedFile {
                account.configuration.log(.warning, .session, PrivateFile.narrowed(file))
            }
            account.configuration.onMilestone?(.owned)
            feed(.tookOver(purpose, nil))
        }
    }

    /// Gives the account back, together with the end of the stream that was suspended.
    private func release(_ caller: AccountMachine.Caller?) {
        guard let ownership else { return }
        self.ownership = nil
        var error = failure { try ownership.release() }
        account.configuration.onMilestone?(.released)
        if let lost = error.flatMap(AccountError.ownershipLost) {
            // The account was given up, which is what was asked.
            error = nil
            feed(.ownershipLost(lost))
        }
        if let caller { finish(caller, error) }
    }

    private func abandon() {
        ownership?.abandon()
        ownership = nil
        // What was committed here since, in the belief that it would be sent from here.
        account.store.notifyOthers()
    }

    /// The step for all commits of the stream.
    ///
    /// - Throws: ``AccountError`` `ownershipLost` when this process does not own the account.
    var owner: OwnerStep {
        get throws {
            guard let ownership else { throw AccountError.fenced }
            return ownership.step
        }
    }

    // MARK: Acks

    private func requestAck(isReported: Bool) {
        stream?.writeAckRequest()
        // The runner looks at the wall clock now and then, and does so while the process is awake.
        isReported ? account.hub.send(.acknowledgementRequested) : account.runner.look()
    }

    private func ping() {
        let id = StanzaID.random()
        let ping = IQ(type: .get, id: id, payload: Element("ping", namespace: Namespaces.ping))
        stream?.pingID = id
        stream?.connection.write(Serializer().bytes(ping.element))
        account.runner.look()
    }

    private func acknowledge(isFenced: Bool) {
        do {
            if isFenced { return try writeAck() }
            // Outside of a step nothing else says whether this process may still speak for the account.
            try owner.check()
            try writeAck()
            try flushAck()
        } catch {
            react(to: error, while: .sending)
        }
    }

    /// Sends acks and ack requests that the program requested, regardless of the policy.
    private func acknowledgeNow() throws {
        // Another process may have marked deferred stanzas.
        if machine.stream?.management.hasDeferred == true { runStep([], []) }
        try owner.check()
        guard stream != nil else {
            throw AccountError(.connectionFailed, "the stream ended before the count was written")
        }
        try writeAck()
        try flushAck()
    }

    private func writeAck() throws {
        guard let stream, let count = machine.stream?.lastAck else { return }
        try Failpoint.beforeAcknowledge.hit()
        ownership?.willAcknowledge(count, of: stream.session)
        stream.writeAck(BuiltInFault.ackTooHigh.isOn ? count + 1 : count)
        stream.hasUnsentAck = true
        feed(.acknowledged)
    }

    /// Flushes an ack and what was written before it, if there is one.
    func flushAck() throws {
        guard let stream, stream.hasUnsentAck else { return }
        stream.hasUnsentAck = false
        _ = try stream.connection.flush()
        try Failpoint.afterAcknowledge.hit()
    }

    // MARK: Ending a stream

    /// Reports that the open stream broke.
    func broke(_ error: AccountError, endsSession: Bool = false) {
        guard let stream else { return }
        feed(.broke(StreamFault(error, endsSession: endsSession), isDelivered: stream.connection.isDelivered))
    }

    private func closeStream(_ closing: AccountMachine.Closing) {
        guard let stream else { return }
        self.stream = nil
        switch closing {
        case .broken(let fault, _):
            loginMemory.record(fault.error, of: account.configuration)
            complain(fault, on: stream.connection)
            stream.connection.closeDirty()
        case .suspended(let ack):
            writeLastAck(ack, stream)
            // The server gets the rest with the next stream.
            _ = try? stream.connection.flush()
            stream.connection.closeDirty()
        case .loggedOut(let ack):
            writeLastAck(ack, stream)
            stream.connection.write(Serializer.streamEnd)
            // Now, while the epoch has just been checked; the task only waits for the server's end.
            _ = try? stream.connection.flush()
            closeClean(stream.connection)
        case .lost: stream.connection.closeDirty()
        }
        let connectedTime = account.connectedClock.connectedTime ?? .zero
        account.connectedClock.stop()
        store(closing, stream, connectedTime: connectedTime)
    }

    /// The time limit for the server to close its side of a logged-out stream.
    private static let closeLimit = Duration.seconds(1)

    private func closeClean(_ connection: Connection) {
        // The task has the only reference: the stream is gone.
        nonisolated(unsafe) let connection = connection
        Task(executorPreference: events) { [events] in
            // The time counts from here: the steps of the log-out may take long.
            await connection.closeClean(until: events.deadline(after: Self.closeLimit), on: events)
        }
    }

    private func writeLastAck(_ ack: HandledCount?, _ stream: OpenStream) {
        guard let ack else { return }
        ownership?.willAcknowledge(ack, of: stream.session)
        stream.writeAck(ack)
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

    /// Stores the end of a stream. The connected time of handlers in this account's scope stops, too.
    private func store(_ closing: AccountMachine.Closing, _ stream: OpenStream, connectedTime: Duration) {
        switch closing {
        case .suspended:
            ownership?.suspendedAt = connectedTime
            try? account.runner.setConnected(false, in: account.scope)
        case .lost: try? account.runner.setConnected(false, in: account.scope)
        case .loggedOut: storeClosed { _ in }
        case .broken(let fault, let isFresh):
            storeClosed { step in
                // A stream that ends after a large stanza may have ended because of it.
                try account.outbox.countRefusal(
                    session: stream.session, upTo: stream.flushMark,
                    weight: StanzaLimit.weight(of: fault.error), in: step)
                if fault.endsSession { try account.sessions.lose(in: step) }
            }
            feed(.streamClosed(fault.error, isFresh: isFresh))
        }

        func storeClosed(_ more: (borrowing Step) throws -> Void) {
            do {
                try account.runner.setDisconnected(in: account.scope) { stopTime in
                    try owner.run { step in
                        try more(step)
                        try account.sessions.suspend(connectedTime: connectedTime, in: step)
                        try stopTime(step)
                    }
                }
            } catch {
                react(to: error, while: .closing)
            }
        }
    }
}
