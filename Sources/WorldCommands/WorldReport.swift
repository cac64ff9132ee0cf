import Handlers
import Simulation
import World
import XMPPCore

/// The timeline page of a world.
func worldReport(_ world: SimulatedWorld, title: String) throws -> TimelinePage {
    let timeline = world.timeline
    let lives = timeline.lives.enumerated().map { index, life in
        var drawn = Chronicle.Life(
            role: life.isMain ? "main" : "worker", pid: Int32(index + 1), start: life.start / 1_000_000,
            end: life.end.map { $0 / 1_000_000 }, fate: life.fate)
        drawn.frozen = life.frozen.map { [$0.from / 1_000_000, $0.to / 1_000_000] }
        return drawn
    }
    let places = Dictionary(
        timeline.lives.enumerated().map { ($0.element.name, Int64($0.offset)) }, uniquingKeysWith: { $1 })
    let flights = timeline.handlers.map { handler in
        FlightRecorder.Flight(
            id: Int64(handler.number), name: handler.kind, arguments: "{}", bound: handler.start / 1_000_000,
            boundBy: places[handler.process] ?? -1, ended: handler.end.map { $0 / 1_000_000 },
            endedBy: handler.endedBy.flatMap { places[$0] }, outcome: handler.outcome.map(outcome),
            reason: handler.outcome, trace: Int64(handler.number))
    }
    let marks = timeline.marks.map {
        Chronicle.Mark(at: $0.at / 1_000_000, kind: $0.kind.rawValue, text: $0.text)
    }
    return TimelinePage(
        title: "\(title)",
        verdict: world.violation ?? "Every handler ended exactly once, and nothing was lost or repeated.",
        isGood: world.violation == nil, summary: VisibleText(world.summary), lives: lives, marks: marks,
        flights: flights, owners: Dictionary(uniqueKeysWithValues: lives.indices.map { (Int64($0), $0) }))
}

private func outcome(_ word: String) -> Outcome {
    switch word {
    case "error": .error
    case "timeout": .timeout
    case "invalidated": .invalidated
    default: .result
    }
}
