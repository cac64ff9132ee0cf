/// A line of a ``SlixmppPeer``'s log.
package struct PeerRecord: Hashable, Sendable, Codable {
    /// The kind of a record. Scripts may define more kinds.
    package struct Kind: Hashable, Sendable, Codable, ExpressibleByStringLiteral {
        package let name: String

        package init(_ name: String) { self.name = name }
        package init(stringLiteral name: String) { self.name = name }
        package init(from decoder: any Decoder) throws {
            name = try decoder.singleValueContainer().decode(String.self)
        }

        package func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(name)
        }

        /// The peer has logged in: `jid`.
        package static let ready = Kind("ready")
        /// The peer has sent a message: `id`, `to`, `body`.
        package static let sent = Kind("sent")
        /// The peer has received a message: `id`, `from`, `to`, `type`, `body`, `delayed`.
        package static let received = Kind("received")
        /// A message of the peer came back as an error: `id`, `from`, `condition`.
        package static let bounced = Kind("bounced")
        /// The peer has received a request: `id`, `from`, `to`, `n`, `want`.
        package static let request = Kind("request")
        /// The peer has answered a request: `id`, `to`, `n`, `want`.
        package static let answer = Kind("answer")
        /// The peer has published an item on its node, and the server has stored it: `n`.
        package static let published = Kind("published")
        /// The peer could not log in, or its connection was lost: `reason`.
        package static let failed = Kind("failed")
        /// The peer quit on request.
        package static let quit = Kind("quit")
    }

    /// The kind of the record.
    package var kind: Kind
    /// Seconds since 1970.
    package var time: Double
    /// The peer's full JID.
    package var jid: String?
    /// The stanza's id.
    package var id: String?
    /// The stanza's sender, as the server set it.
    package var from: String?
    /// The stanza's addressee.
    package var to: String?
    /// The message's type.
    package var type: String?
    /// The message's body.
    package var body: String?
    /// The number of a request.
    package var n: String?
    /// The requested answer: `result`, `error` or `silence`.
    package var want: String?
    /// The condition with which a message bounced.
    package var condition: String?
    /// Whether the message has a delay (XEP-0203), because a server stored it on the way.
    package var delayed: Bool?
    /// The reason of the failure.
    package var reason: String?
}
