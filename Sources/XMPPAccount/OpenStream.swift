import XMPPCore
import XMPPTransport

/// The connection of the open stream, and how far it has been read and written. Its rules are ``StreamRules``.
final class OpenStream {
    let connection: Connection
    let parser: StreamParser
    let session: Int64
    let own: JID
    /// Whether the server wants to know if the client is looked at (XEP-0352).
    let hasClientState: Bool
    /// The client state that the server knows; every stream starts as active.
    var clientState = ClientState.active

    /// The id of the last ping without an answer: the ack request of a stream without counts.
    var pingID: String?
    /// The last outbox row written to this connection.
    var flushMark: Int64 = 0
    /// Without stream management: the last outbox row that was given up to the socket.
    var forgottenMark: Int64 = 0
    /// Whether rows may wait after the flush mark because the connection could not take more.
    var hasMore = false
    /// Whether an ack was written and not flushed.
    var hasUnsentAck = false
    /// Whether it is about to be closed and reads nothing more.
    var isLeaving = false
    /// Events that were read and that no step has taken in yet.
    var unread: ArraySlice<StreamParser.Event> = []
    /// When a step that could not be committed is tried again, by the monotonic clock; until then no step is due.
    var stepRetry: Duration?
    /// The error after which the stream cannot be read; it ends with the next step.
    var parserError: StreamParserError?
    /// The connected time that was stored last.
    var storedConnectedTime: Duration
    /// Whether requests of others may wait for an answer of ours.
    var hasOpenRequests = true
    /// The earliest deadline of a request, in connected time.
    var nextConnectedDeadline: Duration?

    init(_ opened: OpenedStream, state: SessionTable.State, own: JID, hasClientState: Bool) {
        self.hasClientState = hasClientState
        connection = opened.connection
        parser = opened.parser
        parserError = opened.parserError
        session = state.number
        self.own = own
        storedConnectedTime = state.connectedTime
    }

    func writeAckRequest() { connection.write(Self.request) }

    /// Writes our count: the committed one and no other.
    func writeAck(_ count: HandledCount) {
        connection.write(Array("<a xmlns='\(Namespaces.sm)' h='\(count)'/>".utf8))
    }

    private static let request = Array("<r xmlns='\(Namespaces.sm)'/>".utf8)
}
