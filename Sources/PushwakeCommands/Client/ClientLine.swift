import Glibc
import Handlers
import XMPPAccount
package import XMPPCore
import XMPPModules

/// A message, or what one says about another, in the form in which it is shown.
package struct ClientLine: Encodable {
    package enum Kind: String, Encodable, CaseIterable {
        case message
        /// Replaces the text of the message ``about``.
        case correction
        /// The body holds the emoji; none takes earlier ones back.
        case reaction
        case retraction
        /// The body is the reason; `peer` is the room, `nick` who invites.
        case invitation
        /// The body is what the sender wrote for clients that cannot decrypt.
        case encrypted
    }

    package var peer: String
    package var nick: String?
    package var own: Bool
    package var time: String
    package var body: String?
    package var kind = Kind.message
    /// Whether it was exchanged with one occupant of a room alone.
    package var isPrivate = false
    package var id: String?
    /// The id of the message that it is about.
    package var about: String?
    package var subject: String?
    var sentAt: Timestamp

    private enum CodingKeys: String, CodingKey {
        case peer, nick, own, time, body, kind, id, about, subject
        case isPrivate = "private"
    }

    package init(
        peer: String, nick: String? = nil, own: Bool = false, sentAt: Timestamp, body: String? = nil,
        kind: Kind = .message, isPrivate: Bool = false, subject: String? = nil
    ) {
        (self.peer, self.nick, self.own, self.sentAt) = (peer, nick, own, sentAt)
        (self.body, self.kind, self.isPrivate, self.subject) = (body, kind, isPrivate, subject)
        time = sentAt.description
    }

    /// Reads a message; nil if it has nothing to show.
    init?(_ received: MessageReceived, in step: borrowing Step) throws {
        let message = received.message
        guard message.type != .error, let content = Self.content(of: message) else { return nil }
        let occupant = try received.privatePeer(in: step)
        let other = received.isOutgoing && message.type != .groupchat ? message.to : message.from
        (kind, body, about) = content
        peer = other?.bare.description ?? ""
        nick = (occupant ?? (message.type == .groupchat ? message.from : nil))?.resource?.string
        isPrivate = occupant != nil
        own = received.isOutgoing
        id = message.id?.string
        if message.type != .groupchat {
            subject = message.element.child("subject", Namespaces.client)?.text.string
        }
        sentAt = received.sentAt ?? step.now
        time = sentAt.description
    }

    private static func content(of message: Message) -> (Kind, body: String?, about: String?)? {
        if let retraction = message.retraction { return (.retraction, nil, retraction.id.string) }
        if let reactions = message.reactions {
            return (.reaction, reactions.reactions.map(\.string).joined(separator: " "), reactions.id.string)
        }
        guard let body = message.body?.string else { return nil }
        if message.element.elements.contains(where: { $0.name == "encrypted" }) {
            return (.encrypted, body, nil)
        }
        if let correction = message.correction { return (.correction, body, correction.id.string) }
        return (.message, body, nil)
    }

    init(_ invitation: RoomInvitation) {
        // A room without addresses names an occupant.
        let author = invitation.by.flatMap {
            $0.bare == invitation.room ? $0.resource?.string : $0.bare.description
        }
        self.init(
            peer: invitation.room.description, nick: author, sentAt: invitation.receivedAt,
            body: invitation.reason?.string, kind: .invitation)
    }

    /// Reads a row of ``ClientApp/next(of:in:)``.
    init(_ row: borrowing Row) {
        (peer, nick, own) = (row.text(1), row.optionalText(2), row.integer(3) != 0)
        sentAt = row.timestamp(4)
        time = sentAt.description
        body = row.text(5).isEmpty ? nil : row.text(5)
        kind = Kind(rawValue: row.text(6)) ?? .message
        isPrivate = row.integer(7) != 0
        (id, about, subject) = (row.optionalText(8), row.optionalText(9), row.optionalText(10))
    }

    // MARK: As text

    /// The line for people. Further lines of the body are indented, so that no body looks like another message.
    package var text: VisibleText { "\(Self.local(sentAt)) \(who)\(words)" }

    private var who: VisibleText {
        let name = nick.map { "\(peer) \($0)" } ?? peer
        let mark = isPrivate ? " (private)" : ""
        return own ? "to \(isPrivate ? name : peer)\(mark)" : "\(name)\(mark)"
    }

    private var words: VisibleText {
        let about: VisibleText = subject.map { "[\($0)] " } ?? ""
        switch kind {
        case .message: return ": \(about)\(shownBody)"
        case .correction: return " corrects a message: \(about)\(shownBody)"
        case .reaction: return body == nil ? " takes a reaction back" : " reacts: \(shownBody)"
        case .retraction: return " retracts a message"
        case .encrypted: return " (encrypted, not readable here): \(shownBody)"
        case .invitation:
            let reason: VisibleText = body == nil ? "" : " (\(shownBody))"
            return " invites into the room\(reason): 'pushwake join \(peer)'"
        }
    }

    /// Splits by bytes: for Swift, CR LF is one character, which differs from a line feed.
    private var shownBody: VisibleText {
        let lines: [VisibleText] = (body ?? "").utf8.split(
            separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false
        ).map { "\(Substring($0.last == UInt8(ascii: "\r") ? $0.dropLast() : $0))" }
        return VisibleText(joining: lines, by: "\n    ")
    }

    /// The time in the zone of this machine, to the minute, with the zone: `2026-01-02T15:04+01:00`.
    static func local(_ time: Timestamp) -> String {
        var seconds = time_t(time.milliseconds / 1000)
        var parts = tm()
        guard localtime_r(&seconds, &parts) != nil else { return time.description }
        func two(_ number: some BinaryInteger) -> String { number < 10 ? "0\(number)" : "\(number)" }
        let offset = abs(parts.tm_gmtoff) / 60
        let sign = parts.tm_gmtoff < 0 ? "-" : "+"
        let zone = offset == 0 ? "Z" : "\(sign)\(two(offset / 60)):\(two(offset % 60))"
        let date = "\(parts.tm_year + 1900)-\(two(parts.tm_mon + 1))-\(two(parts.tm_mday))"
        return "\(date)T\(two(parts.tm_hour)):\(two(parts.tm_min))\(zone)"
    }
}
