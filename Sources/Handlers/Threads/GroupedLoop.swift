package import Platform

/// A loop whose turns have work in the middle that several loops can do together.
///
/// ```text
///   startTurn ──▶ work ──▶ endTurn
///   startTurn ──▶ nil ───▶ endTurn
/// ```
package protocol GroupedLoop: DrivenLoop {
    /// Handles everything that is ready, up to that work.
    ///
    /// - Parameter found: The descriptors of the last pause, with the result of the wait; empty before the first turn.
    /// - Returns: The work; nil for none, or when it has been done already.
    func startTurn(_ found: [PollEntry]) -> (any GroupedWork)?

    /// Handles everything after the work.
    ///
    /// - Returns: What to wait for before the next turn; nil after the last turn.
    func endTurn() -> Pause?
}

extension GroupedLoop {
    package func turn(_ found: [PollEntry]) -> Pause? {
        startTurn(found)?.run()
        return endTurn()
    }
}

/// Work that several loops can do together, such as steps that share a commit.
package protocol GroupedWork: AnyObject {
    /// Where it is done; work of other places is done apart.
    var place: ObjectIdentifier { get }

    /// Does it alone.
    func run()

    /// Does as much work of one place as belongs together, in its order.
    ///
    /// - Returns: How much was done, from 1.
    static func run(_ work: ArraySlice<any GroupedWork>) -> Int
}

/// Does work that loops have in common.
enum GroupedTurns {
    static func run(_ work: [any GroupedWork]) {
        var places: [(place: ObjectIdentifier, work: ArraySlice<any GroupedWork>)] = []
        for part in work {
            if let index = places.firstIndex(where: { $0.place == part.place }) {
                places[index].work.append(part)
            } else {
                places.append((part.place, [part]))
            }
        }
        for (_, work) in places {
            var rest = work
            while let first = rest.first { rest = rest.dropFirst(type(of: first).run(rest)) }
        }
    }
}
