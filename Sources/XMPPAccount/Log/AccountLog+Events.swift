extension AccountConfiguration {
    /// Tells the log what listeners are told.
    func note(_ event: AccountEvent) {
        switch event {
        case .bound(let jid): note(.info, .session, "bound \(jid): a new session")
        case .resumed(let jid): note(.info, .session, "resumed the session of \(jid)")
        case .suspended(let error): note(.info, .session, "suspended: \(error)")
        case .retrying(let wait, let reason):
            note(.info, .session, "trying again in \(wait / .milliseconds(1)) ms: \(reason)")
        case .sessionLost: note(.warning, .session, "the server keeps the last session no longer")
        case .ignored(let element, let reason):
            note(.warning, .handlers, "ignored <\(element.name)/>: \(reason)")
        case .setAside(let handler, let reason): note(.warning, .handlers, "set aside \(handler): \(reason)")
        case .handedOver: note(.info, .session, "handed over to another process")
        case .stopped(let error): note(.error, .session, "stopped: \(error)")
        }
    }
}
