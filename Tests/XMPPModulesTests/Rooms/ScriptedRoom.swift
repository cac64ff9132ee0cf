import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import XMPPTestKit

/// A room inside the scripted server: what it answers is up to the test.
final class ScriptedRoom: Sendable {
    static let jid = try! JID("council@conference.localhost")  // A constant that is an address.

    /// What becomes of who wants to come in.
    enum Door: Sendable {
        case open(codes: [Int] = [], nick: String? = nil)
        case shut(StanzaError)
        case silent
    }

    struct State: Sendable {
        var door = Door.open()
        /// Nicknames of others, in their order.
        var others = ["Romeo"]
        /// What is sent to who comes in: at which time, and what.
        var history: [(time: Timestamp, message: Element)] = []
        var subject = Element("subject", namespace: Namespaces.client)
        /// Whether messages are sent back.
        var reflects = true
        /// What a ping is answered with; nil for nothing.
        var ping: IQReply.Outcome? = .result(nil)
        /// The full addresses that are in.
        var inside: [String: String] = [:]
        /// What came, in order.
        var received: [Element] = []
    }

    let state = Kept(State())
    private let server: ScriptedServer

    init(_ rig: AccountRig) {
        server = rig.server
        server.setScript { [state] element, info in
            guard let to = element["to"].flatMap({ try? JID($0) }), to.bare == Self.jid, let jid = info.jid
            else { return .pass }
            let answers = state.withLock { $0.take(element, to: to, from: jid.description) }
            return answers.isEmpty ? .drop : .answer(answers)
        }
    }

    func change(_ change: (inout State) -> Void) { state.withLock { change(&$0) } }

    /// The XML of what came, without the ids, which are random.
    func received(_ name: String) -> [String] {
        state.withLock(\.received).filter { $0.name == name }.map {
            var element = $0
            element["id"] = nil
            return element.serialized(defaultNamespace: Namespaces.client)
        }
    }

    /// Sends something to all of Alice's sessions that are in.
    func send(_ stanza: Element, from nick: String?) {
        var stanza = stanza
        stanza["from"] = ForeignText(Self.jid.description + (nick.map { "/" + $0 } ?? ""))
        for address in state.withLock(\.inside).keys.sorted() {
            stanza["to"] = ForeignText(address)
            server.send(stanza, to: .jid(try! JID(address)))  // The server gave that address.
        }
    }

    func send(body: String, id: String?, from nick: String = "Romeo", _ children: [Element] = []) {
        send(Message(to: nil, type: .groupchat, id: id, body: body, children: children).element, from: nick)
    }

    func send(presence type: Presence.Kind?, from nick: String, codes: [Int] = [], _ item: Element? = nil) {
        send(Self.presence(type, codes: codes, item), from: nick)
    }

    static func presence(_ type: Presence.Kind?, codes: [Int], _ item: Element?) -> Element {
        let x = Element(
            "x", namespace: Namespaces.mucUser,
            children: [item ?? self.item()]
                + codes.map {
                    Element("status", namespace: Namespaces.mucUser, attributes: ["code": String($0)])
                })
        return Presence(type: type, children: [x]).element
    }

    static func item(
        _ affiliation: String = "none", _ role: String = "participant", jid: String? = nil,
        nick: String? = nil, _ children: [Element] = []
    ) -> Element {
        Element(
            "item", namespace: Namespaces.mucUser,
            attributes: ["affiliation": affiliation, "role": role, "jid": jid, "nick": nick],
            children: children)
    }

    static func delay(_ time: Timestamp, from sender: String = jid.description) -> Element {
        Element(
            "delay", namespace: Namespaces.delay,
            attributes: ["from": sender, "stamp": time.description])
    }
}

extension ScriptedRoom.State {
    mutating func take(_ element: Element, to: JID, from: String) -> [Element] {
        received.append(element)
        switch element.name {
        case "presence" where element["type"] == "unavailable":
            return leave(element, nick: to.resource?.string ?? "", from: from)
        case "presence": return enter(element, nick: to.resource?.string ?? "", from: from)
        case "message" where element["type"] == "groupchat": return reflect(element, from: from)
        case "iq": return answer(element, to: to, from: from)
        default: return []
        }
    }

