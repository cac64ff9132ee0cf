import Handlers
import Platform
import XMPPAccount
import XMPPCore
import XMPPModules

/// `pushwake join ROOM`: shows the messages of a room, and sends typed lines to the room.
struct JoinCommand {
    private let client: Client
    private let room: JID
    private let nick: String
    private let password: String?
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
        password =
            try arguments.firstLine(of: "--room-password-file", "password")
            ?? ThisProcess.environment("PUSHWAKE_ROOM_PASSWORD")
        client = try Client(arguments)
        nick = arguments.value("--nick") ?? client.account.configuration.jid.local?.string ?? "pushwake"
    }

    func run() async throws -> Int32 {
        let (client, room, isJSON) = (client, room, isJSON)
        let account = client.account
        let end = CommandEnd(of: account)
        let stopped = Client.untilStopped(account, mayShare: true)
        let events = account.events(of: RoomEvent.self)
        let watched = WatchedRoom(room: room)
        Terminal.writeError("joining \(room) as \(nick) …\n")
        var tasks: [Task<Void, Never>] = []
        // Another process may have the stream; once it has ended, this one takes over.
        if try await !client.connectOrShare(retrying: true) {
            tasks.append(end.watch { try await client.connect(retrying: true) })
        }
        try await account.perform { try watched.start(in: $0) }
        let joined: String
        do {
            joined = try await enter()
        } catch {
            // The reason why the account was closed says more than that it was.
            try end.check()
            throw error
        }
        Terminal.writeError(
            "in \(room) as \(joined); what you type is said there, the end of input leaves\n")
        tasks.append(end.watch { try await client.showMessages(of: room, isJSON: isJSON) })
        tasks.append(end.watch { try await RoomWatch(room: room, account: account).run(events) })
        tasks.append(
            end.watch {
                try await Self.talk(in: watched, client)
                await client.finish()
                await end.end()
            })
        let error = await stopped.value
        for task in tasks { task.cancel() }
        try end.check()
        if let error { throw error }
        return 0
    }

    /// Joins the room. A password that it asks for comes from an option, from an invitation, or from the terminal.
    ///
    /// - Returns: The nickname in the room.
    private func enter() async throws -> String {
        let room = room
        let invited = try client.store.read { snapshot in
            try client.account.rooms.invitations(in: snapshot).first { $0.room == room }?.password?.string
        }
        var answer = try await ask(password ?? invited)
        if answer.failure == "not-authorized",
            let typed = TypedSecret.read("Password of \(room): "), !typed.isEmpty
        {
            answer = try await ask(typed)
        }
        if let failure = answer.failure {
            await client.finish()
            throw CommandFailure("\(room) does not let \(nick) in: \(VisibleText(Self.sentence(failure)))")
        }
        return answer.value ?? nick
    }

    private func ask(_ password: String?) async throws -> ClientApp.Answer {
        let (account, room, nick, ticket) = (client.account, room, nick, StanzaID.random())
        try await account.perform { step in
            let then = try ClientApp.Entered(ticket: ticket).durable
                .orElse(ClientApp.Unanswered(ticket: ticket).durable)
            try account.rooms.join(
                room, as: nick, password: password, history: .last(20), then: then, in: step)
        }
        return try await client.answer(to: ticket)
    }

    private static func talk(in watched: WatchedRoom, _ client: Client) async throws {
        let (account, room) = (client.account, watched.room)
        for line in InputLines() {
            if line.isEmpty { continue }
            try await account.perform { try account.rooms.send(line, to: room, in: $0) }
        }
        try await account.perform { step in
            try account.rooms.leave(room, in: step)
            try watched.end(in: step)
        }
        if client.hasConnected { try await account.caughtUp() }
    }

    /// - Parameter failure: The condition of the room's error, or another word.
    private static func sentence(_ failure: String) -> String {
        let advice = [
            "conflict": "somebody else has that name there; choose another one with --nick",
            "not-authorized": "it asks for a password; name a file that holds it with --room-password-file",
            "registration-required": "it is for members only; ask who owns it to make the account one",
            "forbidden": "the account is banned there",
            "service-unavailable": "it is full; try again later",
            "item-not-found": "somebody is just setting it up; try again in a moment",
            "timed-out": "it has not answered; check the address",
        ]
        return advice[failure].map { failure == "timed-out" ? $0 : "\($0) (\(failure))" } ?? failure
    }
}
