import Glibc
import Handlers
import PubSub
import Synchronization
import XMPPAccount
import XMPPCore

/// `pushwake main`: the main program of the simulation.
///
/// It connects, listens, and sends a numbered message and a numbered request every few milliseconds. Lines on standard
/// input steer it: `settle` ends the sending and waits until nothing is pending, `quit` ends the process. The end of
/// the input means that whoever started it is gone, and ends it too.
struct MainCommand {
    private let options: AccountOptions
    private let interval: Duration

    init(_ words: [String]) throws {
        let arguments = try Arguments(words, of: "main")
        options = try AccountOptions(arguments, role: .main)
        interval = .milliseconds(try arguments.number("--interval", in: 1...60_000, default: 5))
    }

    func run() async throws -> Int32 {
        let store = try options.openStore()
        try Self.checkNames(store)
        let account = try Account(options.configuration, store: store)
        try await account.listen(as: "simulation", SimulationApp.received())
        try await account.pubsub.listen(
            to: SimulationApp.News.self, of: options.peer.bare, as: "simulation", SimulationApp.news())
        let events = account.events
        let watcher = Task { for await event in events { Self.report(event) } }
        defer { watcher.cancel() }
        try await account.connect()
        if let push = options.push { try await Self.enable(push, account) }
        Terminal.say("connected")
        let steering = Steering()
        try steering.readInput()
        var settled = false
        while steering.mode != .quit {
            switch steering.mode {
            case .sending:
                settled = false
                try await account.perform {
                    try SimulationApp.sendNext(to: options.peer, from: account, in: $0)
                }
            case .settling where !settled:
                try await settle(account, while: { steering.mode == .settling })
                settled = true
                Terminal.say("settled")
            case .settling, .quit: break
            }
            try await Task.sleep(for: interval)
        }
        await account.close()
        return 0
    }

    /// Rows under a name that this program lacks would wait for ever: better to say so at the start.
    private static func checkNames(_ store: HandlerStore) throws {
        let unknown = try store.verify()
        guard unknown.isEmpty else {
            throw CommandFailure(
                "the store \(store.path) holds handlers that this program does not know (\(unknown.joined(separator: ", "))); start the program that bound them, or add them to this one. Nothing was changed"
            )
        }
    }

    /// Returns once the server wakes this account's worker through the service.
    private static func enable(_ push: PushRegistration, _ account: Account) async throws {
        try await account.push.enable(push)
        while true {
            let state = try await account.perform {
                try account.push.state(of: push.service, node: push.node, in: $0)
            }
            switch state {
            case .enabled: return
            case .refused(let error):
                throw CommandFailure("the server does not push to \(push.service): \(error)")
            case .pending, nil: try await Task.sleep(for: .milliseconds(5))
            }
        }
    }

    private func settle(_ account: Account, while isWanted: () -> Bool) async throws {
        while try await account.perform({ try SimulationApp.waiting(in: $0) }) > 0, isWanted() {
            try await Task.sleep(for: .milliseconds(20))
        }
        try await account.caughtUp()
    }

    private static func report(_ event: AccountEvent) {
        switch event {
        case .bound(let jid): Terminal.say("bound \(jid)")
        case .resumed(let jid): Terminal.say("resumed \(jid)")
        case .suspended(let error): Terminal.say("suspended \(error)")
        case .sessionLost: Terminal.say("session-lost")
        case .setAside(let handler, let reason): Terminal.say("set-aside \(handler): \(reason)")
        case .stopped(let error):
            Terminal.complain("\(error)")
            if error.code == .ownershipLost { exit(3) }
        case .ignored, .handedOver, .retrying, .enabled, .notEnabled, .acknowledgementRequested,
            .acknowledged, .refused, .moduleFailed, .module:
            break
        }
    }

}

/// What the lines on standard input have asked for last.
private final class Steering: Sendable {
    enum Mode {
        case sending, settling, quit
    }

    private let state = Mutex(Mode.sending)

    var mode: Mode { state.withLock { $0 } }

    private static func mode(_ line: String) -> Mode {
        switch line {
        case "settle": .settling
        case "go on": .sending
        default: .quit
        }
    }

    /// Reads on a thread of its own, because reading blocks.
    func readInput() throws {
        _ = try WorkerThread("steering") { [self] in
            while let line = readLine() { state.withLock { $0 = Self.mode(line) } }
            state.withLock { $0 = .quit }
        }
    }
}
