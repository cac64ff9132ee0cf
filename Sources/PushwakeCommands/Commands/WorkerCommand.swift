import Glibc
import Handlers
import Simulation
import XMPPAccount
import XMPPCore

/// `pushwake worker`: the process that a push wakes.
///
/// It takes over the stream, resumes the session, and runs the handlers of all stored stanzas. Then it sends their stanzas,
/// acknowledges, hands the stream back and exits. If the main program is alive, it exits at once. When its time is nearly over, it
/// starts nothing new and leaves the rest to the next worker.
struct WorkerCommand {
    /// The memory in KiB from which it releases code. A phone allows 24 MiB, and reading the largest stanza takes half of that.
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
            // Code that ran before a milestone seldom runs after it. On a busy machine the task that watches the memory may be
            // late.
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
                // It was frozen for so long that main took over the stream without a request.
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
        // Closing needs more code, and so do libraries at exit.
        ProcessMemory.releaseCode()
        await time.close()
        await ProcessMemory.end(memory)
        ProcessMemory.releaseCode()
        return leave(isDone && !time.isOver ? "drained" : "time is over")
    }

    /// - Returns: Whether no work is left.
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
        // A second time, because handlers of the first round may have sent requests whose answers are still in transit.
        try await account.caughtUp()
        let isDone = try await account.drain(for: end - .now)
        timings?.reached("drained")
        return isDone
    }

    /// Returns the exit status for an error that is not a failure.
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
