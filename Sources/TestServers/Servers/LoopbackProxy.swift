import XMPPTestKit
import Platform
import Synchronization

/// Stands between a client and a server on loopback: delays each direction, counts flights, keeps what the
/// client sent, and cuts.
///
/// ```text
/// client ──▶ proxy.port ──delay──▶ server
/// client ◀──delay── proxy ◀── server
/// ```
///
/// A *flight* of the client is everything that it sends without having been sent anything in between: over a
/// long line each one costs a round trip.
package final class LoopbackProxy: Sendable {
    /// The record of a connection.
    package struct Record: Hashable, Sendable {
        /// Bytes that passed together.
        package struct Passage: Hashable, Sendable {
            /// When they were handed on, in nanoseconds of the monotonic clock.
            package let at: Int64
            /// Whether the client sent them.
            package let isFromClient: Bool
        }

        /// When the client was accepted, in nanoseconds of the monotonic clock.
        package let openedAt: Int64
        /// The number of flights that the client sent.
        package var flights = 0
        /// The number of bytes sent to the server, and to the client.
        package var sent = 0, received = 0
        /// The first bytes that the client sent, at most 1 MiB.
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
    ///   - delay: How long each direction holds what it carries.
    /// - Throws: ``TestServerError`` when the system has no port, socket or thread to give.
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
    /// The connections so far, in the order in which they began.
    package var records: [Record] { shared.state.withLock { $0.records } }

    /// Waits until the server has closed its end of each connection, too, whose client has closed its own.
    /// - Returns: False when the deadline came first.
    package func waitUntilDepartedAreClosed(deadline: ContinuousClock.Instant) -> Bool {
        let question = shared.state.withLock { state in
            state.departureQuestion += 1
            return state.departureQuestion
        }
        // The thread answers in a turn that began behind the question and found no such connection.
        while shared.state.withLock({ $0.departureAnswer < question }) {
            if ContinuousClock.now >= deadline { return false }
            shared.signal.pipe.raise()
            SystemThread.sleep(microseconds: 500)
        }
        return true
    }

    /// Breaks all connections as a dead line does: both sides get a reset.
    package func cut() { shared.change { $0.cuts += 1 } }

    /// Breaks the newest connection once the server has been handed exactly so many bytes of the client's, as when the client
    /// is killed at that place: the server reads all of them, then the end.
    ///
    /// - Parameter total: Counted from the connection's beginning, as ``Record/sent`` is; no less than that.
    package func cut(afterSending total: Int) {
        shared.change { $0.cutAfter = (index: $0.records.count - 1, total: total) }
    }

    /// Makes the connections that exist half-open: they stay open and carry nothing any more, as behind a router that
    /// has forgotten them. New ones work.
    package func strand() { shared.change { $0.strandings += 1 } }

    /// Loses what the clients of the connections that exist send from now on; what servers send is carried. New ones work.
    package func deafen() { shared.change { $0.deafUpTo = $0.records.count } }

    /// Stops to carry bytes, although connections stay open and new ones are accepted.
    package func silence() { shared.change { $0.isSilent = true } }

    /// Leads the connections that come from now on to another port.
    package func lead(to target: UInt16) { shared.change { $0.target = target } }

    /// Breaks all connections and accepts no more.
    package func close() { shared.change { $0.isClosed = true } }
}

/// The state that a proxy and its thread share; the thread outlives the proxy by one turn.
final class ProxyState: Sendable {
    struct State {
        var records: [LoopbackProxy.Record] = []
        var isClosed = false
        var cuts = 0
        var strandings = 0
        /// After how many bytes of its client's which connection breaks.
        var cutAfter: (index: Int, total: Int)?
        var isSilent = false
        /// Of how many connections, from the first on, what the client sends is lost.
        var deafUpTo = 0
        /// The last question whether the server still has to close something, and the last one that was answered with no.
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

    /// A connection begins; its number, and where it leads.
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
