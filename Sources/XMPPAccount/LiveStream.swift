import XMPPCore
import XMPPTransport

/// The stream that is open: its connection and what only this connection knows.
final class LiveStream {
    let connection: Connection
    let parser: StreamParser
    let session: Int64
    let own: JID
    let isManaged: Bool
    /// Whether it goes on with a session that another stream began.
    let isResumed: Bool

    /// What is counted, and when to ask and to tell. Its counts are committed.
    var management: StreamManagement
    /// When the server must show that it hears this side.
    var keepAlive: KeepAlive
    /// The id of the ping that was sent last and is not answered: the ack request of a stream without counts.
    var pingID: String?
    /// When something arrived last, in milliseconds of the monotonic clock.
    var heardAt: Int64
    /// The last outbox row written to this connection.
    var flushMark: Int64 = 0
    /// Whether it is about to be closed and takes nothing in any more.
    var isLeaving = false
    /// Whether rows may wait behind the flush mark because the connection could not take more.
    var hasMore = false
    /// When a connection that has been silent since the network changed counts as dead, in milliseconds of the monotonic
    /// clock.
    var linkCheck: Int64?
    /// Whether the server has sent everything that it had kept; without stream management it keeps nothing that came.
    var hasCaughtUp: Bool
    /// Those who wait for the server to answer the `<r/>` that was sent last.
    var barriers: [Completion] = []
    /// Those who came after that `<r/>` and wait for the answer to the next one.
    var nextBarriers: [Completion] = []
    /// When it was opened, in milliseconds of the monotonic clock.
    let openedAt: Int64
    /// Whether the server wants to know if the client is looked at (XEP-0352).
    let hasClientState: Bool
    /// What it was told about that; every stream begins as active.
    var clientState = ClientState.active
    /// Without stream management: the last outbox row that was given up to the socket.
    var forgottenMark: Int64 = 0
    /// Why the stream cannot be read any further; it ends with the next step.
    var parserError: StreamParserError?
    /// The live time that was stored last.
    var storedLiveTime: Int64
    /// Whether requests of others may wait for an answer of ours.
    var hasOpenRequests = true
    /// The earliest deadline of a request, in milliseconds of live time.
    var nextDeadline: Int64?

    init(
        _ opened: OpenedStream, state: SessionTable.State, own: JID, policy: AcknowledgementPolicy,
        hasClientState: Bool, keepAlive: KeepAlive, now: Int64
    ) {
        self.keepAlive = keepAlive
        self.hasClientState = hasClientState
        connection = opened.connection
        parser = opened.parser
        session = state.number
        self.own = own
        isManaged = state.isManaged
        hasCaughtUp = !state.isManaged
        isResumed = if case .resumed = opened.outcome { true } else { false }
        openedAt = now
        heardAt = now
        management = state.management(policy)
        storedLiveTime = state.liveTime
        connection.limitUnacknowledged(toMilliseconds: keepAlive.timeout)
    }

    /// Asks the server how much it has handled.
    func requestAcknowledgement(now: Int64) {
        connection.write(Self.request)
        management.didRequest(now: now)
        keepAlive.didRequest(now: now)
    }

    /// Those who wait, for whom this connection is of no use any more.
    func takeBarriers() -> [Completion] {
        defer { (barriers, nextBarriers) = ([], []) }
        return barriers + nextBarriers
    }

    /// Tells the server how much is handled: the committed count and no other.
    func acknowledge() {
        connection.write(Array("<a xmlns='\(Namespaces.sm)' h='\(management.handled)'/>".utf8))
        management.didAcknowledge()
    }

    private static let request = Array("<r xmlns='\(Namespaces.sm)'/>".utf8)
}
