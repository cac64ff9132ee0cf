public import XMPPCore

/// An entry of a ``ServerLog``: a received or sent element, or an event of a session.
///
/// ```swift
/// let bodies = server.log.entries.filter { $0.event == .received && $0.name == "message" }
/// ```
public struct ServerLogEntry: Hashable, Sendable {
    /// The event.
    public enum Event: String, Hashable, Sendable {
        /// Handles an accepted connection.
        case connected
        /// A connection ended, from either side.
        case disconnected
        /// A resource was bound: a new session.
        case bound
        /// Stream management was enabled.
        case enabled
        /// The session was resumed on this connection.
        case resumed
        /// A resumption was refused; ``ServerLogEntry/id`` is the id that was asked for.
        case resumeFailed = "resume-failed"
        /// The session lost its connection and waits to be resumed.
        case detached
        /// The session was given up: its time was over, it broke the rules, or it could not be resumed at all.
        case expired
        /// The same resource was bound again; this session is over.
        case replaced
        /// The client ended the session with `</stream:stream>`.
        case closedCleanly = "closed-cleanly"
        /// The client sent an element.
        case received
        /// An element was written to the client's connection. Only an ack shows that it arrived.
        case delivered
    }

    /// When it happened, on the server's wall clock.
    package var time: Timestamp
    /// The event.
    public var event: Event
    /// The connection, counted from 1; 0 for none.
    package var connection: Int
    /// The session, counted from 1; 0 for none.
    package var session: Int
    /// The session's full address.
    public var jid: JID?
    /// The element's local name.
    public var name: ForeignText?
    /// Its `type`.
    public var type: ForeignText?
    /// Its `id`.
    public var id: ForeignText?
    /// The other side as the element names it: the `to` of what was received, the `from` of what was delivered.
    public var peer: ForeignText?
    /// Whether it counts in stream management.
    package var isCounted = false
    /// Whether it had been handed to an earlier connection of its session.
    package var isResent = false
    /// The `h` that it carried: of an `<a/>`, `<resume/>`, `<resumed/>` or `<failed/>`.
    package var h: UInt32?
    /// The element itself, if the server keeps it.
    public var xml: String?
}

extension ServerLogEntry {
    /// Whether the element is an iq, message or presence.
    package var isStanza: Bool { name == "iq" || name == "message" || name == "presence" }

    /// The entry as a JSON object in one line, without the line feed. What is nil, zero or false is left out.
    package var json: String {
        var line = "{\"time\":\(time.milliseconds),\"event\":\"\(event.rawValue)\""
        for (key, number) in [("connection", connection), ("session", session)] where number != 0 {
            line += ",\"\(key)\":\(number)"
        }
        if let h { line += ",\"h\":\(h)" }
        for (key, flag) in [("counted", isCounted), ("resent", isResent)] where flag {
            line += ",\"\(key)\":true"
        }
        let texts = [
            ("jid", jid?.description), ("name", name?.string), ("type", type?.string), ("id", id?.string),
            ("peer", peer?.string), ("xml", xml),
        ]
        for case (let key, let text?) in texts { line += ",\"\(key)\":\(Self.quoted(text))" }
        return line + "}"
    }

    /// RFC 8259 section 7.
    private static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case _ where scalar.value < 0x20:
                let digits = String(scalar.value, radix: 16)
                quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}
