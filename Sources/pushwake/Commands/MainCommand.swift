import Glibc
import Handlers
import XMPPAccount
import XMPPCore

/// `pushwake main`: the main program of the simulation.
///
/// It connects, listens, and sends a numbered message and a numbered request every few milliseconds. Lines on standard
/// input steer it: `stop` ends the sending, `settle` also waits until nothing is pending, `quit` ends the process. The
/// end of the input means that whoever started it is gone, and ends it too.
struct MainCommand {
    private let options: AccountOptions
    private let interval: Duration

    init(_ words: [String]) throws {
        let arguments = try Arguments(
            words, options: AccountOptions.names.union(["--interval"]), flags: AccountOptions.flags)
        options = try AccountOptions(arguments, role: .main)
        interval = .milliseconds(try arguments.number("--interval", in: 1...60_000, default: 5))
    }

    func run() async throws -> Int32 {
        let store = try options.openStore()
        let account = try Account(options.configuration, store: store)
        try await account.listen(as: "simulation", SimulationApp.received())
        let events = account.events
        let watcher = Task { for await event in events { Self.report(event) } }
        defer { watcher.cancel() }
        try await account.connect()
        Terminal.say("connected")
        for await line in Self.inputLines(every: interval) {
            switch line {
            case .tick: try await account.perform { try SimulationApp.sendNext(to: options.peer, from: account, in: $0) }
            case .stop: Terminal.say("stopped")
            case .settle:
                try await settle(account)
                Terminal.say("settled")
            case .quit:
                await account.close()
                return 0
            }
        }
        await account.close()
        return 0
    }

    private func settle(_ account: Account) async throws {
        while try await account.perform({ try SimulationApp.waiting(in: $0) }) > 0 {
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
        case .ignored, .handedOver: break
        }
    }

    private enum Input: Sendable {
        case tick, stop, settle, quit
    }

    /// Ticks until told to stop, and the lines of standard input.
    private static func inputLines(every interval: Duration) -> AsyncStream<Input> {
        AsyncStream { continuation in
            let ticker = Task {
                while !Task.isCancelled {
                    // A tick that comes while the last one is still being worked on is not repeated.
                    if case .enqueued(let remaining) = continuation.yield(.tick), remaining < .max - 4 { continue }
                    try? await Task.sleep(for: interval)
                }
            }
            Thread.start {
                while let line = readLine() {
                    switch line {
                    case "stop":
                        ticker.cancel()
                        continuation.yield(.stop)
                    case "settle":
                        ticker.cancel()
                        continuation.yield(.settle)
                    default: continuation.yield(.quit)
                    }
                }
                ticker.cancel()
                continuation.yield(.quit)
                continuation.finish()
            }
        }
    }
}
