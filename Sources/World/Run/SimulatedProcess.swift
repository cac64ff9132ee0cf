import Handlers
import XMPPAccount

/// A process of the world, from its start to its end.
final class SimulatedProcess {
    enum Role { case main, worker }

    let disk: SimulatedDisk.Process
    let role: Role
    let driver: WorldDriver
    var account: Account?
    var store: HandlerStore?
    var task: Task<Void, Never>?
    /// Why the program ended by itself; nil while it runs.
    var ending: String?
    /// The number of calls of this process that are under way on the stack.
    var depth = 0
    /// Whether it was killed in a call that was under way: it is put away when that has returned.
    var isDying = false
    /// The tasks that sleep, by their number, with the time at which they wake.
    var sleepers: [Int: (due: Int64, continuation: CheckedContinuation<Bool, Never>)] = [:]
    /// When it thaws; nil unless it is frozen between two calls.
    var thawsAt: Int64?

    init(_ disk: SimulatedDisk.Process, _ role: Role, _ driver: WorldDriver) {
        (self.disk, self.role, self.driver) = (disk, role, driver)
    }

    var name: String { disk.name }
}
