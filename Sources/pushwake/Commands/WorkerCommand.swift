import Glibc
import Handlers
import XMPPAccount
import XMPPCore

/// `pushwake worker`: what a push wakes.
///
/// It takes the stream over, resumes the session, runs the handlers of everything that waits, sends what they send,
/// acknowledges, hands back and exits. If the main program is alive it leaves at once.
struct WorkerCommand {
    /// How long handlers that are due may keep a worker, which has half a minute in all.
    private static let drainTime: Duration = .seconds(10)

    private let options: AccountOptions
    private let linger: Duration
    private let timings: WorkerTimings?

    init(_ words: [String]) throws {
        let begin = WorkerTimings.now
        let arguments = try Arguments(words, of: "worker")
        timings = arguments.has("--timings") ? WorkerTimings(begin: begin) : nil
        var options = try AccountOptions(arguments, role: .worker)
        if let timings { options.configuration.onMilestone = { timings.reached($0.rawValue) } }
        self.options = options
        linger = .milliseconds(try arguments.number("--linger", in: 0...25_000, default: 0))
    }

    func run() async throws -> Int32 {
        let store = try options.openStore()
        timings?.reached("opened")
        let account = try Account(options.configuration, store: store)
        let events = account.events
        let handedOver = Task {
            for await event in events { if case .handedOver = event { return true } }
            return false
        }
        do {
            try await account.connect()
            ProcessMemory.releaseCode()
            try await account.caughtUp()
            if linger > .zero { try await Task.sleep(for: linger) }
            // Again: the handlers of the first round may have asked something whose answer is on its way.
            try await account.caughtUp()
            _ = try await account.drain(for: Self.drainTime)
            timings?.reached("drained")
        } catch let error as AccountError where error.code == .ownershipHeld {
            await account.close()
            Terminal.say("main is alive")
            return 0
        } catch {
            await account.close()
            if await handedOver.value {
                Terminal.say("main has the stream")
                return 0
            }
            throw error
        }
        await account.close()
        Terminal.say("drained peak-kib=\(ProcessMemory.peakKibibytes)")
        timings?.say()
        return 0
    }
}
