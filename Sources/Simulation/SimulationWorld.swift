package import XMPPCore

/// The server between us and the peer, and the peer with a log of its own: all that the verdict trusts.
package protocol SimulationWorld: AnyObject {
    /// For the report: `embedded`, `prosody 13.0.1`.
    var name: String { get }
    /// The account of the simulation.
    var account: JID { get }
    var password: String { get }
    /// The peer's full address: requests are addressed to it.
    var peer: JID { get }
    var host: String { get }
    var port: UInt16 { get }
    /// The certificate authority to trust.
    var authorityFile: String { get }

    /// Lets the peer send numbered messages to the account, some each second, until told to stop, and publish a numbered
    /// item now and then.
    func startSending() throws
    /// Stops it and returns when everything it sent has reached the server.
    func stopSending() throws
    /// Lets the peer send some numbered messages as fast as it can, with an item now and then; returns when it has.
    func send(_ count: Int) throws
    /// Lets the peer answer the requests that want that later.
    func answerLater() throws
    /// Returns the number of messages that the peer has sent.
    func sentCount() throws -> Int
    /// Ends the account's session on the server, so that it cannot be resumed; false when this server cannot be told.
    func expireSession() throws -> Bool
    /// Waits until the server has seen the end of the account's last connection, where the next one must not come before.
    ///
    /// - Returns: False when it has not after 30 s.
    func awaitDeparture() throws -> Bool
    /// Does something to the network or the server; false when this world cannot.
    func suffer(_ fault: NetworkFault) throws -> Bool
    /// The push line of the server; nil if the simulation wakes workers itself.
    var push: PushLine? { get }
    /// Whether the server stands a process that takes the stream while an older connection is still open.
    var standsTakeover: Bool { get }
    /// What the server took from a connection although a later one had resumed its session: must be none. Nil where the
    /// server cannot be asked.
    func staleStanzas() throws -> Int?
    /// Returns the stanzas that the peer received and sent.
    func sightings() throws -> PeerSightings
    func close()
}

extension SimulationWorld {
    package var push: PushLine? { nil }
    package var standsTakeover: Bool { true }
    package func staleStanzas() throws -> Int? { nil }
}

/// A fault of connections or servers.
package enum NetworkFault: CaseIterable {
    /// Every connection of the account ends with a TCP reset.
    case reset
    /// Every connection of the account stays open and carries nothing any more.
    case halfOpen
    /// The server ends in good order and starts again: it keeps no session.
    case restart
}

/// The log of the peer.
package struct PeerSightings {
    struct Arrival: Hashable {
        let id: ForeignText
        /// The full address it came from: a new one for every session of ours.
        let from: ForeignText
    }

    /// Messages that reached the peer, in order, with duplicates.
    var messages: [Arrival] = []
    /// Requests that reached the peer, in order, with duplicates.
    var requests: [Arrival] = []
    /// Ids of requests that the peer answered.
    var answered: Set<ForeignText> = []
    /// Ids of messages that the peer sent.
    var sent: [String] = []
    /// The number of items that the peer published, numbered from 1, each in place of the previous one.
    var published = 0
}
