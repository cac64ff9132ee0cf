import Handlers
import XMPPCore

// Whether the server still hears an open stream; the rules are those of KeepAlive. Neither the request nor the answer opens a
// step.
extension AccountLoop {
    /// After how much time without a proof the server is asked for one, in milliseconds; nil for never.
    var keepAliveInterval: Int64? {
        let configuration = account.configuration
        guard let interval = configuration.keepAlive else { return nil }
        guard account.clientState == .inactive else { return interval.milliseconds }
        return max(interval, configuration.inactiveKeepAlive).milliseconds
    }

    /// Asks a silent server for a proof, and ends a stream on which none came.
    ///
    /// - Returns: Whether the stream is still open.
    func keepAlive(_ stream: LiveStream) -> Bool {
        stream.keepAlive.interval = keepAliveInterval
        // What arrived by then is read first: the answer may be in it.
        if stream.connection.isDrained, stream.keepAlive.isDead(readAt: awakeAt) {
            drop(
                AccountError(
                    .timedOut,
                    "\(stream.connection.peer) has not answered for \(stream.keepAlive.timeout / 1000) s; the connection counts as dead"
                ))
            return false
        }
        if stream.keepAlive.isRequestDue(now: now) {
            requestProof(stream)
            // It has to look at the wall clock now and then, and does so while the process is awake.
            account.runner.look()
        }
        return true
    }

    /// Sends what the server must answer: an ack request, or a ping where it keeps no count (XEP-0198, XEP-0199). Listeners
    /// are not told: they would wake, too.
    func requestProof(_ stream: LiveStream) {
        guard !stream.isManaged else { return stream.requestAcknowledgement(now: now) }
        let id = StanzaID.random()
        let ping = IQ(type: .get, id: id, payload: Element("ping", namespace: Namespaces.ping))
        stream.pingID = id
        stream.connection.write(Serializer().bytes(ping.element))
        stream.keepAlive.didRequest(now: now)
    }

    /// Neither a long turn nor a wait that took longer than planned counts against the server: the process was busy or frozen.
    func skipFrozenTime(busy: Int64, waited: Int64, planned: Int64) {
        let wait = waited - max(0, planned) >= LiveClock.frozenAfter ? waited : 0
        let skipped = (busy >= LiveClock.frozenAfter ? busy : 0) + wait
        guard skipped > 0, case .live(let stream) = phase else { return }
        stream.keepAlive.skip(skipped)
        stream.linkCheck = stream.linkCheck.map { TimeSource.sum($0, skipped) }
    }

    /// Takes the answers out that change nothing in the store, and so need no step.
    func takeAnswers(_ events: [StreamParser.Event]) -> [StreamParser.Event] {
        guard case .live(let stream) = phase, stream.keepAlive.requestedAt != nil else { return events }
        guard stream.isManaged else { return events.filter { !isPong($0, on: stream) } }
        let rest = events.drop { isEmptyAck($0, on: stream) }
        guard rest.count < events.count else { return events }
        caughtUp(stream)
        requestAgain(stream)
        return Array(rest)
    }

    /// Whether the server's count is the one that it told before.
    private func isEmptyAck(_ event: StreamParser.Event, on stream: LiveStream) -> Bool {
        guard case .element(let element) = event, element.has(name: "a", namespace: Namespaces.sm) else {
            return false
        }
        return HandledCount(element["h"]) == stream.management.acknowledged
    }

    /// Takes the answer to the ping that was sent last; an error is one, too.
    private func isPong(_ event: StreamParser.Event, on stream: LiveStream) -> Bool {
        guard let id = stream.pingID, case .element(let element) = event, element.name == "iq",
            let iq = try? IQ(element: element), iq.id == id, !iq.type.isRequest
        else { return false }
        stream.pingID = nil
        stream.keepAlive.didReceiveAnswer(now: now)
        return true
    }

    /// How long others may leave the process asleep, in milliseconds: they look when it wakes for the keep-alive.
    var longestRest: Int64? {
        guard case .live = phase else { return nil }
        return keepAliveInterval.map { TimeSource.sum($0, account.configuration.acknowledgementTimeout) }
    }

    /// How long the connected time may stay unstored, in milliseconds: where no deadline is near, until the process wakes
    /// for the keep-alive.
    func longestUnstored(until deadline: Int64, _ live: Int64) -> Int64 {
        guard let longestRest, (deadline - live) / 2 > longestRest else { return LiveClock.storedEvery }
        return max(longestRest, LiveClock.storedEvery)
    }
}
