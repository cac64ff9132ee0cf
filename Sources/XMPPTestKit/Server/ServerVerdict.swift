public import XMPPCore

/// The verdict of a script about an element of a client.
///
/// ```swift
/// server.setScript { element, session in element.name == "presence" ? .drop : .pass }
/// ```
public enum ServerVerdict: Hashable, Sendable {
    /// Treat it as usual.
    case pass
    /// Count it if it is a stanza, and do nothing else: the server takes the responsibility and forgets it.
    case drop
    /// Count it if it is a stanza, and handle these instead.
    ///
    /// As if the client had sent them; they are not counted.
    case replace([Element])
    /// Count it if it is a stanza, and send these to the client.
    ///
    /// They are sent as they are. Stanzas among them are counted and kept until they are acknowledged, as all sent ones.
    case answer([Element])
    /// Close the connection by a TCP reset, as if the element had never arrived: it is not counted.
    case closeConnection
}

/// The session that sent an element.
///
/// ```swift
/// server.setScript { _, session in session.count == 3 ? .closeConnection : .pass }
/// ```
public struct ServerSessionInfo: Hashable, Sendable {
    /// The connection, counted from 1.
    package var connection: Int
    /// The account, by its localpart; nil before it has proved itself.
    package var account: String?
    /// The session, counted from 1; nil before a resource is bound.
    package var session: Int?
    /// The session's full address.
    public var jid: JID?
    /// The element's count in this session if it is a stanza that is counted: what `h` will be with it.
    public var count: UInt32?
}
