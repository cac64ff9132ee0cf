import Glibc
import Handlers
import PubSub
import Simulation
import Synchronization
import XMPPAccount
import XMPPCore
import XMPPModules

/// `pushwake main`: the main program of the simulation.
///
/// It connects, listens, and sends a numbered message and a numbered request every few milliseconds. Lines on standard input
/// control it; see ``Steering``. It exits at the end of the input, because the process that started it has then exited.
struct MainCommand {
    private let options: AccountOptions
    private let interval: Duration
    /// Whether it keeps running without the stream after another process took over.
    private let stays: Bool
    /// Whether it sends only on command.
    private let isQuiet: Bool

    init(_ words: [String]) throws {
        let arguments = try Arguments(words, of: "main")
        options = try AccountOptions(arguments, role: .main)
        interval = .milliseconds(try arguments.number("--interval", in: 1...60_000, default: 5))
        stays = arguments.has("--stay")
        isQuiet = arguments.has("--quiet")
    }

    func run() async throws -> Int32 {
        let store = try options.openStore()
        try Self.checkNames(store)
        let account = try Account(options.configuration, store: store)
        try await account.listen(as: "simulation", SimulationApp.received())
        try await account.perform {
            try account.pubsub.listen(
                to: SimulationApp.News.self, of: options.peer.bare, as: "simulation", SimulationApp.news(),
                in: $0)
        }
        let steering = Steering(isQuiet ? .idle : .sending)
        let events = account.events
        let watcher = Task { for await event in events { report(event, steering) } }
        defer { watcher.cancel() }
        try await connect(account)
        try steering.readInput()
        while steering.mode != .quit {
            try await mindingOwnership { try await obey(steering, account) }
            try await Task.sleep(for: interval)
        }
        await account.close()
        return 0
    }

    /// Performs one small part of the latest command.
    private func obey(_ steering: Steering, _ account: Account) async throws {
        if steering.claim(\.isFreezing, leaving: false) { return try freezeInTransaction(account.store) }
        if steering.claim(\.isAsked, leaving: false) { return try await tell(account) }
        let questions = steering.claim(\.questions, leaving: 0)
        if questions > 0 { return try await ask(questions, account) }
        switch steering.mode {
        case .sending where steering.isAway, .settling where steering.isAway:
            steering.isAway = false
            try await connect(account)
        case .sending:
            try await account.perform { step in
                try SimulationApp.sendNext(to: options.peer, from: account, in: step)
            }
        case .settling where !steering.isSettled:
            try await settle(account, while: { steering.mode == .settling })
            steering.isSettled = true
            Terminal.say("settled")
        case .background where !steering.isAway:
            steering.isAway = true
            try await account.suspend()
            Terminal.say("left")
        case .idle, .background, .settling, .quit: break
        }
    }

    /// Takes the stream over, from a worker if necessary.
    private func connect(_ account: Account) async throws {
        try await mindingOwnership {
            try await account.connect()
            if let push = options.push { try await Self.enable(push, account) }
            Terminal.say("connected")
        }
    }

    /// If another process has taken over the stream and `stays` is set, goes on without the stream. `report` prints that.
    private func mindingOwnership(_ body: () async throws -> Void) async throws {
        do {
            try await body()
        } catch let error as AccountError where error.code == .ownershipLost && stays {
            // An event also reports it, and its handler decides what happens next.
        }
    }

    /// Sends requests that the peer answers only on command.
    private func ask(_ count: Int, _ account: Account) async throws {
        for first in stride(from: 0, to: count, by: 100) {
            try await account.perform { step in
                for _ in first..<min(count, first + 100) {
                    try SimulationApp.askForLater(of: options.peer, from: account, in: step)
                }
            }
        }
        Terminal.say("asked")
    }

    /// Reports that this process has the stream. If it was lost, an event reports that instead.
    private func tell(_ account: Account) async throws {
        try await account.perform { _ in }
        Terminal.say("here")
    }

    /// Freezes inside a transaction that has written a row.
    private func freezeInTransaction(_ store: HandlerStore) throws {
        try store.step { step in
            try SimulationApp.setTimer(1, in: step)
            // Only the thread that receives the signal is certain to stop before it continues. The other threads stop later.
            raise(SIGSTOP)
        }
    }

    /// Fails at the start if the store has handlers that this program lacks: they would wait forever.
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
        try await account.perform { try account.push.enable(push, in: $0) }
        while true {
            let state = try account.store.read {
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

    private func report(_ event: AccountEvent, _ steering: Steering) {
        switch event {
        case .bound(let jid): Terminal.say("bound \(jid)")
        case .resumed(let jid): Terminal.say("resumed \(jid)")
        case .suspended(let error): Terminal.say("suspended \(error)")
        case .sessionLost: Terminal.say("session-lost")
        case .unfinished(let handler, let call, let reason):
            Terminal.say("set-aside \(handler), called with \(call): \(reason)")
        case .stopped(let error) where error.code == .ownershipLost && stays:
            steering.lostStream()
            Terminal.say("overtaken")
        case .stopped(let error):
            Terminal.complain("\(error)")
            if error.code == .ownershipLost { exit(3) }
        case .ignored, .handedOver, .retrying, .enabled, .notEnabled, .streamManagementAnswered,
            .acknowledgementRequested,
            .acknowledged, .refused, .moduleFailed, .module, .dropped:
            break
        }
    }
}

/// The latest commands from standard input.
///
/// `go on` (or `foreground`), `background`, `settle` and `quit` change the mode. `freeze` stops the process inside a transaction.
/// `tell` asks whether it has the stream. `ask N` sends requests that the peer answers later.
@dynamicMemberLookup private final class Steering: Sendable {
    enum Mode {
        case idle, sending, background, settling, quit
    }

    struct State {
        var mode: Mode
        /// The number of requests to send that the peer answers later.
        var questions = 0
        var isFreezing = false
        var isAsked = false
        /// Whether all work has ended since the last `settle`.
        var isSettled = false
        /// Whether the stream was given up, or lost to another process.
        var isAway = false
    }

    private let state: Mutex<State>

    init(_ mode: Mode) { state = Mutex(State(mode: mode)) }

    subscript<Value: Sendable>(dynamicMember path: WritableKeyPath<State, Value>) -> Value {
        get { state.withLock { $0[keyPath: path] } }
        set { state.withLock { $0[keyPath: path] = newValue } }
    }

    /// Returns a member and replaces it.
    func claim<Value: Sendable>(
        _ path: WritableKeyPath<State, Value>, leaving rest: Value
    ) -> Value {
        state.withLock { state in
            defer { state[keyPath: path] = rest }
            return state[keyPath: path]
        }
    }

    /// Records that another process has the stream. It is not requested again before the next command.
    func lostStream() {
        state.withLock { state in
            state.isAway = true
            if state.mode != .quit { state.mode = .background }
        }
    }

    private func handle(_ line: String) {
        state.withLock { state in
            switch line {
            case "settle": (state.mode, state.isSettled) = (.settling, false)
            case "go on", "foreground": state.mode = .sending
            case "background": state.mode = .background
            case "freeze": state.isFreezing = true
            case "tell": state.isAsked = true
            case let line where line.hasPrefix("ask "): state.questions += Int(line.dropFirst(4)) ?? 0
            default: state.mode = .quit
            }
        }
    }

    /// Reads on a new thread, because reading blocks.
    func readInput() throws {
        _ = try WorkerThread("steering") { [self] in
            for line in InputLines() { handle(line) }
            handle("quit")
        }
    }
}
