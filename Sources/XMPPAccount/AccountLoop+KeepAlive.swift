import Handlers
import XMPPCore

// Whether the server still hears an open stream; the rules are those of KeepAlive.
extension AccountLoop {
    /// The time without a proof after which the server is asked for one, in whole milliseconds; nil for never.
    var keepAliveInterval: Duration? {
        guard let interval = account.configuration.keepAlive else { return nil }
        guard account.clientState == .inactive else { return .milliseconds(interval.milliseconds) }
        return .milliseconds(max(interval, account.configuration.inactiveKeepAlive).milliseconds)
    }

    /// Takes the answers out that change nothing in the store, and so need no step.
    func removeAnswers(_ events: ArraySlice<StreamParser.Event>) -> ArraySlice<StreamParser.Event> {
        guard let stream, let rules = machine.stream, rules.keepAlive.requestedAt != nil else {
            return events
        }
        let rest =
            rules.isManaged
            ? events.drop { isEmptyAck($0, rules.management) }
            : events.filter { !isPong($0, on: stream) }[...]
        if rest.count < events.count { feed(.answered) }
        return rest
    }

    /// Returns whether the server's count is the one that it told before.
    private func isEmptyAck(_ event: StreamParser.Event, _ management: StreamManagement) -> Bool {
        guard case .element(let element) = event, element.has(name: "a", namespace: Namespaces.sm) else {
            return false
        }
        return HandledCount(element["h"]) == management.acknowledged
    }

    /// Takes the answer to the last ping; an error is one, too.
    private func isPong(_ event: StreamParser.Event, on stream: OpenStream) -> Bool {
        guard let id = stream.pingID, case .element(let element) = event, element.name == "iq",
            let iq = try? IQ(element: element), iq.id == id, !iq.type.isRequest
        else { return false }
        stream.pingID = nil
        return true
    }

    /// The maximum rest of other loops: they work when the process wakes for the keep-alive.
    var longestRest: Duration? {
        guard stream != nil else { return nil }
        return keepAliveInterval.map { TimeSource.sum($0, account.configuration.acknowledgementTimeout) }
    }

    /// Returns the time for which the connected time may stay unstored: where no deadline is near, until the process wakes for the
    /// keep-alive.
    func longestUnstored(until deadline: Duration, _ connected: Duration) -> Duration {
        guard let longestRest, (deadline - connected) / 2 > longestRest else {
            return ConnectedClock.storedEvery
        }
        return max(longestRest, ConnectedClock.storedEvery)
    }
}
