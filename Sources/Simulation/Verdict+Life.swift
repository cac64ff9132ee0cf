extension Verdict {
    /// The number of times that main took a transition.
    package struct Transition: Codable, Equatable {
        package var from: MainLife.State
        package var move: MainLife.Move
        package var to: MainLife.State
        package var count: Int
    }

    /// The counts of ownership, observed from outside.
    package struct OwnerCounts: Codable, Equatable {
        /// The number of changes of the owner.
        package var epochs = 0
        /// Commits of a process during the epoch of another owner.
        package var staleCommits = 0
        /// The stanzas that the server accepted from a connection after another one had resumed its session; nil if unknown.
        package var staleStanzas: Int?
    }

    /// Returns every transition that main may make, with its count.
    package static func transitions(_ life: MainLife) -> [Transition] {
        life.allowed.map { Transition(from: $0.from, move: $0.move, to: $0.to, count: life.counts[$0] ?? 0) }
    }

    /// Returns the transitions as text, one line for each state in which they start.
    package static func text(_ transitions: [Transition]) -> String {
        let total = transitions.reduce(0) { $0 + $1.count }
        let taken = transitions.count { $0.count > 0 }
        let lines = MainLife.State.allCases.compactMap { state -> String? in
            let own = transitions.filter { $0.from == state }
            guard !own.isEmpty else { return nil }
            return "  \(state.rawValue): "
                + own.map { "\($0.move.rawValue) \($0.count)" }.joined(separator: ", ")
        }
        return """
            Main changed its state \(total) times, in \(taken) of the \(transitions.count) ways that there are:
            \(lines.joined(separator: "\n"))
            """
    }
}
