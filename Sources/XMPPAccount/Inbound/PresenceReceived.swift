public import Handlers
public import XMPPCore

/// The context of a standing handler that listens to presence; see ``Account/listenToPresence(as:_:ordered:in:)``.
///
/// ```swift
/// @Handler("door.presence")
/// static func seen(_ call: borrowing Call<PresenceReceived>) throws {
///     guard call.presence.type == nil, let from = call.presence.from else { return }
///     try call.step.execute("INSERT INTO visit(jid, at) VALUES (?, ?)", from.bare.description, call.step.now)
/// }
/// ```
public struct PresenceReceived: Sendable {
    /// The account that received it.
    public let account: Account
    /// The presence, of whatever type, errors too.
    public let presence: Presence
    /// While it is being delivered.
    var delivery: Deferral?
}

extension PresenceReceived: StoredContext, AccountContext {
    package func stored() throws -> [UInt8] { Serializer().bytes(presence.element) }

    package init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws {
        let element = try Element(
            stored: String(decoding: bytes, as: UTF8.self), defaultNamespace: Namespaces.client)
        self.init(account: try Account.serving(environment), presence: try Presence(element: element))
    }
}

extension Account {
    /// Calls a stored handler with every presence, after the modules.
    ///
    /// It runs in the process that receives the presence. The roster has already recorded it.
    ///
    /// ```swift
    /// try await account.perform { try account.listenToPresence(as: "door", Door.Seen().durable, in: $0) }
    /// ```
    ///
    /// - Parameters:
    ///   - key: Names this listener; the same key replaces it, so a program may call this at every start.
    ///   - handler: Called once for each presence, inside the step that counts it.
    ///   - isOrdered: Whether a presence waits while an earlier one is tried again, is parked or waits for a runner. False by default: a later
    ///     one is not held up by it. Another handler under this key, another version or other arguments do not wait
    ///     for calls of the handler before.
    ///   - step: The step that it commits with.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    public func listenToPresence(
        as key: String, _ handler: Durable<PresenceReceived>, ordered isOrdered: Bool = false,
        in step: borrowing Step
    ) throws {
        try listeners.set(ListenerTable.presence, key: key, to: handler, ordered: isOrdered, in: step)
    }

    /// Ends what ``listenToPresence(as:_:ordered:in:)`` started.
    ///
    /// - Parameters:
    ///   - key: The listener's name.
    ///   - step: The step that it commits with.
    /// - Returns: False if there was no listener under that key.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func stopListeningToPresence(as key: String, in step: borrowing Step) throws -> Bool {
        try listeners.remove(ListenerTable.presence, key: key, in: step)
    }

    package func listenToPresence(as key: String, _ handler: Durable<PresenceReceived>) async throws {
        try await perform { step in try self.listenToPresence(as: key, handler, in: step) }
    }
}
