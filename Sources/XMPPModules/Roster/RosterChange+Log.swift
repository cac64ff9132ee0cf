package import Handlers
package import XMPPAccount
import XMPPCore

extension RosterChange: LoggedEvent {
    package static let module = AccountLog.Module.roster

    package var level: LogLevel {
        switch self {
        case .notLoaded, .refused: .warning
        case .available, .unavailable: .verbose
        default: .info
        }
    }

    /// The change in one sentence.
    package var sentence: String {
        switch self {
        case .loaded: "the roster is that of the server"
        case .notLoaded(let error): "the server did not tell the roster: \(Self.reason(error))"
        case .changed(let item): "the contact \(item.jid) changed: subscription \(item.subscription)"
        case .removed(let jid): "the contact \(jid) was removed"
        case .refused(let jid): "\(jid) tried to change the roster, and may not"
        case .requested(let request): "\(request.jid) asks to see the presence"
        case .approved(let request):
            "\(request.jid) asked to see the presence, and is a known contact: approved"
        case .unsubscribed(let jid): "\(jid) does not want to see the presence any more"
        case .available(let contact): "\(contact.jid) is available"
        case .unavailable(let jid): "\(jid) is not available"
        }
    }
}

extension RosterChange: ForeignEvent {
    package var foreignBytes: Int {
        switch self {
        case .changed(let item): item.groups.reduce(item.name.bytes) { $0 + 32 + $1.utf8.count }
        case .requested(let request), .approved(let request): request.status.bytes + request.nick.bytes
        case .available(let presence): presence.show.bytes + presence.status.bytes
        case .notLoaded(let error): error?.weight ?? 0
        case .loaded, .removed, .refused, .unsubscribed, .unavailable: 0
        }
    }
}
