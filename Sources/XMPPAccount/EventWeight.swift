import XMPPCore

// How much memory the events take that wait for a listener: peers choose what is in them.

extension AccountEvent {
    /// About how many bytes of memory it takes.
    var weight: Int {
        let texts =
            switch self {
            case .ignored(let element, let reason): element.weight + reason.utf8.count
            case .streamManagementAnswered(let element): element.weight
            case .setAside(let handler, let call, let reason):
                handler.utf8.count + call.utf8.count + reason.utf8.count
            case .refused(_, let reason): reason.utf8.count
            case .acknowledged(let stanzas): stanzas.count * 256
            case .notEnabled(let error), .sessionLost(let error): error?.weight ?? 0
            case .suspended(let error), .stopped(let error): error.message.utf8.count
            case .retrying(_, let error), .moduleFailed(_, let error): "\(error)".utf8.count
            case .module(let event): (event as? any ForeignEvent)?.foreignBytes ?? 0
            case .bound, .enabled, .resumed, .acknowledgementRequested, .handedOver: 0
            }
        return 128 + texts
    }
}

/// An event of a module in which others choose texts.
protocol ForeignEvent: ModuleEvent {
    /// How many bytes these texts have.
    var foreignBytes: Int { get }
}

extension RosterChange: ForeignEvent {
    var foreignBytes: Int {
        switch self {
        case .changed(let item): item.groups.reduce(item.name.bytes) { $0 + 32 + $1.utf8.count }
        case .requested(let request), .approved(let request): request.status.bytes + request.nick.bytes
        case .available(let presence): presence.show.bytes + presence.status.bytes
        case .notLoaded(let error): error?.weight ?? 0
        case .loaded, .removed, .refused, .unsubscribed, .unavailable: 0
        }
    }
}

extension RoomEvent: ForeignEvent {
    var foreignBytes: Int {
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

extension Element {
    /// About how many bytes of memory it takes with all that is in it.
    fileprivate var weight: Int {
        var sum = 256 + name.utf8.count + namespace.utf8.count
        for attribute in attributes { sum += 128 + attribute.name.utf8.count + attribute.value.utf8.count }
        for child in children {
            switch child {
            case .element(let element): sum += element.weight
            case .text(let text): sum += 64 + text.utf8.count
            }
        }
        return sum
    }
}

extension StanzaError {
    fileprivate var weight: Int { text.bytes + language.bytes }
}

extension ForeignText? {
    fileprivate var bytes: Int { self?.utf8.count ?? 0 }
}
