/// A line of a ``SlixmppPeer``'s log.
package struct PeerRecord: Hashable, Sendable, Codable {
    /// The kind of a record; the script may add more.
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

        /// It is logged in: `jid`.
        package static let ready = Kind("ready")
        /// It sent a message: `id`, `to`, `body`.
        package static let sent = Kind("sent")
        /// A message came: `id`, `from`, `to`, `type`, `body`, `delayed`.
        package static let received = Kind("received")
        /// A message of its own came back as an error: `id`, `from`, `condition`.
        package static let bounced = Kind("bounced")
        /// A request came: `id`, `from`, `to`, `n`, `want`.
        package static let request = Kind("request")
        /// It answered a request: `id`, `to`, `n`, `want`.
        package static let answer = Kind("answer")
        /// It published an item on a node of its own, and the server has it: `n`.
        package static let published = Kind("published")
        /// It could not log in, or its link died: `reason`.
        package static let failed = Kind("failed")
        /// The peer quit on request.
        package static let quit = Kind("quit")
    }

    /// The kind of the record.
    package var kind: Kind
    /// Seconds since 1970.
    package var time: Double
    /// Its own full JID.
    package var jid: String?
    /// The stanza's id.
    package var id: String?
    /// The stanza's sender, as the server stamped it.
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
    /// Whether the message carries a delay (XEP-0203): it was stored on its way.
    package var delayed: Bool?
    /// The reason of the failure.
    package var reason: String?
}
