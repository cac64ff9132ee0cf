public import Handlers
public import XMPPAccount

/// The modules of this library.
///
/// ```swift
/// configuration.modules = .standard + [OmemoModule()]
/// ```
package enum AccountModules {
    /// The tables of all of them, part of `Account.schemas`.
    static let schemas: [Schema] = [
        CapabilityTable.schema, RosterModule.schema, BlockingModule.schema, CarbonsModule.schema,
        DeliveryTable.schema, ArchiveTable.schema, RoomTable.schema, PushModule.schema,
    ]

    package static var standard: [any AccountModule] {
        [
            DiscoModule(), RosterModule(), BlockingModule(), CarbonsModule(), ChatModule(), ArchiveModule(),
            RoomsModule(), PushModule(),
        ]
    }

    package static var bot: [any AccountModule] {
        [DiscoModule(), RosterModule(), BlockingModule(), ChatModule(), RoomsModule(), PushModule()]
    }
}

extension Account {
    /// The tables of an account and of this library's modules. Pass them to ``/Handlers/HandlerStore`` together with the
    /// application's own.
    ///
    /// ```swift
    /// let store = try HandlerStore(path: "app.db", registry: .discovered(), schemas: Account.schemas + [orders])
    /// ```
    public static let schemas: [Schema] = coreSchemas + [VCards.schema] + AccountModules.schemas
}

extension Array where Element == any AccountModule {
    /// The modules of a messenger.
    ///
    /// ```swift
    /// configuration.modules = .standard + [OmemoModule()]
    /// ```
    public static var standard: [any AccountModule] { AccountModules.standard }

    /// The modules of a bot: ``standard`` without catch-up with archives and without copies of what other clients of the
    /// account send and receive.
    ///
    /// A bot that starts with an empty or restored store so gets no messages that it may have answered before. What the
    /// server keeps for a client that is not connected (XEP-0160) still comes. Room history comes as well; see
    /// ``/XMPPAccount/MessageReceived/isHistory``.
    public static var bot: [any AccountModule] { AccountModules.bot }
}

extension AccountLog.Module {
    package static let roster = Self("roster")
    package static let rooms = Self("rooms")
    package static let archive = Self("archive")
    package static let messages = Self("messages")
    package static let disco = Self("disco")
    package static let push = Self("push")
}
