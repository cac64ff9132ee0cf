import PushwakeCommands
import World
import XMPPCore

/// The totals of all worlds of a command.
struct WorldTotals {
    private(set) var worlds = 0
    /// The seeds of the first world and the last one.
    private var seeds: (first: UInt64, last: UInt64)?
    private var lives = 0
    private var powerLosses = (full: 0, normal: 0)
    private var events = 0
    private var handlers = 0
    private var digest = StableHash()

    mutating func add(_ world: SimulatedWorld) {
        worlds += 1
        seeds = (seeds?.first ?? world.recipe.seed, world.recipe.seed)
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

    /// - Parameter isGood: Whether no world had a violation.
    func summary(_ time: Duration, isGood: Bool) -> String {
        let seconds = max(0.001, Double(time.milliseconds) / 1000)
        let (first, last) = seeds ?? (0, 0)
        let name = first == last ? "seed \(first)" : "seeds \(first) to \(last)"
        let run = lives == 1 ? "1 life" : "\(lives) lives"
        let parts = [
            isGood ? "no violation in \(run)" : run,
            "\(powerLosses.full) losses of power with synchronous=FULL",
            "\(powerLosses.normal) with synchronous=NORMAL",
            Terminal.count(events, "event"),
            "\(handlers) handlers ended", "\(Int(Double(lives) / seconds)) lives/s",
            "digest \(String(digest.value, radix: 16))",
        ]
        return "\(name): \(parts.joined(separator: ", "))"
    }
}
