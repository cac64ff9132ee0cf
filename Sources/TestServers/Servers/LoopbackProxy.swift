import XMPPTestKit
import Platform
import Synchronization

/// A proxy between a client and a server on loopback. It delays each direction, counts flights, records the client's bytes, and
/// breaks connections.
///
/// ```text
/// client ──▶ proxy.port ──delay──▶ server
/// client ◀──delay── proxy ◀── server
/// ```
///
/// A *flight* of the client is everything that it sends without receiving anything in between. Over a long line each flight costs a
/// round trip.
package final class LoopbackProxy: Sendable {
    /// The record of a connection.
    package struct Record: Hashable, Sendable {
        /// Bytes that were passed on together.
        package struct Passage: Hashable, Sendable {
            /// The time when they were passed on, in nanoseconds of the monotonic clock.
            package let at: Int64
            /// Whether the client sent them.
            package let isFromClient: Bool
        }

        /// The time when the client was accepted, in nanoseconds of the monotonic clock.
        package let openedAt: Int64
        /// The number of flights that the client sent.
        package var flights = 0
        /// The number of bytes sent to the server, and to the client.
        package var sent = 0, received = 0
        /// The first bytes from the client, at most 1 MiB.
        package var clientBytes: [UInt8] = []
        /// The first passages, at most 1000.
        package var passages: [Passage] = []

        static let passageLimit = 1000

        init(openedAt: Int64) { self.openedAt = openedAt }

        mutating func record(fromClient: Bool) {
            guard passages.count < Self.passageLimit else { return }
            passages.append(Passage(at: ServerTime.monotonicNanoseconds, isFromClient: fromClient))
        }
    }

    let shared: ProxyState

    /// - Parameters:
    ///   - target: The server's port on 127.0.0.1.
    ///   - delay: The delay of each direction.
    /// - Throws: ``TestServerError`` when the system provides no port, socket or thread.
    package init(to target: UInt16, delay: Duration = .zero) throws(TestServerError) {
        shared = try ProxyState(target: target)
        let loop = ProxyLoop(shared, delay: Int64(delay / .milliseconds(1)))
        guard LoopbackSocket.startThread("proxy", { loop.run() }) else {
            throw TestServerError(.startFailed, "No thread could be started for a proxy.")
        }
    }

    deinit { close() }

    /// The port for clients.
    package var port: UInt16 { shared.reservation.number }
    /// The connections so far, in the order in which they started.
    package var records: [Record] { shared.state.withLock { $0.records } }

    /// Waits until the server has also closed every connection that its client has closed.
    /// - Returns: False when the deadline passed first.
    package func waitUntilDepartedAreClosed(deadline: ContinuousClock.Instant) -> Bool {
        let question = shared.state.withLock { state in
            state.departureQuestion += 1
            return state.departureQuestion
        }
        // The thread answers after a turn that started after the question and found no such connection.
        while shared.state.withLock({ $0.departureAnswer < question }) {
            if ContinuousClock.now >= deadline { return false }
            shared.signal.pipe.raise()
            SystemThread.sleep(microseconds: 500)
        }
        return true
    }

    /// Breaks all connections as a dead line does: both ends get a reset.
    package func cut() { shared.change { $0.cuts += 1 } }

    /// Breaks the newest connection once the server has received an exact number of the client's bytes.
    ///
    /// The server reads all of them and then the end, as when the client is killed at that point.
    ///
    /// - Parameter total: The number of bytes since the start of the connection, as in ``Record/sent``; not less than that.
    package func cut(afterSending total: Int) {
        shared.change { $0.cutAfter = (index: $0.records.count - 1, total: total) }
    }

    /// Makes all current connections half-open: they stay open and carry nothing, as after a restart of a router. New connections
    /// work.
    package func strand() { shared.change { $0.strandings += 1 } }

    /// Drops everything that clients of the current connections send from now on. Other traffic is carried, and new connections
    /// work.
    package func deafen() { shared.change { $0.deafUpTo = $0.records.count } }

    /// Stops carrying bytes. Connections stay open, and new ones are accepted.
    package func silence() { shared.change { $0.isSilent = true } }

    /// Carries bytes again, also those that came during the silence.
    package func resume() { shared.change { $0.isSilent = false } }

    /// Sends all further connections to another port.
    package func lead(to target: UInt16) { shared.change { $0.target = target } }

    /// Breaks all connections and accepts no new ones.
    package func close() { shared.change { $0.isClosed = true } }
}

/// The state that a proxy and its thread share. The thread outlives the proxy by one turn.
final class ProxyState: Sendable {
    struct State {
        var records: [LoopbackProxy.Record] = []
        var isClosed = false
        var cuts = 0
        var strandings = 0
        /// The connection to break, and the number of its client's bytes before the break.
        var cutAfter: (index: Int, total: Int)?
        var isSilent = false
        /// The number of connections, from the first, whose client's bytes are dropped.
        var deafUpTo = 0
        /// The number of the last question about connections that the server has not closed, and the number of the last answered
        /// one.
        var departureQuestion = 0
        var departureAnswer = 0
        var target: UInt16
    }

    let reservation: LoopbackPort
    let listener: StreamSocket
    let signal: Waker
    let state: Mutex<State>

    init(target: UInt16) throws(TestServerError) {
        state = Mutex(State(target: target))
        reservation = try LoopbackPort.reserved()
        listener = try LoopbackSocket.listen(on: reservation)
        signal = try LoopbackSocket.makeWakePipe()
    }

    func change(_ body: (inout State) -> Void) {
        state.withLock { body(&$0) }
        signal.pipe.raise()
    }

    /// Records a new connection, and returns its number and its target.
    func start() -> (index: Int, target: UInt16) {
        state.withLock { state in
            state.records.append(.init(openedAt: ServerTime.monotonicNanoseconds))
            return (state.records.count - 1, state.target)
        }
    }

    func record(_ index: Int, _ body: (inout LoopbackProxy.Record) -> Void) {
        state.withLock { body(&$0.records[index]) }
    }
}
