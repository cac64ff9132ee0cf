import Glibc
import Handlers
import Simulation
import XMPPAccount
import XMPPCore

/// `pushwake worker`: what a push wakes.
///
/// It takes the stream over, resumes the session, runs the handlers of everything that waits, sends what they send,
/// acknowledges, hands back and exits. If the main program is alive it leaves at once. When its time is nearly over it begins
/// nothing new, and leaves the rest to the next worker.
struct WorkerCommand {
    /// From how much memory on it gives code back, in KiB. It has 24 MiB on a phone, and the worst stanza takes half of that while
    /// it is read.
    static let comfortable = 12 << 10

    private let options: AccountOptions
    private let linger: Duration
    private let timings: WorkerTimings?
    private let time: Duration

    init(_ words: [String]) throws {
        let begin = WorkerTimings.now
        let arguments = try Arguments(words, of: "worker")
        timings = arguments.has("--timings") ? WorkerTimings(begin: begin) : nil
        var options = try AccountOptions(arguments, role: .worker)
        options.configuration.onMilestone = { [timings] in
            timings?.reached($0.rawValue)
            // Code that ran before a milestone seldom runs after it. On a busy machine the watch of memory may be late.
            ProcessMemory.releaseCode(above: Self.comfortable)
        }
        self.options = options
        linger = .milliseconds(try arguments.number("--linger", in: 0...25_000, default: 0))
        time = .seconds(try arguments.number("--time", in: 1...3600, default: 30))
    }

    func run() async throws -> Int32 {
        let end = ContinuousClock.now + WorkerTime.working(of: time)
        let store = try options.openStore()
        ProcessMemory.releaseCode(above: Self.comfortable)
        timings?.reached("opened")
        let account = try Account(options.configuration, store: store)
        let time = WorkerTime(until: end, account)
        let memory = ProcessMemory.releasingCode(above: Self.comfortable)
        let events = account.events
        let isAsked = Flag()
        let isOvertaken = Task {
            for await event in events {
                switch event {
                case .handedOver: break
                // It stood still for so long that main took the stream without asking.
                case .stopped(let error) where error.code == .ownershipLost: break
                default: continue
                }
                isAsked.raise()
                return true
            }
            return false
        }
        let isDone: Bool
        do {
            isDone = try await drain(account, until: end, unless: isAsked)
        } catch {
            await time.close()
            await ProcessMemory.end(memory)
            return try await leave(error, isOver: time.isOver, isOvertaken)
        }
        // Closing takes code of its own, and so does what libraries do at exit.
        ProcessMemory.releaseCode()
        await time.close()
        await ProcessMemory.end(memory)
        ProcessMemory.releaseCode()
        return leave(isDone && !time.isOver ? "drained" : "time is over")
    }

    /// - Returns: Whether nothing waits any more.
    private func drain(
        _ account: Account, until end: ContinuousClock.Instant, unless isAsked: Flag
    ) async throws -> Bool {
        try await account.connect()
        ProcessMemory.releaseCode()
        try await account.caughtUp()
        if linger > .zero {
            Terminal.say("lingering")
            let end = ContinuousClock.now + linger
            while ContinuousClock.now < end, !isAsked.isRaised {
                try await Task.sleep(for: .milliseconds(5))
            }
        }
        // Again: the handlers of the first round may have asked something whose answer is on its way.
        try await account.caughtUp()
        let isDone = try await account.drain(for: end - .now)
        timings?.reached("drained")
        return isDone
    }

    /// What stopped the work, when that is no failure.
    private func leave(
        _ error: any Error, isOver: Bool, _ isOvertaken: Task<Bool, Never>
    ) async throws -> Int32 {
        if (error as? AccountError)?.code == .ownershipHeld {
            Terminal.say("main is alive")
            return 0
        }
        if isOver { return leave("time is over") }
        guard await isOvertaken.value else { throw error }
        Terminal.say("main has the stream")
        return 0
    }

    private func leave(_ word: String) -> Int32 {
        Terminal.say("\(word) peak-kib=\(ProcessMemory.peakKibibytes)")
        timings?.say()
        return 0
    }
}
