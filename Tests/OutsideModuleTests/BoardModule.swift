import Foundation
import Handlers
import Synchronization
import XMPPAccount
import XMPPCore
import XMPPModules

/// Follows a notice board, a service that sends notices as messages of type `groupchat` and repeats those since a time.
///
///     start ──▶ <notices since/> ──▶ Answered: current ──▶ its feature is announced
///     notice ──▶ last ──deferred──▶ kept ──all handled──▶ released
///                  ▲                  └──lost session──┐
///                  └───────────────────────────────────┘
///
/// It stands outside of the package: it imports products and sees their public declarations only.
struct BoardModule: AccountModule {
    static let name = "board"
    static let namespace = "urn:example:board:0"
    /// Offered while the board has answered in this session.
    static let currentFeature = namespace + "#current"
    static let schema = Schema(
        module: "board",
        migrations: [
            """
            CREATE TABLE board(
                account TEXT PRIMARY KEY,
                nick TEXT NOT NULL,
                -- The time of the last notice and of the first deferred one, in milliseconds since 1970.
                last INTEGER NOT NULL DEFAULT 0,
                kept INTEGER,
                -- Whether the board has answered in this session, and whether the server has versions of rosters.
                is_current INTEGER NOT NULL DEFAULT 0,
                has_versions INTEGER NOT NULL DEFAULT 0);
            -- Notices of this account that the board has not sent back.
            CREATE TABLE board_post(account TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY(account, id));
            """
        ],
        handlers: [Answered.self])
    /// How far before the last notice the board may start to repeat.
    static let overlap = Duration.seconds(60)

    let board: JID
    let nick: String
    /// The parts of its life, in order.
    let life = Log()

    func register(in hooks: inout ModuleHooks) {
        hooks.dependencies = [DiscoModule.self]
        hooks.schema = Self.schema
        hooks.features = [Self.namespace]
        hooks.receiveOffer = receive(offered:for:in:)
        hooks.reset = reset
        hooks.start = start
        hooks.currentFeatures = features(of:in:)
        hooks.end = end
        hooks.stop = stop
        hooks.unwrap = unwrap
        hooks.receiveMessage = receive(_:in:)
        hooks.isOwn = isOwn
        hooks.messageDeferred = messageDeferred
        hooks.deferralsEnded = deferralsEnded
        hooks.neededMarks = neededMarks
        hooks.answer = answer
    }

    // MARK: Its row

    struct State {
        var nick: String
        var last: Int64
        var kept: Int64?
        var isCurrent: Bool
        var hasVersions: Bool
    }

    func state(of account: Account, in step: borrowing Step) throws -> State? {
        try step.first(
            "SELECT nick, last, kept, is_current, has_versions FROM board WHERE account = ?",
            account.configuration.jid.description
        ) { (row) throws(HandlerError) in
            State(
                nick: row.text(0), last: row.integer(1), kept: row.optionalInteger(2),
                isCurrent: row.integer(3) != 0, hasVersions: row.integer(4) != 0)
        }
    }

    /// Changes the row, which is made when it is missing.
    private func update(
        _ assignment: String, _ value: any SQLConvertible, of account: Account, in step: borrowing Step
    ) throws {
        let jid = account.configuration.jid.description
        try step.execute("INSERT OR IGNORE INTO board(account, nick) VALUES (?, ?)", jid, nick)
        try step.execute("UPDATE board SET \(assignment) WHERE account = ?2", value, jid)
    }

    // MARK: Sessions

    func receive(offered features: Set<ForeignText>, for account: Account, in step: borrowing Step) throws {
        let hasVersions = features.contains("urn:xmpp:features:rosterver")
        try update("has_versions = ?1", hasVersions ? 1 : 0, of: account, in: step)
    }

