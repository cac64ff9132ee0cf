package import Platform

/// A loop whose turns have work in the middle that several loops can do together.
///
/// ```text
///   startTurn ──▶ work ──▶ endTurn
///   startTurn ──▶ nil ───▶ endTurn
/// ```
package protocol GroupedLoop: DrivenLoop {
    /// Where that work is done, such as a store. Only work of one place is done together.
    var place: ObjectIdentifier { get }

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
    /// Does it alone.
    func run()

    /// Does as much work of one place as belongs together, in its order.
    ///
    /// - Returns: How much was done, from 1.
    static func run(_ work: ArraySlice<any GroupedWork>) -> Int
}
