import Handlers
import TestServers

/// What the simulation itself did and saw: when each process was started, frozen, killed or gone, and what happened to
/// the server and the line.
final class Chronicle {
    /// A process of the run. Times in milliseconds since 1970.
    struct Life: Codable, Equatable {
        var role: String
        var pid: Int32
        var start: Int64
        var end: Int64?
        /// `killed`, `exited`, or the status or signal with which it failed; `running` while it does.
        var fate = "running"
        /// From when to when it was stopped.
        var frozen: [[Int64]] = []
    }

    /// Something that happened at one moment.
    struct Mark: Codable, Equatable {
        var at: Int64
        /// `push`, `expired`, `restart`, `reset`, `half-open`, `thawed`; from the store also `bound` and `resumed`.
        var kind: String
        var text: String
    }

    private(set) var lives: [Life] = []
    private(set) var marks: [Mark] = []
    private let now: () -> Int64

    /// - Parameter now: The clock on the wall, in milliseconds since 1970.
    init(now: @escaping () -> Int64 = TimeSource.systemWallMilliseconds) { self.now = now }

    func began(_ role: String, _ pid: Int32) { lives.append(Life(role: role, pid: pid, start: now())) }

    func ended(_ pid: Int32, _ ending: ChildEnding) {
        change(pid) { life in
            life.end = now()
            life.fate =
                ending.signal == 9 ? "killed" : ending.status == 0 ? "exited" : "ended: \(ending)"
            if let last = life.frozen.indices.last, life.frozen[last].count == 1 {
                life.frozen[last].append(now())
            }
        }
    }

    func froze(_ pid: Int32) { change(pid) { $0.frozen.append([now()]) } }

    func thawed(_ pid: Int32) {
        change(pid) { life in
            if let last = life.frozen.indices.last { life.frozen[last].append(now()) }
        }
    }

    func noted(_ kind: String, _ text: String) { marks.append(Mark(at: now(), kind: kind, text: text)) }

    /// Ids are used again, so the last one counts.
    private func change(_ pid: Int32, _ body: (inout Life) -> Void) {
        if let index = lives.lastIndex(where: { $0.pid == pid && $0.end == nil }) { body(&lives[index]) }
    }
}
