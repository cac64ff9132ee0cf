extension Verdict {
    /// How often main went one way from a state to another.
    package struct Transition: Codable, Equatable {
        package var from: MainLife.State
        package var move: MainLife.Move
        package var to: MainLife.State
        package var count: Int
    }

    /// Who wrote and who spoke, as seen from outside.
    package struct OwnerCounts: Codable, Equatable {
        /// How often the stream changed hands.
        package var epochs = 0
        /// Commits of a process in the time of another owner.
        package var staleCommits = 0
        /// What the server took from a connection after another one had resumed its session; nil where no server tells.
        package var staleStanzas: Int?

        enum CodingKeys: String, CodingKey {
            case epochs
            case staleCommits = "stale_commits"
            case staleStanzas = "stale_stanzas"
        }
    }

    /// Every passage that main may take, and how often it did.
    package static func transitions(_ life: MainLife) -> [Transition] {
        life.allowed.map {
            Transition(from: $0.from, move: $0.move, to: $0.to, count: life.counts[$0] ?? 0)
        }
    }

    /// The passages by the state in which they begin, one line each.
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
