package import Handlers
package import XMPPCore

extension AccountConfiguration {
    /// Logs that a listener is too slow to get an event.
    func logDropped(_ event: Any) {
        log(.warning, .handlers, "a listener is too slow and misses an event: \(type(of: event))")
    }

    /// The runner's configuration, whose failures are written to the log, too.
    var loggedRunner: HandlerRunner.Configuration {
        var logged = runner
        logged.onFailure = { error in
            log(error is HandlerFailure ? .error : .warning, .handlers, "\(error)")
            runner.onFailure(error)
        }
        return logged
    }

    /// Logs the events of listeners.
    func log(_ event: AccountEvent) {
        switch event {
        case .bound(let jid): log(.info, .session, "bound \(jid): a new session")
        case .resumed(let jid): log(.info, .session, "resumed the session of \(jid)")
        case .suspended(let error): log(.info, .session, "suspended: \(error)")
        case .retrying(let wait, let reason):
            log(.info, .session, "trying again in \(wait / .milliseconds(1)) ms: \(reason)")
        case .enabled(let window):
            let time = window.map { " for \($0 / .seconds(1)) s" } ?? ""
            log(.verbose, .session, "the server counts and keeps a broken session\(time)")
        case .notEnabled(let error):
            log(
                .warning, .session,
                "the server does not count: \(error.map { "\($0)" } ?? "it does not offer to")")
        case .streamManagementAnswered(let element):
            trace(.session, "the server answered <\(element.name)/>")
        case .acknowledgementRequested: trace(.session, "sent an ack request")
        case .acknowledged(let stanzas): trace(.session, "the server took \(stanzas.count) stanzas")
        case .sessionLost(let error):
            log(
                .warning, .session,
                "the server keeps the last session no longer\(error.map { ": \($0)" } ?? "")")
        case .ignored(let element, let reason):
            log(.warning, .handlers, "ignored <\(element.name)/>: \(reason)")
        case .unfinished(let handler, let call, let reason):
            log(.warning, .handlers, "'\(handler)' did not finish, called with \(call): \(reason)")
        case .moduleFailed(let module, let error):
            log(.warning, .handlers, "the module '\(module)' failed: \(error)")
        case .module(let event):
            guard let logged = event as? any LoggedEvent else {
                return trace(.handlers, "\(type(of: event))")
            }
            let module = type(of: logged).module
            log(logged.level, module, "\(logged)")
        case .dropped(let count): log(.warning, .handlers, "a listener missed \(count) events")
        case .handedOver: log(.info, .session, "handed over to another process")
        case .refused(let stanza, let reason):
            log(.error, .session, "not sent: stanza \(stanza.id ?? "without id"): \(reason)")
        case .stopped(let error): log(.error, .session, "stopped: \(error)")
        }
    }
}

/// An event of a module as text for the log.
package protocol LoggedEvent: ModuleEvent, CustomStringConvertible {
    static var module: AccountLog.Module { get }
    var level: LogLevel { get }
    /// What happened, in one sentence: the description of the event.
    var sentence: String { get }
}

extension LoggedEvent {
    public var description: String { sentence }

    /// Returns the reason of a failure: the server's error, or that it did not answer.
    package static func reason(_ error: StanzaError?) -> String {
        error.map { "\($0)" } ?? "it did not answer in time"
    }
}
