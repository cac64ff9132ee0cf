import Handlers
import XMPPCore

extension AccountConfiguration {
    /// Tells the log that a listener is so slow that it does not get an event.
    func noteDropped(_ event: Any) {
        note(.warning, .handlers, "a listener is too slow and misses an event: \(type(of: event))")
    }

    /// The runner's configuration, whose failures are written to the log, too.
    var loggedRunner: HandlerRunner.Configuration {
        var logged = runner
        logged.onFailure = { error in
            note(error is HandlerFailure ? .error : .warning, .handlers, "\(error)")
            runner.onFailure(error)
        }
        return logged
    }

    /// Tells the log what listeners are told.
    func note(_ event: AccountEvent) {
        switch event {
        case .bound(let jid): note(.info, .session, "bound \(jid): a new session")
        case .resumed(let jid): note(.info, .session, "resumed the session of \(jid)")
        case .suspended(let error): note(.info, .session, "suspended: \(error)")
        case .retrying(let wait, let reason):
            note(.info, .session, "trying again in \(wait / .milliseconds(1)) ms: \(reason)")
        case .enabled(let window):
            let time = window.map { " for \($0 / .seconds(1)) s" } ?? ""
            note(.verbose, .session, "the server counts and keeps a broken session\(time)")
        case .notEnabled(let error):
            note(
                .warning, .session,
                "the server does not count: \(error.map { "\($0)" } ?? "it does not offer to")")
        case .streamManagementAnswered(let element):
            trace(.session, "the server answered <\(element.name)/>")
        case .acknowledgementRequested: trace(.session, "asked how much the server has handled")
        case .acknowledged(let stanzas): trace(.session, "the server took \(stanzas.count) stanzas")
        case .sessionLost(let error):
            note(
                .warning, .session,
                "the server keeps the last session no longer\(error.map { ": \($0)" } ?? "")")
        case .ignored(let element, let reason):
            note(.warning, .handlers, "ignored <\(element.name)/>: \(reason)")
        case .setAside(let handler, let call, let reason):
            note(.warning, .handlers, "set aside '\(handler)', called with \(call): \(reason)")
        case .moduleFailed(let module, let error):
            note(.warning, .handlers, "the module '\(module)' failed: \(error)")
        case .module(let event):
            guard let logged = event as? any LoggedEvent else {
                return trace(.handlers, "\(type(of: event))")
            }
            let module = type(of: logged).module
            note(logged.level, module, "\(logged)")
        case .handedOver: note(.info, .session, "handed over to another process")
        case .refused(let stanza, let reason):
            note(.error, .session, "not sent: stanza \(stanza.id ?? "without id"): \(reason)")
        case .stopped(let error): note(.error, .session, "stopped: \(error)")
        }
    }
}

/// What a module tells, in words for the log.
protocol LoggedEvent: ModuleEvent, CustomStringConvertible {
    static var module: AccountLog.Module { get }
    var level: AccountLog.Level { get }
}

extension LoggedEvent {
    /// Why something is not as it should be: the server's error, or that it did not answer.
    fileprivate static func reason(_ error: StanzaError?) -> String {
        error.map { "\($0)" } ?? "it did not answer in time"
    }
}

extension RosterChange: LoggedEvent {
    static let module = AccountLog.Module.roster

    var level: AccountLog.Level {
        switch self {
        case .notLoaded, .refused: .warning
        case .available, .unavailable: .verbose
        default: .info
        }
    }

    /// What changed, in one sentence.
    public var description: String {
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

extension BlockingChange: LoggedEvent {
    static let module = AccountLog.Module.roster

    var level: AccountLog.Level {
        switch self {
        case .notLoaded, .refused: .warning
        default: .info
        }
    }

    /// What changed, in one sentence.
    public var description: String {
        switch self {
        case .loaded: "the blocked addresses are those of the server"
        case .unsupported: "the server has no blocking"
        case .notLoaded(let error): "the server did not tell the blocked addresses: \(Self.reason(error))"
        case .blocked(let jids): "\(jids.count) addresses are blocked"
        case .unblocked(let jids): "\(jids.count) addresses are not blocked any more"
        case .unblockedAll: "nobody is blocked any more"
        case .refused(let jid): "\(jid) tried to change the blocked addresses, and may not"
        }
    }
}

extension CarbonsEvent: LoggedEvent {
    static let module = AccountLog.Module.messages

    var level: AccountLog.Level { if case .refused = self { .warning } else { .info } }

    /// What the server said, in one sentence.
    public var description: String {
        switch self {
        case .enabled: "copies of messages come from now on"
        case .refused(let error): "the server sends no copies of messages: \(Self.reason(error))"
        case .disabled: "copies of messages do not come any more"
        }
    }
}

extension DeliveryChange: LoggedEvent {
    static let module = AccountLog.Module.messages

    var level: AccountLog.Level { delivery.failure == nil ? .verbose : .warning }

    /// What is known of the delivery, in one sentence.
    public var description: String {
        let id = delivery.id
        if let failure = delivery.failure { return "the message \(id) did not arrive: \(failure)" }
        if delivery.deliveredAt != nil { return "the message \(id) arrived" }
        return delivery.acknowledgedAt == nil
            ? "the message \(id) is sent, attempt \(delivery.attempts)" : "the server has the message \(id)"
    }
}

extension ArchiveProgress: LoggedEvent {
    static let module = AccountLog.Module.archive

    var level: AccountLog.Level {
        switch state {
        case .failed: .warning
        case .complete: .info
        case .waiting, .fetching, .paused: .verbose
        }
    }

    /// How far it is, in one sentence.
    public var description: String {
        let count = total.map { "\(received) of about \($0)" } ?? "\(received)"
        return switch state {
        case .complete: "caught up with the archive of \(archive): \(count) messages"
        case .failed: "the catch-up with the archive of \(archive) failed: \(failure ?? "no reason given")"
        case .waiting: "the catch-up with the archive of \(archive) waits behind \(count) messages"
        case .fetching: "the catch-up with the archive of \(archive) goes on behind \(count) messages"
        case .paused: "the catch-up with the archive of \(archive) waits for the room"
        }
    }
}

extension PushChange: LoggedEvent {
    static let module = AccountLog.Module.push

    var level: AccountLog.Level { if case .enabled = self { .info } else { .warning } }

    /// What happened, in one sentence.
    public var description: String {
        switch self {
        case .enabled(let registration): "the server notifies \(registration.service)"
        case .notEnabled(let registration, let error):
            "the server does not notify \(registration.service): \(Self.reason(error))"
        case .revoked(let registration): "\(registration.service) takes no more notifications"
        }
    }
}

extension RoomEvent: LoggedEvent, CustomStringConvertible {
    static let module = AccountLog.Module.rooms

    var level: AccountLog.Level {
        switch change {
        case .refused, .timedOut, .nickRefused, .setupFailed, .messageRefused, .messageUnconfirmed: .warning
        case .occupant, .occupantRenamed, .occupantLeft, .subject: .verbose
        default: .info
        }
    }

    /// What happened in which room, in one sentence.
    public var description: String { "\(room): \(change.sentence)" }
}

extension RoomEvent.Change {
    fileprivate var sentence: String {
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
