import Platform
import Handlers
import Synchronization
package import TestServers

/// The limits at which a worker is killed, as a phone's platform kills an extension.
package struct WorkerLimits: Equatable, Sendable {
    /// The maximum peak of physical memory, in MiB; nil for no limit.
    package var mebibytes: Int?
    /// The maximum lifetime, without the time in which the worker waited for a processor; nil for no limit.
    package var time: Duration?

    package init(mebibytes: Int? = nil, time: Duration? = nil) {
        self.mebibytes = mebibytes
        self.time = time
    }

    /// The means that enforce the limits, as text.
    package var means: String {
        let memory = mebibytes.map { limit in
            let group = MemoryGroup.place.map { "\($0.version.rawValue) and " } ?? ""
            return "\(limit) MiB by \(group)a watch on the peak"
        }
        let time = time.map { "\($0.components.seconds) s by a timer" }
        return [memory, time].compactMap(\.self).joined(separator: ", ")
    }
}

/// Watches a worker and kills it when it exceeds its limits.
///
/// The kernel keeps the peak (`VmHWM`), so the next look sees a peak between two looks. If control groups are available, the worker
/// is also in one, and the kernel kills it at once. A limit of the address space would also count mapped memory that was never
/// touched.
package final class WorkerBudget: Sendable {
    /// The limit that a worker exceeded.
    package enum Excess: Equatable, Sendable { case memory, time }

    private static let interval: UInt32 = 2000

    package let process: ChildProcess
    private let limits: WorkerLimits
    private let group: MemoryGroup?
    private let found = Mutex<Excess?>(nil)

    /// Starts a worker and watches it until it ends.
    ///
    /// - Parameter place: The folder for the worker's control group; nil for none.
    package init(
        _ limits: WorkerLimits, _ command: [String], environment: ChildProcess.Environment = .inheriting(),
        output: ChildProcess.Output = .null, errors: ChildProcess.Output = .inherited,
        place: MemoryGroup.Place? = MemoryGroup.place
    ) throws {
        self.limits = limits
        if let place, let mebibytes = limits.mebibytes {
            group = try MemoryGroup(in: place, mebibytes: mebibytes)
        } else {
            group = nil
        }
        let whole = group?.entering(command) ?? command
        process = try ChildProcess(
            whole[0], Array(whole.dropFirst()), environment: environment, output: output, errors: errors,
            endsWithParent: false)
        _ = try WorkerThread("worker budget", blocksSignals: true) { [self] in watch() }
    }

    /// The reason why the worker was killed; nil if it was not.
    package var excess: Excess? { found.withLock { $0 } ?? (group?.hasKilled == true ? .memory : nil) }

    private func watch() {
        let begin = ContinuousClock.now
        var last: ProcessorWait?
        while process.isRunning {
            if let excess = excess(since: begin, &last) {
                // The reason is stored before the kill, so that a reader that sees the process dead also sees the reason.
                found.withLock { $0 = excess }
                process.signal(Signal.kill)
                return
            }
            SystemThread.sleep(microseconds: Self.interval)
        }
    }

    /// - Parameter last: The previous measurement, once the worker is older than its limit.
    private func excess(since begin: ContinuousClock.Instant, _ last: inout ProcessorWait?) -> Excess? {
        if let limit = limits.mebibytes, ProcessMemory.peakKibibytes(of: process.processID) > limit * 1024 {
            return .memory
        }
        guard let limit = limits.time, case let age = ContinuousClock.now - begin, age > limit else {
            return nil
        }
        // A worker that has ended meanwhile kept its limit: nothing kills it any more.
        guard let now = ProcessorWait(of: process.processID) else { return nil }
        defer { last = now }
        guard age - now.longest > limit else { return nil }
        // The current wait of a ready worker is not yet in the figure, so the decision waits until it runs again.
        return !now.isReady || last.map { $0.used < now.used } ?? false ? .time : nil
    }
}
