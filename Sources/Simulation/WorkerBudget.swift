import Platform
import Handlers
import Synchronization
package import TestServers

/// The limits at which a worker is killed, as a phone's platform does with an extension.
package struct WorkerLimits: Equatable, Sendable {
    /// The most physical memory that it may have had at any moment, in MiB; nil for any.
    package var mebibytes: Int?
    /// How long it may live, without the time in which it waited for a processor that others used; nil for as long as it
    /// likes.
    package var time: Duration?

    package init(mebibytes: Int? = nil, time: Duration? = nil) {
        self.mebibytes = mebibytes
        self.time = time
    }

    /// The means by which they are kept, as text.
    package var means: String {
        let memory = mebibytes.map { limit in
            let group = MemoryGroup.place.map { "\($0.version.rawValue) and " } ?? ""
            return "\(limit) MiB by \(group)a watch on the peak"
        }
        let time = time.map { "\($0.components.seconds) s by a timer" }
        return [memory, time].compactMap(\.self).joined(separator: ", ")
    }
}

/// Watches one worker and kills it when it goes beyond its limits.
///
/// The kernel keeps the peak (`VmHWM`), so a peak between two looks is seen by the next one. Where control groups can be had,
/// the worker is in one besides, and the kernel kills it at once. A limit of the address space would count what is mapped and
/// never touched.
package final class WorkerBudget: Sendable {
    /// The exceeded limit of a worker.
    package enum Excess: Equatable, Sendable { case memory, time }

    private static let interval: UInt32 = 2000

    package let process: ChildProcess
    private let limits: WorkerLimits
    private let group: MemoryGroup?
    private let found = Mutex<Excess?>(nil)

    /// Starts a worker and begins to watch it; ends with the process.
    ///
    /// - Parameter place: Where a control group for it may be made; nil for none.
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

    /// For what the worker was killed; nil while it was not.
    package var excess: Excess? { found.withLock { $0 } ?? (group?.hasKilled == true ? .memory : nil) }

    private func watch() {
        let begin = ContinuousClock.now
        var last: ProcessorWait?
        while process.isRunning {
            if let excess = excess(since: begin, &last) {
                // First: a reader that sees the process dead reads the reason.
                found.withLock { $0 = excess }
                process.signal(Signal.kill)
                return
            }
            SystemThread.sleep(microseconds: Self.interval)
        }
    }

    /// - Parameter last: The look before, once it has lived too long.
    private func excess(since begin: ContinuousClock.Instant, _ last: inout ProcessorWait?) -> Excess? {
        if let limit = limits.mebibytes, ProcessMemory.peakKibibytes(of: process.processID) > limit * 1024 {
            return .memory
        }
        guard let limit = limits.time, case let age = ContinuousClock.now - begin, age > limit else {
            return nil
        }
        let now = ProcessorWait(of: process.processID)
        defer { last = now }
        guard age - now.longest > limit else { return nil }
        // One that waits at this moment has waited for longer than its figure says, until it runs again.
        return !now.isReady || last.map { $0.used < now.used } ?? false ? .time : nil
    }
}
