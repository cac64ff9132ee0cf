public import Handlers
public import XMPPAccount
public import XMPPCore

/// Registrations of an account with push services.
///
/// It needs ``PushModule`` in the account's configuration. A program may enable the same registration at every start:
/// the server is asked only when it does not have it yet.
///
/// ```swift
/// try await account.perform { try account.push.enable(PushRegistration(service: service, node: token), in: $0) }
/// ```
public struct PushNotifications: Sendable {
    /// Account that sends the requests.
    package let account: Account

    init(_ account: Account) { self.account = account }

    private var table: PushTable {
        get throws {
            _ = try account.module(PushModule.self)
            return PushTable(account: account.id)
        }
    }

    // MARK: Reading

    /// Returns the registrations that are to be enabled, by service and node.
    ///
    /// - Parameter source: The step or snapshot to read in.
    /// - Returns: The registrations; ``state(of:node:in:)`` says what the server thinks of each.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule`; ``/Handlers/HandlerError`` when the store fails.
    public func registrations(in source: borrowing some Readable) throws -> [PushRegistration] {
        try table.all(in: source).map(\.registration)
    }

    /// Returns the state of a registration. Nil if it is to be disabled or was never enabled.
    ///
    /// - Parameters:
    ///   - service: The push service.
    ///   - node: The node there; nil for a registration without one.
    ///   - source: The step or snapshot to read in.
    /// - Returns: The state in this session.
    /// - Throws: ``/XMPPAccount/AccountError`` `missingModule`; ``/Handlers/HandlerError`` when the store fails.
    public func state(of service: JID, node: (any TextConvertible)?, in source: borrowing some Readable)
        throws
        -> PushState?
    {
        try table.find(service, node?.foreignText, in: source)?.state
    }

    // MARK: Enabling

    /// Lets the server notify a push service until that is disabled.
    ///
    /// In this and every later session.
    ///
    /// The registration is stored; the server is asked when it does not have it in this session, or has it with other
    /// options. ``PushChange`` reports the result.
    ///
    /// - Parameters:
    ///   - registration: Service, node and options; it replaces one of the same service and node.
    ///   - then: Called with the answer, at once if the server has the registration already; nil for none.
    ///   - orElse: Called with the reason when the answer can never come; the next session asks again all the same.
    ///   - step: The step that it commits with.
    /// - Throws: ``/XMPPAccount/AccountError`` `outboxFull`, `missingModule`; ``/Handlers/HandlerError`` when the store fails.
    ///
    /// Source: XEP-0357 section 5.
    public func enable(
        _ registration: PushRegistration, then: Durable<PushAnswer>? = nil,
        orElse: Durable<Invalidation>? = nil, in step: borrowing Step
    ) throws {
        let table = try table
        let stored = try table.find(registration.service, registration.node, in: step)
        let then = try then?.orElse(orElse)
        guard let stored, stored.registration == registration else {
            return try send(registration, then: then, in: step)
        }
        let isUnderWay = try stored.state == .pending && table.isWaiting(stored.asked, in: step)
        switch (stored.state, then) {
        case (.enabled, nil): break
        case (.enabled, let then?):
            let answer = PushAnswer(
                account: account, service: registration.service, node: registration.node, outcome: .done)
            try step.end(step.bind(then), .result, with: answer)
        case (.pending, nil) where isUnderWay: break
        default: try send(registration, then: then, in: step)
        }
    }

    // MARK: Disabling

    /// Lets the server notify a push service no more, or about one node no more.
    ///
    /// - Parameters:
    ///   - service: The push service.
    ///   - node: The node; nil for all of the service's, those of other clients of the account included.
    ///   - then: Called with the answer; nil for none.
    ///   - orElse: Called with the reason when the answer can never come.
    ///   - step: The step that it commits with.
    /// - Throws: ``/XMPPAccount/AccountError`` `outboxFull`, `missingModule`; ``/Handlers/HandlerError`` when the store fails.
    ///
    /// Source: XEP-0357 section 6.
    public func disable(
        _ service: JID, node: (any TextConvertible)?, then: Durable<PushAnswer>? = nil,
        orElse: Durable<Invalidation>? = nil, in step: borrowing Step
    ) throws {
        _ = try table
        try remove(service, node: node, then: then?.orElse(orElse), in: step)
    }

    // MARK: Inside

    func send(_ registration: PushRegistration, then: Durable<PushAnswer>?, in step: borrowing Step) throws {
        guard ForeignBounds.fitKey(registration.service, registration.node ?? "") else {
            throw AccountError(
                .invalidStanza,
                "the address of a push service and its node have \(ForeignBounds.key) bytes together at most")
        }
        let id = StanzaID.random()
        try PushTable(account: account.id).set(registration, asked: ForeignText(id), in: step)
        let enabled = PushEnabled(service: registration.service, node: registration.node?.string, then: then)
        try account.send(
            .iq(IQ(type: .set, id: id, payload: registration.enableElement)), then: Durable(enabled), in: step
        )
    }

    func remove(
        _ service: JID, node: (any TextConvertible)?, then: Durable<PushAnswer>?, in step: borrowing Step
    ) throws {
        let table = PushTable(account: account.id)
        let id = StanzaID.random()
        try table.remove(service, node: node?.foreignText, in: step)
        let row = try table.addRemoval(service, node: node?.foreignText, asked: ForeignText(id), in: step)
        try send(
            id, PushDisabled(row: row, service: service, node: node?.foreignText.string, then: then), in: step
        )
    }

    func sendAgain(_ removal: PushTable.Removal, in step: borrowing Step) throws {
        let id = StanzaID.random()
        try PushTable(account: account.id).setAsked(ForeignText(id), removal: removal.row, in: step)
        let disabled = PushDisabled(
            row: removal.row, service: removal.service, node: removal.node?.string, then: nil)
        try send(id, disabled, in: step)
    }

    private func send(_ id: String, _ disabled: PushDisabled, in step: borrowing Step) throws {
        let payload = PushRegistration.disableElement(
            disabled.service, node: disabled.node.map { ForeignText($0) })
        try account.send(.iq(IQ(type: .set, id: id, payload: payload)), then: Durable(disabled), in: step)
    }
}

extension Account {
    /// Push services that the server notifies.
    public var push: PushNotifications { PushNotifications(self) }
}
