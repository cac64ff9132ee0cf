package import Handlers
package import XMPPAccount
import XMPPCore

extension RoomEvent: LoggedEvent {
    package static let module = AccountLog.Module.rooms

    package var level: LogLevel {
        switch change {
        case .refused, .timedOut, .nickRefused, .setupFailed, .messageRefused, .messageUnconfirmed: .warning
        case .occupant, .occupantRenamed, .occupantLeft, .subject: .verbose
        default: .info
        }
    }

    /// The room and the change in one sentence.
    package var sentence: String { "\(room): \(change.words)" }
}

extension RoomEvent.Change {
    fileprivate var words: String {
        switch self {
        case .joined(let nick, let isNew): "joined as \(nick)\(isNew ? ", a new room" : "")"
        case .refused(let error): "the room lets the account not in: \(error)"
        case .timedOut: "the room has not answered in time"
        case .abandoned: "joining was given up"
        case .left(let departure): "not in the room any more: \(departure.reason)"
        case .nickChanged(let old, let new): "the nickname is \(new), no longer \(old)"
        case .nickRefused(let nick, let error): "the nickname \(nick) is refused: \(error)"
        case .occupant(let occupant): "\(occupant.nick) is there"
        case .occupantRenamed(let old, let new): "\(old) is called \(new) now"
        case .occupantLeft(let nick, let departure): "\(nick) left: \(departure.reason)"
        case .subject(_, let jid): "\(jid) set the subject"
        case .configurationChanged(let codes): "the configuration changed: \(codes.sorted())"
        case .setupFailed(let error): "the new room could not be set up: \(RoomEvent.reason(error))"
        case .invited(let invitation): "\(invitation.by.map { "\($0)" } ?? "somebody") invites the account"
        case .declined(let jid, _): "\(jid.map { "\($0)" } ?? "somebody") does not want to come"
        case .checked(let check): "checked: \(check)"
        case .messageRefused(let id, let error): "the room did not take the message \(id): \(error)"
        case .messageUnconfirmed(let id): "the room has never sent the message \(id) back"
        }
    }
}

extension RoomEvent: ForeignEvent {
    package var foreignBytes: Int {
        switch change {
        case .joined(let nick, _): nick.utf8.count
        case .refused(let error): error.weight
        case .nickRefused(let text, let error), .messageRefused(let text, let error):
            text.utf8.count + error.weight
        case .left(let departure): departure.by.bytes + departure.text.bytes
        case .occupantLeft(let nick, let departure):
            nick.utf8.count + departure.by.bytes + departure.text.bytes
        case .nickChanged(let old, let new), .occupantRenamed(let old, let new):
            old.utf8.count + new.utf8.count
        case .occupant(let occupant): occupant.nick.utf8.count
        case .subject(let text, _), .declined(_, let text): text.bytes
        case .setupFailed(let error): error?.weight ?? 0
        case .invited(let invitation):
            invitation.reason.bytes + invitation.password.bytes + invitation.thread.bytes
        case .messageUnconfirmed(let id): id.utf8.count
        case .configurationChanged(let codes): codes.count * 16
        case .checked(.rejoining(let error)): error.weight
        case .timedOut, .abandoned, .checked: 0
        }
    }
}
