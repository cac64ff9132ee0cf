import Platform
import Synchronization
import XMPPCore

/// The times of a worker's milestones, in nanoseconds of the monotonic clock, which all processes of a machine share.
final class WorkerTimings: Sendable {
    private let marks: Mutex<[(name: String, at: Int64)]>

    /// - Parameter begin: The approximate time of the program's first instruction.
    init(begin: Int64) { marks = Mutex([("main", begin)]) }

    static var now: Int64 { SystemTime.monotonicNanoseconds() }

    /// Records the first time of a milestone.
    func reached(_ name: String) {
        let now = Self.now
        marks.withLock { marks in
            if !marks.contains(where: { $0.name == name }) { marks.append((name, now)) }
        }
    }

    /// Prints all milestones in their order.
    func say() {
        let members = marks.withLock { $0.map { "\"\($0.name)\":\($0.at)" } }
        Terminal.say(VisibleText(json: "{\"timings\":{\(members.joined(separator: ","))}}"))
    }
}
