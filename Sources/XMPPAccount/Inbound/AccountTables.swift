import Handlers
import IQTracker
import XMPPCore

/// The tables of an account that its inbound steps and its calls share, and its connected time.
package struct AccountTables: Sendable {
    let store: HandlerStore
    /// The account's row.
    let id: Int64
    /// The address that the account is configured with: what was sent is noted under it, whatever the server calls the account.
    let jid: JID
    let requests: PendingIQTable
    let outbox: Outbox
    let sessions: SessionTable
    let listeners: ListenerTable
    let inboundRequests: InboundRequestTable
    let connectedClock: ConnectedClock

    init(_ store: HandlerStore, account id: Int64, _ jid: JID, requestTimeout: Duration, time: TimeSource) {
        (self.store, self.id, self.jid) = (store, id, jid)
        requests = PendingIQTable(account: id)
        outbox = Outbox(account: id)
        sessions = SessionTable(account: id)
        listeners = ListenerTable(account: id)
        inboundRequests = InboundRequestTable(account: id, timeout: requestTimeout)
        connectedClock = ConnectedClock(time: time)
    }

    /// The marks of messages that were handled.
    func seen(of receiver: any InboundReceiver) -> SeenTable {
        SeenTable(account: id) { (step) throws(HandlerError) in try receiver.neededMarks(in: step) }
    }

    /// Returns the connected time of the account.
    func connectedTime(in step: borrowing Step) throws(HandlerError) -> Duration {
        if let running = connectedClock.connectedTime { return running }
        return try sessions.connectedTime(in: step)
    }
}
