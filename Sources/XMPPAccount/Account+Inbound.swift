import Handlers
package import XMPPCore

extension Account {
    /// Makes the inbound step of a session.
    package func inboundStep(
        own: JID, session: Int64, isManaged: Bool = true, flushMark: Int64 = .max, now: Duration,
        management: StreamManagement
    ) -> InboundStep {
        InboundStep(
            tables: tables, receiver: self, own: own, session: session, isManaged: isManaged,
            flushMark: flushMark, now: now, management: management)
    }
}

extension Account: InboundReceiver {
    func unwrapped(_ message: Message, in step: borrowing Step) throws -> UnwrappedMessage {
        var unwrapped = UnwrappedMessage.untouched
        try showModules(in: step) { module in
            unwrapped = try module.hooks.unwrap?(message, self, step) ?? .untouched
            if case .untouched = unwrapped { return false }
            return true
        }
        return unwrapped
    }

    func receive(_ message: InboundMessage, in step: borrowing Step) throws -> Bool {
        guard !modules.modules.isEmpty else { return false }
        let received = MessageReceived(account: self, message)
        let isTaken = try showModules(in: step) { module in
            try module.hooks.receiveMessage?(received, step) ?? false
        }
        return isTaken || message.isEcho
    }

    func recordDeferred(_ message: InboundMessage, in step: borrowing Step) throws {
        try showAll(in: step) { try $0.messageDeferred?(MessageReceived(account: self, message), step) }
    }

    func receive(_ presence: Presence, in step: borrowing Step) throws {
        try showAll(in: step) { try $0.receivePresence?(presence, self, step) }
    }

    func receiveUnreadable(_ root: Element, in step: borrowing Step) throws {
        try showAll(in: step) { try $0.receiveUnreadable?(root, self, step) }
    }

    /// One that fails answers with an error (RFC 6120 section 8.3.3).
    func answer(_ request: IQ, in step: borrowing Step) throws -> ModuleAnswer? {
        var answer: ModuleAnswer?
        try showModules(in: step, stopsAtError: true) { module in
            answer = .error(StanzaError(.internalServerError))
            answer = try module.hooks.answer?(request, self, step)
            return answer != nil
        }
        return answer
    }

    func call<Context: Sendable>(
        _ handler: HandlerID<Context>, in step: borrowing Step, with context: (Account) -> Context
    ) throws -> Disposition {
        try step.call(handler, with: context(self))
    }

    func end<Context: Sendable>(
        _ handler: HandlerID<Context>, _ outcome: Outcome, in step: borrowing Step,
        with context: (Account) -> Context, staysIf: () throws -> Bool
    ) throws -> Disposition {
        try step.endAlone(handler, outcome, with: context(self), staysIf: staysIf)
    }
}
