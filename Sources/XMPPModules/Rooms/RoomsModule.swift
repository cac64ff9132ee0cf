// Rooms: what the account wants is a row; presence, messages and answers move it on, in the step that takes them in.
//
//     join ──▶ row "room": wanted ──presence──▶ joining ──own presence──▶ joined ──▶ occupants, subject, cursor
//                ▲      ▲                          │ error, no answer       │ silence: ping (XEP-0410)
//                │      └── a new session ─────────┴────────────────────────┘
//                └── left: by leave(), or put out
//
// After a resumption nothing is asked again. In a new session every wanted room is joined with its stored cursor.

import Handlers
public import XMPPAccount
public import XMPPCore

/// Module for rooms (XEP-0045) that the account stays in.
///
/// It stays over deaths of the process and lost sessions, checked by pings (XEP-0410).
///
/// ```swift
/// configuration.modules = [RoomsModule()]
/// …
/// let end = try await account.rooms.join(try JID("council@conference.capulet.example"), as: "Juliet")
/// ```
public struct RoomsModule: LibraryModule, AccountModule {
    package static let moduleName = "rooms"

    /// The timeout of joining a room, in connected time.
    package var joinTimeout: Duration
    /// After how much silence, in connected time, a room is asked whether the account is still in it.
    package var silence: Duration
    /// After how much connected time a room that could not be joined again is asked once more.
    package var retryDelay: Duration

    /// Makes the module. A time of less than a second counts as a second.
    ///
    /// - Parameters:
    ///   - joinTimeout: How long a room may take to let the account in, in connected time.
    ///   - silence: After how much silence, in connected time, a room is asked whether the account is still in it.
    ///   - retryDelay: After how much connected time a room that could not be joined again is asked once more.
    public init(
        joinTimeout: Duration = .seconds(60), silence: Duration = .seconds(900),
        retryDelay: Duration = .seconds(60)
    ) {
        self.joinTimeout = max(.seconds(1), joinTimeout)
        self.silence = max(.seconds(1), silence)
        self.retryDelay = max(.seconds(1), retryDelay)
    }

    package func install(in hooks: inout ModuleHooks) {
        hooks.schema = RoomTable.schema
        hooks.features = [Namespaces.muc, Namespaces.conference]
        hooks.reset = reset
        hooks.start = start
        hooks.end = end
        hooks.extendMessage = extend
        hooks.receivePresence = receive(_:for:in:)
        hooks.unwrap = unwrap
        hooks.receiveMessage = receive(_:in:)
        hooks.isOwn = isOwn
        hooks.messageDeferred = messageDeferred
        hooks.deferralsEnded = deferralsEnded
        hooks.neededMarks = neededMarks
    }

    func reset(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {
        guard scope == .session else { return }
        try account.rooms.table.forgetSession(in: step)
    }

    func start(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {
        for room in try account.rooms.table.untried(in: step) {
            try account.rooms.ask(room, in: step)
        }
    }

    /// Leaves all rooms, because their occupants are not tracked without the module.
    func end(of account: Account, in step: borrowing Step) throws { try account.rooms.leaveAll(in: step) }

    /// Marks a private message to an occupant (XEP-0045 section 7.5). Without the mark, another client of the account takes the
    /// carbon copy for the message of a contact whose address is that of the room.
    func extend(_ message: inout Element, of account: Account, in step: borrowing Step) throws {
        guard message.child("x", Namespaces.mucUser) == nil,
            let to = message["to"].flatMap({ try? JID(received: $0) }),
            try account.knownRoom(to, in: step) != nil
        else { return }
        message.append(Element("x", namespace: Namespaces.mucUser))
    }

    func receive(_ presence: Presence, for account: Account, in step: borrowing Step) throws {
        try account.rooms.handle(presence, in: step)
    }

    func unwrap(
        _ message: Message, for account: Account, in step: borrowing Step
    ) throws -> UnwrappedMessage { try account.rooms.signs.unwrap(message, in: step) }

    func receive(_ message: MessageReceived, in step: borrowing Step) throws -> Bool {
        try message.account.rooms.handle(message, in: step)
    }

    func isOwn(
        _ message: Message, originID: ForeignText?, for account: Account, in step: borrowing Step
    ) throws -> Bool? {
        guard let room = try account.knownRoom(message.from, in: step) else { return nil }
        if try room.occupant == message.from { return true }
        guard let originID else { return false }
        return try account.rooms.table.isUnconfirmed(originID, to: room.jid, in: step)
    }

    /// Makes a deferred message that is lost arrive again with the room's history.
    func messageDeferred(_ message: MessageReceived, in step: borrowing Step) throws {
        let (account, message) = (message.account, message.message)
        guard message.type == .groupchat, let room = try account.knownRoom(message.from, in: step) else {
            return
        }
        try account.rooms.table.keepTime(message.delay ?? step.now, of: room.jid, in: step)
    }

    func deferralsEnded(isLost: Bool, of account: Account, in step: borrowing Step) throws {
        let table = account.rooms.table
        if isLost { try table.goBack(in: step) } else { try table.releaseTimes(in: step) }
    }

    /// Returns the marks of all rooms: a quiet room sends its last messages again on joining, however old they are.
    func neededMarks(of account: Account, in step: borrowing Step) throws -> NeededMarks {
        let table = account.rooms.table
        let times = try table.lastTimes(in: step).compactMap { room, time in
            (try? JID(received: room)).map { ($0, time - ArchiveTable.overlap * 2) }
        }
        return NeededMarks(
            areAllNeeded: try table.keepsTime(in: step),
            senders: Dictionary(times, uniquingKeysWith: min))
    }
}

extension Account {
    /// Rooms in the name of this account, which needs ``RoomsModule``.
    public var rooms: Rooms { Rooms(account: self) }

    /// Returns the room of a sender, if the account is or was in it.
    func knownRoom(_ sender: JID?, in step: borrowing Step) throws -> Room? {
        guard let sender, moduleIfPresent(RoomsModule.self) != nil else { return nil }
        return try rooms.table.room(sender.bare, in: step)
    }
}

extension ErrorCode<AccountError> {
    /// The account neither is in that room nor wants to be.
    public static var notInRoom: Self { Self(rawValue: "not-in-room") }
}
