/// The lives of the processes and handlers of a run, for drawing. Times are in nanoseconds of the world.
package struct WorldTimeline {
    package enum Kind: String {
        case kill, freeze, disk, memory, message, push, reset, block, outage, expiry, restart, stranger, list
        case powerLoss = "power-loss", halfOpen = "half-open", clockJump = "clock-jump",
            wrongCount = "wrong-count"
    }

    package struct Life {
        package let name: String
        package let isMain: Bool
        package let start: Int64
        package var end: Int64?
        package var fate = "running"
        package var frozen: [(from: Int64, to: Int64)] = []
    }

    package struct Handler {
        package let number: Int
        package let kind: String
        package let process: String
        package let start: Int64
        package var end: Int64?
        package var outcome: String?
        package var endedBy: String?
    }

    package private(set) var lives: [Life] = []
    package var marks: [(at: Int64, kind: Kind, text: String)] = []
    package private(set) var handlers: [Handler] = []
    private var placesOfHandlers: [Int: Int] = [:]

    mutating func started(_ name: String, _ role: SimulatedProcess.Role, at now: Int64) {
        lives.append(Life(name: name, isMain: role == .main, start: now))
    }

    mutating func ended(_ name: String, _ fate: String, at now: Int64) {
        guard let index = lives.lastIndex(where: { $0.name == name }) else { return }
        (lives[index].end, lives[index].fate) = (now, fate)
    }

    mutating func froze(_ name: String, from: Int64, to: Int64) {
        guard let index = lives.lastIndex(where: { $0.name == name }) else { return }
        lives[index].frozen.append((from, to))
    }

    mutating func see(_ look: WorldModel.Look, at now: Int64) {
        for row in look.bound {
            placesOfHandlers[row.n] = handlers.count
            handlers.append(Handler(number: row.n, kind: row.kind, process: row.process, start: now))
        }
        for row in look.ended {
            guard let index = placesOfHandlers[row.n], handlers[index].end == nil else { continue }
            handlers[index].end = now
            (handlers[index].outcome, handlers[index].endedBy) = (row.outcome, row.process)
        }
    }
}
