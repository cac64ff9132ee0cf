// Inputs of an open stream, and the actions that follow from its rules alone.
extension StreamRules {
    /// Takes one input of the stream or of the clock.
    ///
    /// - Returns: The actions for the loop, in order.
    mutating func handle(_ input: AccountMachine.Input, now: Duration) -> [AccountMachine.Action] {
        switch input {
        case .heard: heard(now: now)
        case .answered: return finishAnswered(now: now) + neededRequest(now: now)
        case .committed(let management, let isAnswer):
            self.management = management
            // The next ack request is written after the stanzas of this step, and covers them too.
            if isAnswer { return finishAnswered(now: now) }
        case .wrote(let stanzas):
            management.didWrite(stanzas, now: now)
            let isAckDue = isManaged && management.isAcknowledgementDue(now: now)
            return neededRequest(now: now) + (isAckDue ? [.acknowledge(isFenced: true)] : [])
        case .ackRequested:
            management.receiveRequest(now: now)
            return dueAcks(now: now)
        case .acknowledged: management.didAcknowledge()
        case .skipped(let duration): skip(duration)
        case .time(let readAt):
            if let error = death(readAt: readAt, now: now) { return [.breakStream(error)] }
            let proof = keepAlive.isRequestDue(now: now) ? requestProof(now: now) : []
            return proof + dueAcks(now: now)
        default: break
        }
        return []
    }

    /// Returns the action that writes an ack request, and records the request.
    mutating func requestAck(now: Duration) -> [AccountMachine.Action] {
        didRequest(now: now)
        return [.requestAck(isReported: true)]
    }

    /// Returns the action that requests an answer of the server: an ack, or a pong if it keeps no count (XEP-0198, XEP-0199).
    /// It causes no event, because an event would wake the listeners.
    mutating func requestProof(now: Duration) -> [AccountMachine.Action] {
        if isManaged { didRequest(now: now) } else { keepAlive.didRequest(now: now) }
        return [isManaged ? .requestAck(isReported: false) : .ping]
    }

    private mutating func neededRequest(now: Duration) -> [AccountMachine.Action] {
        needsRequest(now: now) ? requestAck(now: now) : []
    }

    private mutating func finishAnswered(now: Duration) -> [AccountMachine.Action] {
        let callers = answered(now: now)
        return callers.isEmpty ? [] : [.finish(callers, nil)]
    }

    /// Returns the acks and ack requests that are due by the policy, outside of a step.
    private mutating func dueAcks(now: Duration) -> [AccountMachine.Action] {
        guard isManaged else { return [] }
        let request = management.isRequestDue(now: now) ? requestAck(now: now) : []
        let isDue = management.isAcknowledgementDue(now: now)
        return request + (isDue ? [.acknowledge(isFenced: false)] : [])
    }
}
