import Handlers
public import XMPPAccount
public import XMPPCore

// Catching up with what was archived while nobody was connected:
//
//     begin session ─▶ waiting ─▶ page after the stored id ─▶ result, result, … ─▶ fin ─▶ next page … ─▶ complete
//                        ▲                                     each moves the id on, in the step that takes it in
//                        └── lost session, no answer: from the id that is stored by then
//
// After a resumption nothing is asked again: the answer comes, or the server sends it once more.

/// Fetches new messages of an archive, in pages, from a stored place.
///
/// Messages come to listeners as ordinary ones whose ``/XMPPAccount/MessageReceived/source`` is `archive`, in the order of the
/// archive,
/// each once: what came live, or came before, is recognized. Memory stays within some pages, whatever waits.
///
/// ```swift
/// configuration.modules = [ArchiveModule(history: .seconds(7 * 86_400))]
/// ```
///
/// Source: XEP-0313, XEP-0059.
public struct ArchiveModule: LibraryModule, AccountModule {
    package static let moduleName = "archive"

    /// The number of messages in a request, 1 to 250; servers may send fewer.
    package let pageSize: Int
    /// The age of the oldest message that the first catch-up fetches; nil for all messages.
    package let history: Duration?
    /// The number of archives that are fetched at the same time, 1 or more; the account's own is first.
    package let concurrency: Int

    /// Makes the module.
    ///
    /// - Parameters:
    ///   - pageSize: How many messages are asked for at once, 1 to 250; what is beyond is cut off.
    ///   - history: How far back the first catch-up of an archive goes; nil for everything that is there.
    ///   - concurrency: How many archives are fetched from at the same time, 1 or more.
    public init(pageSize: Int = 250, history: Duration? = .seconds(14 * 86400), concurrency: Int = 2) {
        self.pageSize = min(max(1, pageSize), 250)
        self.history = history
        self.concurrency = max(1, concurrency)
    }

    package func install(in hooks: inout ModuleHooks) {
        hooks.schema = ArchiveTable.schema
        hooks.reset = reset
        hooks.start = start
        hooks.unwrap = unwrap
        hooks.receiveMessage = receive(_:in:)
        hooks.receiveUnreadable = receive(unreadable:for:in:)
        hooks.messageDeferred = messageDeferred
        hooks.deferralsEnded = deferralsEnded
        hooks.neededMarks = neededMarks
    }

    func reset(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {
        guard scope == .session else { return }
        try ArchiveTable(account: account.id).forgetQueries(in: step)
    }

    func start(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {
        guard scope == .session else { return }
        let own = try account.ownAddress(in: step)
        // What was fetched before the server had named the account is of the same archive.
        if own != account.configuration.jid {
            try ArchiveTable(account: account.id).rename(account.configuration.jid, to: own, in: step)
        }
        try account.archive.catchUp(own, in: step)
    }

    func unwrap(
        _ message: Message, for account: Account, in step: borrowing Step
    ) throws -> UnwrappedMessage {
        guard let result = message.element.child("result", Namespaces.mam) else { return .untouched }
        let own = try account.ownAddress(in: step)
        let table = ArchiveTable(account: account.id)
        let sender = message.from ?? own
        let forwarded = result.child("forwarded", Namespaces.forward)
        let storedAt = forwarded?.child("delay", Namespaces.delay)?["stamp"].flatMap { Timestamp($0) }
        // XEP-0313 section 4.2: only whom we asked may say what the archive holds.
        let query = result["queryid"]
        guard let id = result["id"].flatMap(\.token), !id.isEmpty else {
            if let query, try table.isUnderWay(query, of: sender, in: step) {
                try table.recordUnread(in: sender, in: step)
            }
            return .refused("an archived message without an id that can be used")
        }
        guard let query,
            let archive = try table.take(id, at: storedAt, by: query, from: sender, in: step)
                // One that is not handled yet comes once more with a resumed stream, when its query may be over.
                ?? (account.isDeferred(id, of: sender, in: step) ? sender : nil)
        else { return .refused("an archived message that was not asked for") }
        guard let inner = forwarded?.child("message", Namespaces.client),
            let kept = try? Message(forwarded: inner, of: archive == own ? own : nil)
        else { return .refused("an archived message that cannot be read") }
        // A room's archive holds what was said there and nothing else.
        guard archive == own || kept.from?.bare.isForm(of: archive) == true else {
            return .refused("an archived message from elsewhere in the archive of \(archive)")
        }
        let now = step.now
        return .message(kept, .archive(archive, id: id, storedAt: storedAt ?? now))
    }

    func receive(_ message: MessageReceived, in step: borrowing Step) throws -> Bool {
        if case .archive = message.source { return false }
        guard let id = message.archiveID else { return false }
        try ArchiveTable(account: message.account.id).recordLive(message.archive, id, in: step)
        return false
    }

    func receive(unreadable root: Element, for account: Account, in step: borrowing Step) throws {
        try account.archive.recordUnread(root, in: step)
    }

    // MARK: What must arrive again, and be recognized

    /// Servers leave messages to archives: a lost one is fetched from there.
    func messageDeferred(_ message: MessageReceived, in step: borrowing Step) throws {
        var time = step.now
        if case .archive(_, _, let storedAt) = message.source { time = min(time, storedAt) }
        try ArchiveTable(account: message.account.id).keepPlace(
            in: message.archive, isNamed: message.archiveID != nil, at: time, in: step)
    }

    func deferralsEnded(isLost: Bool, of account: Account, in step: borrowing Step) throws {
        let table = ArchiveTable(account: account.id)
        if isLost { try table.goBack(in: step) } else { try table.releasePlaces(in: step) }
    }

    /// Returns the marks from the last known place of each archive on, where duplicates start.
    func neededMarks(of account: Account, in step: borrowing Step) throws -> NeededMarks {
        let table = ArchiveTable(account: account.id)
        let own = try account.ownAddress(in: step)
        var needed = NeededMarks(areAllNeeded: try table.isCatchingUp(in: step) || table.keepsPlace(in: step))
        if try account.archive.isInUse(own, in: step) {
            needed.since = try table.lastTime(in: own, in: step).map { $0 - ArchiveTable.overlap * 2 }
        }
        return needed
    }
}

/// The progress of the catch-up with an archive.
///
/// ```swift
/// for await progress in account.events(of: ArchiveProgress.self) where progress.state == .complete {
///     print("\(progress.received) messages came out of \(progress.archive)")
/// }
/// ```
public struct ArchiveProgress: ModuleEvent, Hashable {
    /// The state of a catch-up.
    public enum State: Int64, Hashable, Sendable {
        /// Everything was fetched.
        case complete = 0
        /// It waits for its turn, or to be tried again.
        case waiting = 1
        /// A page is on its way.
        case fetching = 2
        /// The server refuses; see ``ArchiveProgress/failure``. It is tried again in the next session.
        case failed = 3
        /// It is a room's, and the room was not joined in this session yet.
        case paused = 4
    }

    /// The ``failure`` of an archive that sends the same pages for ever, or pages that bring nothing.
    package static let standsStill = "stands-still"

    /// The address of the archive: the account's bare address, or a room's.
    public var archive: JID
    /// The state of the catch-up.
    public var state: State
    /// The number of messages received in this catch-up.
    public var received: Int
    /// The total number of messages, if the server sends it. It may be an estimate.
    public var total: Int?
    /// Why it failed: the condition of the error, or `standsStill`.
    public var failure: ForeignText?
}

extension ArchiveProgress.State: StoredState {}

extension Account {
    /// The archives of this account and of its rooms.
    public var archive: Archive { Archive(account: self) }
}
