// Omemo: end-to-end encryption for several devices of each user (XEP-0384), in both its versions.
//
//     send ──▶ OmemoPlan ──what is missing──▶ fetch lists, bundles ──▶ advance ─┐   (the message waits in the store)
//                  │ nothing is missing                                         │
//                  ▼ ◀──────────────────────────────────────────────────────────┘
//     payload once, key for each device ──SignalSession──▶ ratchets + outbox rows, one commit
//
//     message ──▶ MessageTaken ──SignalSession──▶ ratchet + the program's handler + seen id + h, one commit
//                     └──▶ duties: answers, heartbeats, repairs, new bundles; done once the account has caught up

public import Handlers
import PubSub
public import XMPPAccount
public import XMPPCore

/// OMEMO of one account.
///
/// A value that refers to its account; make one whenever it is needed, through ``XMPPAccount/Account/omemo``.
///
/// ```swift
/// configuration.modules = .standard + [OmemoModule()]
/// let store = try HandlerStore(path: path, registry: .discovered(), schemas: Account.schemas + OmemoService.schemas)
/// let account = try Account(configuration, store: store)
/// try await account.omemo.listen(as: "chat", Conversation.heard())
/// try await account.connect()
/// try await account.omemo.start()
/// try await account.perform { try account.omemo.send(OmemoContent(body: "Good day"), to: juliet, in: $0) }
/// ```
public struct OmemoService: Sendable {
    /// The account in whose name it works.
    package let account: Account

    init(_ account: Account) { self.account = account }

    /// Stored handlers of this module and PubSub. Opening a store with ``schemas`` registers them.
    public static let handlers: [any Handler.Type] =
        PubSubService.handlers + [
            DeviceListFetched.self, BundleFetched.self, FetchAbandoned.self, BundlePublished.self,
            ListPublished.self, PublicationAbandoned.self, MessageTaken.self,
        ]

    /// The tables of this module; pass them to `HandlerStore`.
    public static let schemas: [Schema] = [OmemoDeviceListTable.schema]

    /// The versions that an account speaks, the preferred one first.
    package static let versions: [OmemoVersion] = [.omemo2, .legacy]

    /// The device lists that this account knows.
    package var deviceLists: OmemoDeviceListTable { OmemoDeviceListTable(account: account.id) }

    // MARK: Inside

    var ownJID: JID { account.address }
    var ownDevice: OwnDeviceTable { OwnDeviceTable(account: account.id) }
    var sessions: OmemoSessionTable { OmemoSessionTable(account: account.id) }
    var identities: OmemoIdentityTable { OmemoIdentityTable(account: account.id) }
    var fetches: OmemoFetchTable { OmemoFetchTable(account: account.id) }
    var waiting: OmemoWaitingTable { OmemoWaitingTable(account: account.id) }
    var duties: OmemoDutyTable { OmemoDutyTable(account: account.id) }
    var rooms: OmemoRoomTable { OmemoRoomTable(account: account.id) }
    var publications: OmemoPublicationTable { OmemoPublicationTable(account: account.id) }

    // MARK: Device lists

    /// Requests a user's device list and merges the answer into the stored one.
    ///
    /// Only the answer that there is no list means that the user has no devices. After an error, a timeout or a lost
    /// session nothing is known, and what is stored stays as it is.
    ///
    /// - Parameters:
    ///   - jid: The user, or the own address; its resource is ignored.
    ///   - version: Which of the two lists.
    ///   - then: Called in the step that merges, with what changed.
    ///   - orElse: Called with the reason when the answer can never come.
    ///   - step: The step that it commits with.
    /// - Returns: The request's id, which `Account.cancelRequest(id:in:)` takes.
    /// - Throws: ``/XMPPAccount/AccountError`` `outboxFull`; ``/Handlers/HandlerError`` when the store fails.
    ///
    /// Source: XEP-0384 sections 5.2 and 5.3.1.
    @discardableResult
    public func refresh(
        _ jid: JID, _ version: OmemoVersion, then: Durable<OmemoRefresh>? = nil,
        orElse: Durable<Invalidation>? = nil, in step: borrowing Step
    ) throws -> String {
        // The newest item, not "current": lists of some clients stand under other ids.
        // Invalidated with the program's handler inside; without one, by itself.
        let fetched = try DeviceListFetched(version: version, then: then?.orElse(orElse)).durable
        return try account.send(
            .pubsub(.items(of: version.deviceListNode, .newest(1)), at: jid.bare), then: fetched,
            orElse: then == nil ? orElse : nil, in: step)
    }
}

extension Account {
    /// OMEMO in the name of this account.
    public var omemo: OmemoService { OmemoService(self) }
}