    private func addressed(_ element: Element, from nick: String?, to: String) -> Element {
        var element = element
        element["from"] = ForeignText(ScriptedRoom.jid.description + (nick.map { "/" + $0 } ?? ""))
        element["to"] = ForeignText(to)
        return element
    }

    private mutating func leave(_ element: Element, nick: String, from: String) -> [Element] {
        guard inside.removeValue(forKey: from) != nil else { return [] }
        let presence = ScriptedRoom.presence(.unavailable, codes: [110], ScriptedRoom.item("none", "none"))
        return [addressed(presence, from: nick, to: from)]
    }

    private mutating func enter(_ element: Element, nick: String, from: String) -> [Element] {
        let wish = element.child("x", Namespaces.muc)
        if wish == nil, let old = inside[from] { return rename(old, to: nick, element, from: from) }
        switch door {
        case .silent: return []
        case .shut(let error):
            var refusal = Element("presence", namespace: Namespaces.client)
            (refusal["type"], refusal["id"]) = ("error", element["id"])
            refusal.append(error.element)
            return [addressed(refusal, from: nick, to: from)]
        case .open(let codes, let given):
            let nick = given ?? nick
            inside[from] = nick
            let present = others.map {
                addressed(ScriptedRoom.presence(nil, codes: [], nil), from: $0, to: from)
            }
            let own = ScriptedRoom.presence(nil, codes: [110] + codes, ScriptedRoom.item("member"))
            let since = wish?.child("history", Namespaces.muc)?["since"].flatMap {
                Timestamp($0)
            }
            let past = history.filter { entry in since.map { entry.time >= $0 } ?? true }.map { entry in
                addressed(
                    entry.message.appending(ScriptedRoom.delay(entry.time)),
                    from: entry.message["from"]?.string, to: from)
            }
            let ending = Message(to: nil, type: .groupchat, children: [subject]).element
            return present + [addressed(own, from: nick, to: from)] + past
                + [addressed(ending, from: nil, to: from)]
        }
    }

    private mutating func rename(_ old: String, to nick: String, _ element: Element, from: String)
        -> [Element]
    {
        guard !others.contains(nick) else {
            var refusal = Element("presence", namespace: Namespaces.client)
            (refusal["type"], refusal["id"]) = ("error", element["id"])
            refusal.append(StanzaError(.conflict).element)
            return [addressed(refusal, from: nick, to: from)]
        }
        inside[from] = nick
        let gone = ScriptedRoom.presence(
            .unavailable, codes: [303, 110], ScriptedRoom.item("member", nick: nick))
        let here = ScriptedRoom.presence(nil, codes: [110], ScriptedRoom.item("member"))
        return [addressed(gone, from: old, to: from), addressed(here, from: nick, to: from)]
    }

    private mutating func reflect(_ element: Element, from: String) -> [Element] {
        guard let nick = inside[from] else {
            var bounce = element
            bounce["type"] = "error"
            bounce.append(StanzaError(.notAcceptable).element)
            return [addressed(bounce, from: nil, to: from)]
        }
        guard reflects else { return [] }
        return [addressed(element, from: nick, to: from)]
    }

    private func answer(_ element: Element, to: JID, from: String) -> [Element] {
        guard let iq = try? IQ(element: element) else { return [] }
        var outcome = IQReply.Outcome?.some(.result(nil))
        if iq.payload?.name == "ping" {
            outcome = inside[from] == nil ? .error(StanzaError(.notAcceptable)) : ping
        }
        switch outcome {
        case .result(let payload): return iq.result(payload: payload).map { answered($0, to, from) } ?? []
        case .error(let error): return iq.errorReply(error).map { answered($0, to, from) } ?? []
        case .timeout, nil: return []
        }
    }

    private func answered(_ iq: IQ, _ to: JID, _ from: String) -> [Element] {
        [addressed(iq.element, from: to.resource?.string, to: from)]
    }
}

