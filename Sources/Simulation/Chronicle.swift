import Handlers
package import TestServers

/// The simulation's log of events: the start, freeze and end of each process, and the faults of the server and the line.
package final class Chronicle {
    /// A process of the run. Times in milliseconds since 1970.
    package struct Life: Codable, Equatable {
        package var role: String
        package var pid: Int32
        package var start: Int64
        package var end: Int64?
        /// `running`, `killed`, `exited`, or the status or signal of a failure.
        package var fate = "running"
        /// The start and end of each time in which it was stopped.
        package var frozen: [[Int64]] = []

        package init(role: String, pid: Int32, start: Int64, end: Int64? = nil, fate: String = "running") {
            (self.role, self.pid, self.start, self.end, self.fate) = (role, pid, start, end, fate)
        }
    }

    /// An event at one moment.
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

    /// - Parameter now: Returns the wall clock time, in milliseconds since 1970.
    package init(now: @escaping () -> Int64 = { TimeSource.systemWall().milliseconds }) { self.now = now }

    package func started(_ role: String, _ pid: Int32) {
        lives.append(Life(role: role, pid: pid, start: now()))
    }

    package func ended(_ pid: Int32, _ ending: ChildEnding) {
        change(pid) { life in
            life.end = now()
            life.fate = ending.signal == 9 ? "killed" : ending.status == 0 ? "exited" : "ended: \(ending)"
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

    /// Process ids are reused, so the last matching process is the right one.
    private func change(_ pid: Int32, _ body: (inout Life) -> Void) {
        if let index = lives.lastIndex(where: { $0.pid == pid && $0.end == nil }) { body(&lives[index]) }
    }
}
