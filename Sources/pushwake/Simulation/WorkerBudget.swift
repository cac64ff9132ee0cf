import Glibc
import Handlers
import Synchronization
import XMPPTestKit

/// What a worker may use before it is killed, as a phone's platform does with an extension.
struct WorkerLimits: Equatable, Sendable {
    /// The most physical memory that it may have had at any moment, in MiB; nil for any.
    var mebibytes: Int?
    /// How long it may live; nil for as long as it likes.
    var time: Duration?
}

/// Watches one worker and kills it when it goes beyond its limits.
///
/// The kernel keeps the peak (`VmHWM`), so a peak between two looks is seen by the next one. A limit of the address space
/// would count what is mapped and never touched, and a control group is not to be had everywhere.
final class WorkerBudget: Sendable {
    /// What a worker used too much of.
    enum Excess: Equatable, Sendable { case memory, time }

    private static let interval: UInt32 = 2000

    private let limits: WorkerLimits
    private let process: ChildProcess
    private let found = Mutex<Excess?>(nil)

    /// Begins to watch; ends with the process.
    init(_ limits: WorkerLimits, _ process: ChildProcess) throws {
        self.limits = limits
        self.process = process
        _ = try WorkerThread("worker budget", blocksSignals: true) { [self] in watch() }
    }

    /// For what the worker was killed; nil while it was not.
    var excess: Excess? { found.withLock { $0 } }

    private func watch() {
        let end = limits.time.map { ContinuousClock.now + $0 }
        while process.isRunning {
            if let excess = excess(end) {
                // First: whoever sees the process dead asks why.
                found.withLock { $0 = excess }
                process.signal(SIGKILL)
                return
            }
            usleep(Self.interval)
        }
    }

    private func excess(_ end: ContinuousClock.Instant?) -> Excess? {
        if let limit = limits.mebibytes, ProcessMemory.peakKibibytes(of: process.processID) > limit * 1024 {
            return .memory
        }
        if let end, ContinuousClock.now > end { return .time }
        return nil
    }
}
