/// The states of the main program, as of an app on a phone, and the moves between them.
///
/// It is a pure rule without processes: ``next(mayKill:using:)`` chooses a move, and ``make(_:endingIn:)`` counts it. Moves that
/// never happened come first, so that a run of the usual length makes every move. After that, only chance decides.
/// ```text
///   gone ──start──▶ opening ──arrive──▶ foreground ──leave──▶ background
///    ▲                ▲  │ overtaken ─▶ background ◀─overtaken─┘  │
///    └─kill, quit     └──────────────── call ◀────────────────────┘
///   freeze, freeze in a transaction: opening, foreground, background ──▶ and thaw back
/// ```
package struct MainLife {
    package enum State: String, Codable, CaseIterable {
        /// No process runs.
        case gone
        /// It has requested the stream and may not have it yet.
        case opening
        /// It has the stream.
        case foreground
        /// It has cut its connection without an end of the stream, which keeps the session.
        case background
        case frozenOpening = "frozen-opening"
        case frozenForeground = "frozen-foreground"
        case frozenBackground = "frozen-background"
        /// It is frozen inside a transaction, which blocks every other process.
        case lockedForeground = "locked-foreground"
        case lockedBackground = "locked-background"

        /// Whether it is frozen inside a transaction.
        package var isLocked: Bool { self == .lockedForeground || self == .lockedBackground }
        package var isFrozen: Bool {
            self == .frozenOpening || self == .frozenForeground || self == .frozenBackground
        }
    }

    package enum Move: String, Codable, CaseIterable {
        /// It is started, or called to the foreground, while no process has the stream.
        case start, call
        /// The same while a worker has the stream and hands it over.
        case startBesideWorker = "start-beside-worker"
        case callBesideWorker = "call-beside-worker"
        /// It gets the stream.
        case arrive
        /// It goes to the background.
        case leave
        /// SIGSTOP and SIGCONT.
        case freeze, thaw
        /// It stops itself inside a transaction.
        case freezeInTransaction = "freeze-in-transaction"
        /// A worker took over the stream meanwhile. After the thaw, main must notice.
        case overtaken
        /// SIGKILL.
        case kill
        /// It quits normally.
        case quit
    }

    /// A transition from one state to another by a move.
    package struct Passage: Hashable, Codable {
        package var from: State
        package var move: Move
        package var to: State
    }

    /// Every transition that a life may make, in a fixed order.
    package static let all: [Passage] = State.allCases.flatMap { from in
        moves(from: from).map { Passage(from: from, move: $0, to: $1) }
    }

    private static func moves(from state: State) -> [(Move, State)] {
        switch state {
        case .gone: [(.start, .opening), (.startBesideWorker, .opening)]
        case .opening: [(.arrive, .foreground), (.freeze, .frozenOpening), (.kill, .gone)]
        case .foreground:
            [
                (.leave, .background), (.freeze, .frozenForeground),
                (.freezeInTransaction, .lockedForeground), (.kill, .gone), (.quit, .gone),
            ]
        case .background:
            [
                (.call, .opening), (.callBesideWorker, .opening), (.freeze, .frozenBackground),
                (.freezeInTransaction, .lockedBackground), (.kill, .gone), (.quit, .gone),
            ]
        // If main was overtaken while opening, it may notice at once, or request the stream again and get it.
        case .frozenOpening: [(.thaw, .opening), (.overtaken, .opening), (.kill, .gone)]
        case .frozenForeground: [(.thaw, .foreground), (.overtaken, .background), (.kill, .gone)]
        case .frozenBackground: [(.thaw, .background), (.overtaken, .background), (.kill, .gone)]
        case .lockedForeground: [(.thaw, .foreground), (.kill, .gone)]
        case .lockedBackground: [(.thaw, .background), (.kill, .gone)]
        }
    }

    /// The transitions that this life may make.
    package let allowed: [Passage]
    package private(set) var state = State.gone
    package private(set) var counts: [Passage: Int] = [:]

    /// - Parameter forbidden: Moves that the world does not support.
    package init(forbidden: Set<Move> = []) { allowed = Self.all.filter { !forbidden.contains($0.move) } }

    /// The transitions that were never made.
    package var missing: [Passage] { allowed.filter { counts[$0] == nil } }

    /// Chooses the next transition.
    ///
    /// - Parameter mayKill: Whether the process may be killed now.
    package func next(mayKill: Bool, using random: inout some RandomNumberGenerator) -> Passage {
        let open = allowed.filter { mayKill || $0.move != .kill }
        // Every state has a move other than a kill.
        return towardsNew(among: open, using: &random)
            ?? open.filter { $0.from == state }.randomElement(using: &random)!
    }

    /// Returns the first step of a shortest path to a transition that was never made.
    private func towardsNew(
        among open: [Passage], using random: inout some RandomNumberGenerator
    ) -> Passage? {
        var reached: [State: Passage?] = [state: nil]
        var ring = [state]
        while !ring.isEmpty {
            var ahead: [State] = []
            for passage in ring.flatMap({ from in open.filter { $0.from == from }.shuffled(using: &random) })
            {
                let first = (reached[passage.from] ?? nil) ?? passage
                if counts[passage] == nil { return first }
                if reached[passage.to] == nil {
                    reached[passage.to] = first
                    ahead.append(passage.to)
                }
            }
            ring = ahead
        }
        return nil
    }

    /// Returns the shortest path to a state without a kill; empty when main is already there.
    package func way(to goal: State) -> [Passage] {
        var ways: [State: [Passage]] = [state: []]
        var ring = [state]
        while ways[goal] == nil, !ring.isEmpty {
            var ahead: [State] = []
            // The moves without a worker.
            let plain: Set<Move> = [.start, .call, .arrive, .leave, .thaw, .quit]
            for passage in ring.flatMap({ from in
                allowed.filter { $0.from == from && plain.contains($0.move) }
            })
            where ways[passage.to] == nil {
                ways[passage.to] = (ways[passage.from] ?? []) + [passage]
                ahead.append(passage.to)
            }
            ring = ahead
        }
        return ways[goal] ?? []
    }

    /// Counts a transition and moves to its end.
    ///
    /// If main ended in another state, only the state changes.
    ///
    /// - Parameter state: The actual end; nil for the transition's own end.
    package mutating func make(_ passage: Passage, endingIn state: State? = nil) {
        precondition(passage.from == self.state, "a life goes on where it is")
        if state == nil || state == passage.to { counts[passage, default: 0] += 1 }
        self.state = state ?? passage.to
    }
}
