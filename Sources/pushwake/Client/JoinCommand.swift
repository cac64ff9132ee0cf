import FoundationEssentials
import Glibc
import Handlers
import XMPPAccount
import XMPPCore

/// `pushwake join ROOM`: shows what is said in a room and says there what is typed, line by line.
struct JoinCommand {
    private let client: Client
    private let room: JID
    private let nick: String
    private let isJSON: Bool

    init(_ words: [String]) throws {
        let arguments = try Arguments(words, of: "join", wordCount: 1)
        guard let address = arguments.words.first,
            case let room = try ConnectionOptions.address(address, "the room").bare, room.local != nil
        else { throw UsageError("say which room: pushwake join ROOM@SERVICE --jid …") }
        self.room = room
        if let nick = arguments.value("--nick"), (try? room.with(resource: nick)) == nil {
            throw UsageError("--nick '\(nick)' cannot be a nickname; give one of at least one character")
        }
        isJSON = arguments.has("--json")
        client = try Client(arguments)
        nick = arguments.value("--nick") ?? client.account.configuration.jid.local ?? "pushwake"
    }

    func run() async throws -> Int32 {
        let (client, room) = (client, room)
        let stopped = Client.untilStopped(client.account)
        try await client.connect()
        let joined = try await client.account.rooms.join(room, as: nick, history: .last(20))
        guard case .joined = joined.outcome else {
            throw CommandFailure("\(room) does not let \(nick) in: \(joined.outcome)")
        }
        Terminal.writeError(
            "in \(room) as \(joined.nick); what you type is said there, the end of input leaves\n")
        let showing = Task { try await client.showMessages(of: room, isJSON: isJSON) }
        let talking = Task.detached {
            while let line = readLine() {
                if line.isEmpty { continue }
                try await client.account.rooms.send(line, to: room)
            }
            try await client.account.rooms.leave(room)
            try await client.account.caughtUp()
            await client.account.close()
        }
        let error = await stopped.value
        showing.cancel()
        if let error { throw error }
        try await talking.value
        return 0
    }
}
