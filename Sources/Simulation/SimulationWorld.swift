package import XMPPCore

/// The server between this program and the peer, and the peer with its own log. The verdict trusts only these.
package protocol SimulationWorld: AnyObject {
    /// The name in the report, such as `embedded` or `prosody 13.0.1`.
    var name: String { get }
    /// The account of the simulation.
    var account: JID { get }
    var password: String { get }
    /// The peer's full address, which receives the requests.
    var peer: JID { get }
    var host: String { get }
    var port: UInt16 { get }
    /// The certificate authority to trust.
    var authorityFile: String { get }

    /// Makes the peer send numbered messages to the account, a fixed number each second, and sometimes publish a numbered item,
    /// until ``stopSending()``.
    func startSending() throws
    /// Stops the peer, and returns when everything it sent has reached the server.
    func stopSending() throws
    /// Makes the peer send a number of messages as fast as it can, with some items; returns when it has.
    func send(_ count: Int) throws
    /// Makes the peer answer the requests that it answers only on command.
    func answerLater() throws
    /// Returns the number of messages that the peer has sent.
    func sentCount() throws -> Int
    /// Ends the account's session on the server, so that it cannot be resumed; false if this server has no way to do so.
    func expireSession() throws -> Bool
    /// Waits until the server has seen the end of the account's last connection, if it cannot accept the next one before.
    ///
    /// - Returns: False if that has not happened after 30 s.
    func awaitDeparture() throws -> Bool
    /// Causes a fault of the network or the server; false if this world cannot.
    func suffer(_ fault: NetworkFault) throws -> Bool
    /// The push line of the server; nil if the simulation wakes workers itself.
    var push: PushLine? { get }
    /// Whether the server supports a process that takes over the stream while an older connection is open.
    var standsTakeover: Bool { get }
    /// The number of stanzas that the server accepted from a connection after a later one had resumed its session. It must be 0. It
    /// is nil if the server does not report it.
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
    /// Every connection of the account stays open and transports nothing.
    case halfOpen
    /// The server stops normally and starts again, without any sessions.
    case restart
}

/// The log of the peer.
package struct PeerSightings {
    struct Arrival: Hashable {
        let id: ForeignText
        /// The sender's full address, which is new for every session.
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
    /// The number of items that the peer published. They are numbered from 1, and each replaces the previous one.
    var published = 0
}
