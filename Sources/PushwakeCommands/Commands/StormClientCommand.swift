import Glibc
import Handlers
import Simulation
import XMPPAccount
import XMPPCore
import XMPPModules

/// `pushwake storm-client`: logs in after a long absence and receives everything, while its user continues to write.
struct StormClientCommand {
    /// The time between two messages of its user.
    private static let writingPause = Duration.milliseconds(20)

    private let options: AccountOptions
    private let rooms: Int
    private let pageSize: Int

    init(_ words: [String]) throws {
        let arguments = try Arguments(words, of: "storm-client")
        options = try AccountOptions(arguments, role: .main)
        rooms = try arguments.number("--rooms", in: 0...10_000, default: 0)
        pageSize = try arguments.number("--page-size", in: 1...250, default: 250)
    }

    func run() async throws -> Int32 {
        var configuration = options.configuration
        configuration.modules = [
            CarbonsModule(), ChatModule(), RoomsModule(), ArchiveModule(pageSize: pageSize, history: nil),
        ]
        let store = try HandlerStore(
            path: options.store, registry: HandlerRegistry(), schemas: Account.schemas + [StormApp.schema])
        let account = try Account(configuration, store: store)
        let memory = ProcessMemory.releasingCode(above: WorkerCommand.comfortable)
        defer { memory.cancel() }
        try await account.listen(as: "storm", StormApp.Received().durable)
        let changes = account.events(of: ArchiveProgress.self)
        try await account.connect()
        try await joinRooms(account)
        let writing = Task {
            while !Task.isCancelled {
                try await account.perform { try StormApp.send(account, to: options.peer, in: $0) }
                try await Task.sleep(for: Self.writingPause)
            }
        }
        await follow(changes, account)
        writing.cancel()
        _ = try? await writing.value
        while try await account.perform({ try StormApp.underWay(in: $0) }) > 0 {
            try await Task.sleep(for: .milliseconds(10))
        }
        try await account.caughtUp()
        Terminal.say("done peak-kib=\(ProcessMemory.peakKibibytes)")
        await account.close()
        await ProcessMemory.end(memory)
        return 0
    }

    /// Requests to join all rooms. Rooms that were requested before are joined automatically.
    private func joinRooms(_ account: Account) async throws {
        let rooms = rooms
        try await account.perform { step in
            for number in 0..<rooms {
                let room = try JID("room\(number)@rooms.localhost")
                guard try account.rooms.room(room, in: step) == nil else { continue }
                try account.rooms.join(
                    room, as: "alice", history: .since(Timestamp(milliseconds: 0)), in: step)
            }
        }
    }

    /// Reports the progress until everything has arrived.
    private func follow(_ changes: AsyncStream<ArchiveProgress>, _ account: Account) async {
        var states = (try? account.store.read { try account.archive.progress(in: $0) }) ?? []
        var told = ContinuousClock.now
        var iterator = changes.makeAsyncIterator()
        while states.count <= rooms || states.contains(where: { $0.state != .complete }) {
            guard let change = await iterator.next() else { return }
            states.removeAll { $0.archive == change.archive }
            states.append(change)
            guard ContinuousClock.now - told > .milliseconds(100) else { continue }
            told = .now
            let received = states.reduce(0) { $0 + $1.received }
            let total = states.reduce(0) { $0 + ($1.total ?? $1.received) }
            Terminal.say("progress \(received) \(total)")
        }
    }
}
