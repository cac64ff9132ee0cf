import Handlers
import XMPPAccount

/// A process of the world, from its start to its end.
final class SimulatedProcess {
    enum Role { case main, worker }

    /// A sync that fails. Many programs end then, and leave their commit to the next process.
    enum SyncFault { case reported, deadly }

    let disk: SimulatedDisk.Process
    let role: Role
    let driver: WorldDriver
    var account: Account?
    var store: HandlerStore?
    var task: Task<Void, Never>?
    /// The reason why the program ended by itself; nil while it runs.
    var ending: String?
    /// The number of this process's calls on the stack.
    var depth = 0
    /// The fault of its next sync.
    var syncFault: SyncFault?
    /// Whether its next call to the disk kills it.
    var diesNext = false
    /// Whether it was killed during a call. It is cleaned up when that call has returned.
    var isDying = false
    /// The sleeping tasks by number, with the time when each wakes.
    var sleepers: [Int: (due: Int64, continuation: CheckedContinuation<Bool, Never>)] = [:]
    /// The time when it thaws; nil unless it is frozen between two calls.
    var thawsAt: Int64?

    init(_ disk: SimulatedDisk.Process, _ role: Role, _ driver: WorldDriver) {
        (self.disk, self.role, self.driver) = (disk, role, driver)
    }

    var name: String { disk.name }
}
