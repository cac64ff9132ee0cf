import Platform

/// A turn of a loop: what was found before it, and the pause after it.
///
/// `@unchecked Sendable`: the thread that makes it touches it again only after the thread that runs it has finished.
final class Turn: @unchecked Sendable {
    /// The loop until the turn has ended: its files must be closed when the thread that waits for it lets go of it.
    private var loop: (any DrivenLoop)?
    /// The loop, if its steps can share a commit.
    private var grouped: (any GroupedLoop)?
    private let found: [PollEntry]
    /// Where its work is done; alone if the loop does not say.
    let place: ObjectIdentifier
    /// The pause after the turn; nil after the last turn.
    private(set) var next: Pause?

    init(_ loop: any DrivenLoop, _ found: [PollEntry]) {
        (self.loop, grouped, self.found) = (loop, loop as? any GroupedLoop, found)
        place = grouped?.place ?? ObjectIdentifier(loop)
    }

    /// The time after which no further turn starts before the started ones end, in nanoseconds: they have read what is not stored.
    private static let longestStart: Int64 = 10_000_000

    /// Runs turns, and does together what they have in common.
    ///
    /// - Returns: How many were run, from 1.
    static func run(_ turns: ArraySlice<Turn>) -> Int {
        let end = SystemTime.monotonicNanoseconds() + longestStart
        var started: [(turn: Turn, work: any GroupedWork)] = []
        var count = 0
        for turn in turns {
            count += 1
            if let work = turn.start() { started.append((turn, work)) }
            if SystemTime.monotonicNanoseconds() >= end { break }
        }
        work(started)
        for (turn, _) in started { turn.end() }
        return count
    }

    /// Starts the turn.
    ///
    /// - Returns: The work after which the turn ends; nil when it has ended.
    private func start() -> (any GroupedWork)? {
        if let work = grouped?.startTurn(found) { return work }
        end()
        return nil
    }

    private func end() {
        if let grouped { next = grouped.endTurn() } else { next = loop?.turn(found) }
        (loop, grouped) = (nil, nil)
    }

    /// Does the work of several places, one place after the other.
    private static func work(_ started: [(turn: Turn, work: any GroupedWork)]) {
        var places: [(place: ObjectIdentifier, work: ArraySlice<any GroupedWork>)] = []
        for (turn, work) in started {
            if let index = places.firstIndex(where: { $0.place == turn.place }) {
                places[index].work.append(work)
            } else {
                places.append((turn.place, [work]))
            }
        }
        for (_, work) in places {
            var rest = work
            while let first = rest.first { rest = rest.dropFirst(type(of: first).run(rest)) }
        }
    }
}