// MARK: - Accounts with rooms

/// Notes how joining ended.
struct RoomNoted: Handler {
    static let id = "test.room-joined"
    static let retry = RetryPolicy.never
    var name: String
    func run(_ call: borrowing Call<RoomJoined>) throws {
        let outcome =
            switch call.outcome {
            case .joined: "joined as \(call.context.nick)" + (call.context.isNew ? ", new" : "")
            case .refused(let error): "refused \(error.condition)"
            case .timedOut: "timed out"
            case .abandoned: "abandoned"
            }
        try TestApp.note("room", name, outcome, in: call.step)
    }
}

extension AccountRig {
    /// An account that is connected and has rooms.
    func withRooms(
        store: HandlerStore? = nil, _ module: RoomsModule = RoomsModule(),
        _ change: (inout AccountConfiguration) -> Void = { _ in }
    ) async throws -> Account {
        let account = try roomsAccount(store: store, module, change)
        try await account.connect()
        try await account.listen()
        return account
    }

    /// An account in the scripted room.
    func joined(_ module: RoomsModule = RoomsModule()) async throws -> (ScriptedRoom, Account) {
        let room = ScriptedRoom(self)
        let account = try await withRooms(module)
        try await account.wantRoom()
        try await eventually { try account.room?.state == .joined }
        try await account.caughtUp()
        return (room, account)
    }

    /// An account that has rooms.
    func roomsAccount(
        store: HandlerStore? = nil, _ module: RoomsModule = RoomsModule(),
        _ change: (inout AccountConfiguration) -> Void = { _ in }
    ) throws -> Account {
        try account(store: store ?? roomsStore()) { configuration in
            configuration.modules = [module]
            change(&configuration)
        }
    }

    func roomsStore() throws -> HandlerStore {
        try HandlerStore(
            path: databasePath, registry: ModulesApp.registry,
            schemas: Account.schemas + [TestApp.schema], synchronous: .normal,
            time: clock?.timeSource ?? .system)
    }
}

extension Account {
    /// Wants to be in the scripted room, and notes how that ends.
    func wantRoom(
        _ name: String = "first", as nick: String = "Alice", password: String? = nil,
        history: RoomHistory = .usual
    ) async throws {
        _ = try await perform { step in
            try self.rooms.join(
                ScriptedRoom.jid, as: nick, password: password, history: history,
                then: RoomNoted(name: name).durable, in: step)
        }
    }

    /// The scripted room as the store knows it.
    var room: Room? {
        get throws { try store.step { step in try self.rooms.room(ScriptedRoom.jid, in: step) } }
    }

    func occupants() throws -> [String] {
        try store.step { step in
            try self.rooms.occupants(of: ScriptedRoom.jid, in: step)
                .map { "\($0.nick) \($0.affiliation) \($0.role)" }
        }
    }

    func invitations() throws -> [RoomInvitation] {
        try store.step { step in try self.rooms.invitations(in: step) }
    }
}

/// The events of rooms, one after the other.
final class RoomEventReader {
    private var iterator: AsyncStream<RoomEvent>.Iterator
    init(_ account: Account) { iterator = account.events(of: RoomEvent.self).makeAsyncIterator() }

    /// What came so far.
    private(set) var seen: [RoomEvent.Change] = []

    func next() async -> RoomEvent.Change? {
        guard let change = await iterator.next()?.change else { return nil }
        seen.append(change)
        return change
    }

    /// Takes events until one is as wanted; fails when the account was closed before.
    @discardableResult
    func until(
        sourceLocation: SourceLocation = #_sourceLocation, _ matches: (RoomEvent.Change) -> Bool
    ) async -> RoomEvent.Change? {
        while let change = await next() { if matches(change) { return change } }
        Issue.record("the wanted event did not come after \(seen)", sourceLocation: sourceLocation)
        return nil
    }

    @discardableResult
    func until(
        _ change: RoomEvent.Change, sourceLocation: SourceLocation = #_sourceLocation
    ) async -> RoomEvent.Change? { await until(sourceLocation: sourceLocation) { $0 == change } }
}
