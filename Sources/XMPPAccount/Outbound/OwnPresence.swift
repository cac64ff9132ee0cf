public import Handlers
package import XMPPCore

/// The available presence that this session sent, as the program gave it.
struct OwnPresenceTable {
    let account: Int64

    static let schema = Schema(
        module: "xmpp-own-presence",
        migrations: [
            """
            -- No row: not available. `late`: what the modules add to it has changed while there was no stream.
            CREATE TABLE own_presence(
                account INTEGER PRIMARY KEY,
                xml TEXT NOT NULL,
                late INTEGER NOT NULL DEFAULT 0);
            """
        ])

    /// Notes presence that is sent. What goes to one address alone, such as a room, is none of this.
    func record(_ presence: Presence, in step: borrowing Step) throws(HandlerError) {
        guard presence.to == nil else { return }
        switch presence.type {
        case nil: try set(presence.element, in: step)
        case .unavailable: try remove(in: step)
        default: break
        }
    }

    func set(_ presence: Element, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            INSERT INTO own_presence(account, xml) VALUES (?, ?)
            ON CONFLICT(account) DO UPDATE SET xml = excluded.xml, late = 0
            """, account, presence.serialized())
    }

    func remove(in step: borrowing Step) throws(HandlerError) {
        try step.write("DELETE FROM own_presence WHERE account = ?", account)
    }

    func current(in step: borrowing Step) throws -> Presence? {
        let xml = try step.first("SELECT xml FROM own_presence WHERE account = ?", account) { $0.text(0) }
        return try xml.map { try Presence(element: Element(parsing: $0)) }
    }

    func setLate(in step: borrowing Step) throws(HandlerError) {
        try step.write("UPDATE own_presence SET late = 1 WHERE account = ?", account)
    }

    func isLate(in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.first("SELECT 1 FROM own_presence WHERE account = ? AND late <> 0", account) {
            $0.integer(0)
        } != nil
    }
}

extension Account {
    /// Sends the account's presence again after its features changed (XEP-0115 section 6.1).
    ///
    /// It is the presence that the program sent last, with what the modules add to it now.
    ///
    /// Without a stream it is sent once the session is resumed; a new session sends it anyway. An account that is not
    /// available stays so.
    ///
    /// - Parameter step: The step that it commits with.
    /// - Throws: ``AccountError`` `outboxFull`; ``/Handlers/HandlerError`` when the store fails.
    public func announceFeatures(in step: borrowing Step) throws {
        guard let presence = try ownPresence.current(in: step) else { return }
        guard try sessions.openNumber(in: step) != nil else { return try ownPresence.setLate(in: step) }
        try send(presence, in: step)
    }

    /// Sends the changes of the time without a stream.
    func announceLate(in step: borrowing Step) throws {
        guard try ownPresence.isLate(in: step) else { return }
        try announceFeaturesAnyway(in: step)
    }

    /// Announces although the outbox may be full. A filter that stops it is reported.
    func announceFeaturesAnyway(in step: borrowing Step) throws {
        do {
            try usingReserve(in: step) { try announceFeatures(in: step) }
        } catch  where !step.isUsable {
            throw error
        } catch {
            ignore(
                Presence().element, "what the account understands now is not announced: \(error)", after: step
            )
        }
    }

    // MARK: For modules

    /// Reports an element that its sender must not send; nothing was changed.
    package func ignore(_ element: Element, _ reason: String, after step: borrowing Step) {
        let hub = hub
        step.afterCommit { hub.send(.ignored(element, reason: reason)) }
    }

    /// Reports a handler that a module called and that did not run to its end.
    ///
    /// - Parameter call: What it was called with, in a few words.
    package func report<Context>(
        _ disposition: Disposition, _ handler: HandlerID<Context>, _ call: String, after step: borrowing Step
    ) throws {
        guard let event = try AccountEvent(disposition, handler, call, in: step) else { return }
        let hub = hub
        step.afterCommit { hub.send(event) }
    }
}