    func reset(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {
        life.append("reset \(scope)")
        if scope == .session { try update("is_current = ?1", 0, of: account, in: step) }
    }

    func start(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {
        life.append("begin \(scope)")
        guard scope == .session else { return }
        let last = try state(of: account, in: step)?.last ?? 0
        try account.send(.notices(at: board, since: last), then: Answered().durable, in: step)
    }

    /// The board has answered.
    struct Answered: Handler {
        static let id = "board.answered"
        func run(_ call: borrowing Call<IQReply>) throws {
            guard case .result = call.outcome else { return }
            let module = try call.account.module(BoardModule.self)
            try call.context.value(of: .notices(at: module.board, since: 0))
            try module.update("is_current = ?1", 1, of: call.account, in: call.step)
            try call.account.announceFeatures(in: call.step)
        }
    }

    func features(of account: Account, in step: borrowing Step) throws -> Set<String> {
        let isCurrent = try state(of: account, in: step)?.isCurrent ?? false
        return isCurrent ? [Self.namespace, Self.currentFeature] : [Self.namespace]
    }

    func end(of account: Account, in step: borrowing Step) throws {
        life.append("end")
        let farewell = Element("leave", namespace: Self.namespace)
        try account.send(Message(to: board, id: "leave", children: [farewell]), in: step)
    }

    func stop(_ account: Account) { life.append("stop") }

    // MARK: Notices

    /// Posts a notice.
    func post(_ notice: Message, of account: Account, in step: borrowing Step) throws {
        let id = try account.send(notice, in: step)
        try step.execute(
            "INSERT INTO board_post(account, id) VALUES (?, ?)", account.configuration.jid.description, id)
    }

    /// A digest holds one notice.
    func unwrap(
        _ message: Message, for account: Account, in step: borrowing Step
    ) throws -> UnwrappedMessage {
        guard let digest = message.element.child("digest", Self.namespace) else { return .untouched }
        guard message.from == board else { return .refused("a digest of another sender than the board") }
        guard let inner = digest.child("message", Namespaces.client) else { return .taken }
        return .message(try Message(element: inner), .direct)
    }

    func receive(_ received: MessageReceived, in step: borrowing Step) throws -> Bool {
        let (account, message) = (received.account, received.message)
        guard isFromBoard(message) else { return false }
        if received.isEcho, let id = message.originID {
            try step.execute(
                "DELETE FROM board_post WHERE account = ? AND id = ?",
                account.configuration.jid.description, id)
        }
        if let time = time(of: message) {
            try update("last = max(last, ?1)", time, of: account, in: step)
        }
        guard let nick = message.element.child("nick", Self.namespace) else { return false }
        try update("nick = ?1", nick.text, of: account, in: step)
        return true
    }

    func isOwn(
        _ message: Message, originID: ForeignText?, for account: Account, in step: borrowing Step
    ) throws -> Bool? {
        guard isFromBoard(message) else { return nil }
        if try message.from?.resource == state(of: account, in: step)?.nick { return true }
        guard let originID else { return false }
        return try step.first(
            "SELECT 1 FROM board_post WHERE account = ? AND id = ?", account.configuration.jid.description,
            originID
        ) { (row) throws(HandlerError) in row.integer(0) } != nil
    }

    private func isFromBoard(_ message: Message) -> Bool {
        message.type == .groupchat && message.from?.bare == board
    }

    /// When a notice was posted, in milliseconds since 1970.
    private func time(of message: Message) -> Int64? {
        message.element.child("notice", Self.namespace)?["at"].flatMap { Int64($0.string) }
    }

    // MARK: Notices that are handled later

    func messageDeferred(_ received: MessageReceived, in step: borrowing Step) throws {
        guard isFromBoard(received.message), let time = time(of: received.message) else { return }
        try update("kept = min(ifnull(kept, ?1), ?1)", time, of: received.account, in: step)
    }

    func deferralsEnded(isLost: Bool, of account: Account, in step: borrowing Step) throws {
        life.append(isLost ? "deferrals lost" : "deferrals released")
        if isLost { try update("last = ifnull(kept - ?1, last)", 1, of: account, in: step) }
        try update("kept = ?1", Int64?.none, of: account, in: step)
    }

    func neededMarks(of account: Account, in step: borrowing Step) throws -> NeededMarks {
        guard let state = try state(of: account, in: step) else { return NeededMarks() }
        return NeededMarks(
            areAllNeeded: state.kept != nil,
            senders: [board: Timestamp(milliseconds: state.last) - Self.overlap])
    }

    // MARK: Requests

    /// The own account sets the nickname; everybody may ask for the time of the last notice.
    func answer(_ request: IQ, for account: Account, in step: borrowing Step) throws -> ModuleAnswer? {
        guard let payload = request.payload, payload.namespace == ForeignText(Self.namespace) else {
            return nil
        }
        switch (request.type, payload.name) {
        case (.set, "nick"):
            guard try account.isFromOwnAccount(request.from, in: step) else {
                return .error(StanzaError(.forbidden))
            }
            try update("nick = ?1", payload.text, of: account, in: step)
            return .result(nil)
        case (.get, "last"):
            let last = try state(of: account, in: step)?.last ?? 0
            return .result(Element("last", namespace: Self.namespace, text: "\(last)"))
        default: return .error(StanzaError(.featureNotImplemented))
        }
    }
}

/// Says in presence what all modules understand, in full and not as a digest.
struct FeaturesInPresence: AccountModule {
    static let name = "features-in-presence"
    func register(in hooks: inout ModuleHooks) {
        hooks.extendPresence = extend
    }

    func extend(_ presence: inout Element, of account: Account, in step: borrowing Step) throws {
        let features = try account.features(in: step).sorted().joined(separator: " ")
        presence.append(Element("features", namespace: BoardModule.namespace, text: features))
    }
}

/// Lines that several threads add.
final class Log: Sendable {
    private let kept = Mutex<[String]>([])
    var lines: [String] { kept.withLock { $0 } }
    func append(_ line: String) { kept.withLock { $0.append(line) } }
}

extension AccountOperation where Context == IQReply, Value == Void {
    /// Asks a board to send its notices.
    static func notices(at board: JID, since last: Int64) -> AccountOperation {
        let query = Element("notices", namespace: BoardModule.namespace, attributes: ["since": "\(last)"])
        return AccountOperation { _ in
            IQ(type: .get, to: board, id: StanzaID.random(), payload: query)
        } value: { _ in
        }
    }
}
