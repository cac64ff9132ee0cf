import Glibc
import Handlers
import Synchronization
package import TestServers

/// Starts a worker for each push, one at a time for each installation.
///
/// Pushes that arrive while a worker runs start one more worker after its end. So no push is missed, and many pushes do not start
/// many processes. Starting a process and waiting for its end block, so each installation has a thread while it has a worker.
package final class WorkerStarter: Sendable {
    /// An event of a worker.
    package enum Event: Sendable {
        case started(node: String, pid: Int32)
        case ended(node: String, pid: Int32, ChildEnding)
        /// A worker was killed because its time was over.
        case overtime(node: String, pid: Int32)
        case failed(node: String, reason: String)
    }

    private let command: [String]
    private let limit: Duration
    private let report: @Sendable (Event) -> Void
    /// The nodes for which a worker runs, and whether another worker follows.
    private let running = Mutex<[String: Bool]>([:])

    /// - Parameters:
    ///   - command: The program and its arguments. The variable `PUSHWAKE_NODE` contains the node.
    ///   - limit: The time after which a worker is killed.
    ///   - report: Called on the worker's thread.
    package init(_ command: [String], limit: Duration, report: @escaping @Sendable (Event) -> Void) {
        self.command = command
        self.limit = limit
        self.report = report
    }

    package func wake(_ node: String) throws {
        let isFirst = running.withLock { running in
            defer { running[node] = running[node] != nil }
            return running[node] == nil
        }
        guard isFirst else { return }
        _ = try WorkerThread("worker starter") {
            repeat { self.runWorker(for: node) } while self.isWantedAgain(node)
        }
    }

    private func isWantedAgain(_ node: String) -> Bool {
        running.withLock { running in
            guard running[node] == true else {
                running[node] = nil
                return false
            }
            running[node] = false
            return true
        }
    }

    private func runWorker(for node: String) {
        do {
            let process = try ChildProcess(
                command[0], Array(command.dropFirst()), environment: .inheriting(["PUSHWAKE_NODE": node]),
                output: .inherited)
            report(.started(node: node, pid: process.processID))
            report(.ended(node: node, pid: process.processID, try ending(of: process, node)))
        } catch {
            report(.failed(node: node, reason: "\(error)"))
        }
    }

    private func ending(of process: ChildProcess, _ node: String) throws -> ChildEnding {
        do {
            return try process.waitUntilExit(deadline: .now + limit)
        } catch {
            report(.overtime(node: node, pid: process.processID))
            process.signal(SIGKILL)
            return try process.waitUntilExit(deadline: .now + .seconds(10))
        }
    }
}
