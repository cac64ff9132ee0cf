import FoundationEssentials
import Glibc
import Handlers
import XMPPAccount
import XMPPCore
import XMPPModules

/// `pushwake join ROOM`: shows the messages of a room, and sends typed lines to the room.
struct JoinCommand {
    private let client: Client
    private let room: JID
    private let nick: String
    private let isJSON: Bool

    init(_ words: [String]) throws {
        let arguments = try Arguments(words, of: "join", wordCount: 1)
        guard let address = arguments.words.first,
            case let room = try ConnectionOptions.address(address, "the room").bare
        else { throw UsageError("say which room: pushwake join ROOM@SERVICE --jid …") }
        guard room.local != nil else {
            throw UsageError("a room's address has a name before the @: ROOM@SERVICE, as in council@\(room)")
        }
        self.room = room
        if let nick = arguments.value("--nick"), (try? room.with(resource: nick)) == nil {
            throw UsageError("--nick '\(nick)' cannot be a nickname; give one of at least one character")
        }
        isJSON = arguments.has("--json")
        client = try Client(arguments)
        nick = arguments.value("--nick") ?? client.account.configuration.jid.local?.string ?? "pushwake"
    }

    func run() async throws -> Int32 {
        let (client, room, isJSON) = (client, room, isJSON)
        let account = client.account
        let end = CommandEnd(of: account)
        let stopped = Client.untilStopped(account)
        Terminal.writeError("joining \(room) as \(nick) …\n")
        try await client.connect(retrying: true)
        let events = account.events(of: RoomEvent.self)
        let joined = try await account.rooms.join(room, as: nick, history: .last(20))
        guard joined.outcome == .joined else {
            throw CommandFailure("\(room) does not let \(nick) in: \(Self.sentence(joined.outcome))")
        }
        Terminal.writeError(
            "in \(room) as \(joined.nick); what you type is said there, the end of input leaves\n")
        let showing = end.watch { try await client.showMessages(of: room, isJSON: isJSON) }
        let watching = end.watch { try await Self.watch(events, of: room, account) }
        let talking = end.watch {
            try await Self.talk(in: room, account)
            await end.end()
        }
        let error = await stopped.value
        for task in [showing, watching, talking] { task.cancel() }
        try end.check()
        if let error { throw error }
        return 0
    }

    private static func talk(in room: JID, _ account: Account) async throws {
        for line in InputLines() {
            if line.isEmpty { continue }
            try await account.perform { try account.rooms.send(line, to: room, in: $0) }
        }
        try await account.perform { try account.rooms.leave(room, in: $0) }
        try await account.caughtUp()
    }

    /// - Throws: ``CommandFailure`` when the account was removed from the room permanently.
    private static func watch(_ events: AsyncStream<RoomEvent>, of room: JID, _ account: Account) async throws
    {
        var isOut = false
        for await event in events where event.room == room {
            switch event.change {
            case .left(let departure) where departure.reason != .left:
                let sentence = sentence(departure)
                let state = try account.store.read { try account.rooms.room(room, in: $0)?.state }
                guard state == .wanted else { throw CommandFailure("out of \(room): \(sentence)") }
                isOut = true
                Terminal.writeError("out of \(room) for now: \(sentence)\n")
            case .joined(let nick, _) where isOut:
                isOut = false
                Terminal.writeError("in \(room) again as \(nick)\n")
            case .refused(let error):
                let state = try account.store.read { try account.rooms.room(room, in: $0)?.state }
                guard state == .wanted else {
                    throw CommandFailure(
                        "\(room) does not let the account in again: \(sentence(.refused(error)))")
                }
            case .messageRefused(_, let error):
                Terminal.writeError("a message was not taken: \(error)\n")
            case .messageUnconfirmed: Terminal.writeError("nobody knows whether a message was taken\n")
            default: break
            }
        }
    }

    private static func sentence(_ departure: RoomDeparture) -> String {
        let what =
            switch departure.reason {
            case .left: "left"
            case .kicked: "put out by a moderator"
            case .banned: "banned"
            case .affiliationChanged: "put out, because the account's standing changed"
            case .membersOnly: "put out, because the room is for members only now"
            case .shutdown: "the service shuts down"
            case .failed: "the room cannot be reached"
            case .destroyed(let alternative):
                "the room was destroyed" + (alternative.map { "; \($0) takes its place" } ?? "")
            }
        return what + (departure.text.map { " (\($0))" } ?? "")
    }

    private static func sentence(_ outcome: RoomJoined.Outcome) -> String {
        guard case .refused(let error) = outcome else {
            return outcome == .timedOut ? "it has not answered; check the address" : "\(outcome)"
        }
        let advice: [OpenName<StanzaError>: String] = [
            .conflict: "somebody else has that name there; choose another one with --nick",
            .notAuthorized: "it asks for a password, which this command cannot give",
            .registrationRequired: "it is for members only; ask who owns it to make the account one",
            .forbidden: "the account is banned there",
            .serviceUnavailable: "it is full; try again later",
            .itemNotFound: "somebody is just setting it up; try again in a moment",
        ]
        return advice[error.condition].map { "\($0) (\(error.condition.rawValue))" } ?? "\(error)"
    }
}
