public import Handlers
public import XMPPAccount
public import XMPPCore

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

// What becomes of a message that was sent with its delivery watched:
//
//     sent ──the server's count──▶ acknowledged ──the recipient's receipt──▶ delivered
//       │                               │
//       └──────── an error, or the time is over (sent again first, if that is wanted) ──▶ failed
//
// One row for each message; every arrow is a step. The handler of the program runs at the end, once.

/// Messages between two people: whether they arrived, receipts for those that come, and what the other side does.
///
/// ```swift
/// configuration.modules = [ChatModule(receipts: .nobody)]
/// ```
///
/// Source: XEP-0184, XEP-0085, XEP-0359.
public struct ChatModule: LibraryModule, AccountModule {
    /// The senders who get receipts. A receipt shows that this account is online (XEP-0184 section 8).
    ///
    /// ```swift
    /// let module = ChatModule(receipts: .everyone)
    /// ```
    public enum Receipts: Hashable, Sendable {
        /// Users who may see the account's presence, and recipients of ``Chat/send(_:within:attempts:then:in:)``.
        case contacts
        /// Everyone who requests a receipt.
        case everyone
        /// No receipt is ever sent.
        case nobody
    }

    package static let moduleName = "chat"

    /// The senders who get receipts.
    package let receipts: Receipts

    /// Makes the module.
    ///
    /// - Parameter receipts: Whose wish for a receipt is granted.
    public init(receipts: Receipts = .contacts) { self.receipts = receipts }

    package func install(in hooks: inout ModuleHooks) {
        hooks.schema = DeliveryTable.schema
        // XEP-0184 section 4: who announces it sends receipts.
        hooks.features = [Namespaces.chatStates]
        if receipts != .nobody { hooks.features.insert(Namespaces.receipts) }
        hooks.receiveMessage = receive(_:in:)
    }

    func receive(_ message: MessageReceived, in step: borrowing Step) throws -> Bool {
        let chat = message.account.chat
        if message.isEcho { try chat.recordEcho(message, in: step) }
        if message.message.type == .error {
            try chat.recordBounce(message, in: step)
            return false
        }
        if let id = message.message.receivedID {
            try chat.recordReceipt(of: id, message, in: step)
            return message.message.body == nil
        }
        try chat.confirmIfAsked(message, in: step)
        return false
    }

    /// XEP-0184 section 5: only what comes to this client is confirmed, not a copy of what came to another, not what was
    /// said in a room, and not what is looked up in an archive.
    func isToBeConfirmed(_ received: MessageReceived, in step: borrowing Step) throws -> Bool {
        let message = received.message
        guard received.source == .direct, message.id?.isEmpty == false,
            message.type != .groupchat, let from = message.from,
            from.bare != received.account.address
        else { return false }
        switch receipts {
        case .everyone: return true
        case .nobody: return false
        case .contacts: return try received.account.chat.isContact(from.bare, in: step)
        }
    }
}

/// The delivery of a sent message.
///
/// ```swift
/// let delivery = try account.store.read { try account.chat.delivery(of: id, in: $0) }
/// print(delivery?.deliveredAt ?? 0)
/// ```
public struct Delivery: ModuleEvent, Hashable {
    /// The reason why a message did not arrive.
    public enum Failure: Hashable, Sendable {
        /// The server or the recipient sent it back.
        case refused(OpenName<StanzaError>)
        /// There was no confirmation in time. The message may have arrived.
        case timedOut
        /// The account was logged out before the server had it.
        case loggedOut
    }

    /// The message's id.
    public let id: ForeignText
    /// The recipient.
    public let peer: JID
    /// When it was handed over to be sent.
    public let sentAt: Timestamp
    /// When the server was known to have it.
    public var acknowledgedAt: Timestamp?
    /// When the recipient's client was known to have it.
    public var deliveredAt: Timestamp?
    /// The number of attempts; lost streams do not count.
    public var attempts: Int
    /// The reason why the message did not arrive.
    public var failure: Failure?

    /// Whether nothing more is waited for.
    package var isOver: Bool { deliveredAt != nil || failure != nil }
}

/// The context of a handler that waits for the end of a delivery.
///
/// ```swift
/// @Handler("letters.over")
/// static func over(_ call: borrowing Call<DeliveryEnded>) throws {
///     guard let failure = call.delivery.failure else { return }
///     try call.step.execute("INSERT INTO lost(id, why) VALUES (?, ?)", call.delivery.id, "\(failure)")
/// }
/// ```
public struct DeliveryEnded: Sendable {
    /// The account that sent the message.
    public let account: Account
    /// Whether it arrived, and else why not.
    public let delivery: Delivery
}

extension DeliveryEnded: StoredContext, AccountContext {
    private struct Stored: Codable {
        var id: String
        var peer: JID
        var sentAt: Timestamp
        var acknowledgedAt: Timestamp?
        var deliveredAt: Timestamp?
        var attempts: Int
        var failure: String?
    }

    package func stored() throws -> [UInt8] {
        let stored = Stored(
            id: delivery.id.string, peer: delivery.peer, sentAt: delivery.sentAt,
            acknowledgedAt: delivery.acknowledgedAt, deliveredAt: delivery.deliveredAt,
            attempts: delivery.attempts, failure: delivery.failure.map(DeliveryTable.text))
        return try [UInt8](JSONEncoder().encode(stored))
    }

    package init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws {
        let stored = try JSONDecoder().decode(Stored.self, from: Data(bytes))
        self.init(
            account: try Account.serving(environment),
            delivery: Delivery(
                id: ForeignText(stored.id), peer: stored.peer, sentAt: stored.sentAt,
                acknowledgedAt: stored.acknowledgedAt, deliveredAt: stored.deliveredAt,
                attempts: stored.attempts, failure: stored.failure.map(DeliveryTable.failure)))
    }
}

extension Account {
    /// Messages between two people; see ``ChatModule``.
    public var chat: Chat { Chat(account: self) }
}
