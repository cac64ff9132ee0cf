import Handlers
package import TestServers

/// The log of the simulation itself: when each process was started, frozen, killed or gone, and what happened to
/// the server and the line.
package final class Chronicle {
    /// A process of the run. Times in milliseconds since 1970.
    package struct Life: Codable, Equatable {
        package var role: String
        package var pid: Int32
        package var start: Int64
        package var end: Int64?
        /// `killed`, `exited`, or the status or signal with which it failed; `running` while it does.
        package var fate = "running"
        /// From when to when it was stopped.
        package var frozen: [[Int64]] = []

        package init(role: String, pid: Int32, start: Int64, end: Int64? = nil, fate: String = "running") {
            (self.role, self.pid, self.start, self.end, self.fate) = (role, pid, start, end, fate)
        }
    }

    /// Something that happened at one moment.
    package struct Mark: Codable, Equatable {
        package var at: Int64
        /// `push`, `expired`, `restart`, `reset`, `half-open`, `thawed`; from the store also `bound` and `resumed`.
        package var kind: String
        package var text: String

        package init(at: Int64, kind: String, text: String) {
            (self.at, self.kind, self.text) = (at, kind, text)
        }
    }

    package private(set) var lives: [Life] = []
    package private(set) var marks: [Mark] = []
    private let now: () -> Int64

    /// - Parameter now: The clock on the wall, in milliseconds since 1970.
    package init(now: @escaping () -> Int64 = { TimeSource.systemWall().milliseconds }) { self.now = now }

    package func began(_ role: String, _ pid: Int32) {
        lives.append(Life(role: role, pid: pid, start: now()))
    }

    package func ended(_ pid: Int32, _ ending: ChildEnding) {
        change(pid) { life in
            life.end = now()
            life.fate =
                ending.signal == 9 ? "killed" : ending.status == 0 ? "exited" : "ended: \(ending)"
            if let last = life.frozen.indices.last, life.frozen[last].count == 1 {
                life.frozen[last].append(now())
            }
        }
    }

    package func froze(_ pid: Int32) { change(pid) { $0.frozen.append([now()]) } }

    package func thawed(_ pid: Int32) {
        change(pid) { life in
            if let last = life.frozen.indices.last { life.frozen[last].append(now()) }
        }
    }

    package func noted(_ kind: String, _ text: String) {
        marks.append(Mark(at: now(), kind: kind, text: text))
    }

    /// Ids are used again, so the last one counts.
    private func change(_ pid: Int32, _ body: (inout Life) -> Void) {
        if let index = lives.lastIndex(where: { $0.pid == pid && $0.end == nil }) { body(&lives[index]) }
    }
}
