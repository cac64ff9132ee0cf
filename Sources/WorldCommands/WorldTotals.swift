import PushwakeCommands
import World
import XMPPCore

/// The totals of all worlds of a command.
struct WorldTotals {
    private(set) var worlds = 0
    private var lives = 0
    private var powerLosses = (full: 0, normal: 0)
    private var events = 0
    private var handlers = 0
    private var digest = StableHash()

    mutating func add(_ world: SimulatedWorld) {
        worlds += 1
        lives += world.lives
        if world.isFull {
            powerLosses.full += world.powerLosses
        } else {
            powerLosses.normal += world.powerLosses
        }
        events += world.events
        handlers += world.endedHandlers
        digest.combine(world.digest)
    }

    func summary(_ first: WorldRecipe, _ time: Duration) -> String {
        let seconds = max(0.001, Double(time.milliseconds) / 1000)
        let seeds =
            worlds == 1 ? "seed \(first.seed)" : "seeds \(first.seed) to \(first.seed + UInt64(worlds - 1))"
        let parts = [
            lives == 1 ? "1 life" : "\(lives) lives", "\(powerLosses.full) losses of power with FULL",
            "\(powerLosses.normal) with NORMAL", Terminal.count(events, "event"),
            "\(handlers) handlers ended", "\(Int(Double(lives) / seconds)) lives/s",
            "digest \(String(digest.value, radix: 16))",
        ]
        return "\(seeds): \(parts.joined(separator: ", "))"
    }
}
