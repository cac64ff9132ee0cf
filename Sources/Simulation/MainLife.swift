/// The life of the main program, as of an app on a phone: its states, and the moves that lead from one to another.
///
/// A rule without processes: ``next(mayKill:using:)`` chooses, ``make(_:)`` counts. What was never done comes first, so that
/// a run of the usual length does everything; after that chance alone decides.
///
/// ```text
///   gone ──start──▶ opening ──arrive──▶ foreground ──leave──▶ background
///    ▲                ▲  │ overtaken ─▶ background ◀─overtaken─┘  │
///    └─kill, quit     └──────────────── call ◀────────────────────┘
///   freeze, freeze in a transaction: opening, foreground, background ──▶ and thaw back
/// ```
package struct MainLife {
    package enum State: String, Codable, CaseIterable {
        /// There is no process.
        case gone
        /// Asked for the stream, and not known to have it yet.
        case opening
        /// It has the stream.
        case foreground
        /// It has closed its connection dirty, which keeps the session.
        case background
        case frozenOpening = "frozen-opening"
        case frozenForeground = "frozen-foreground"
        case frozenBackground = "frozen-background"
        /// Frozen in the middle of a transaction, which keeps everybody from the store.
        case lockedForeground = "locked-foreground"
        case lockedBackground = "locked-background"

        /// Whether it stands still inside a transaction.
        package var isLocked: Bool { self == .lockedForeground || self == .lockedBackground }
        package var isFrozen: Bool {
            self == .frozenOpening || self == .frozenForeground || self == .frozenBackground
        }
    }

    package enum Move: String, Codable, CaseIterable {
        /// Started, or called to the foreground, while nobody has the stream.
        case start, call
        /// The same while a worker has it, which hands it over.
        case startBesideWorker = "start-beside-worker"
        case callBesideWorker = "call-beside-worker"
        /// It gets the stream.
        case arrive
        /// To the background.
        case leave
        /// SIGSTOP, and SIGCONT.
        case freeze, thaw
        /// It stops itself inside a transaction.
        case freezeInTransaction = "freeze-in-transaction"
        /// A worker took the stream meanwhile: thawed, it must notice.
        case overtaken
        /// SIGKILL.
        case kill
        /// Ends in good order.
        case quit
    }

    /// One way from a state to another.
    package struct Passage: Hashable, Codable {
        package var from: State
        package var move: Move
        package var to: State

        package init(from: State, move: Move, to: State) {
            (self.from, self.move, self.to) = (from, move, to)
        }
    }

    /// Every passage that a life may take, in a fixed order.
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
                (.freezeInTransaction, .lockedForeground),
                (.kill, .gone), (.quit, .gone),
            ]
        case .background:
            [
                (.call, .opening), (.callBesideWorker, .opening), (.freeze, .frozenBackground),
                (.freezeInTransaction, .lockedBackground), (.kill, .gone), (.quit, .gone),
            ]
        // An overtaken one that was still opening may find out at once, or ask again and get the stream.
        case .frozenOpening: [(.thaw, .opening), (.overtaken, .opening), (.kill, .gone)]
        case .frozenForeground: [(.thaw, .foreground), (.overtaken, .background), (.kill, .gone)]
        case .frozenBackground: [(.thaw, .background), (.overtaken, .background), (.kill, .gone)]
        case .lockedForeground: [(.thaw, .foreground), (.kill, .gone)]
        case .lockedBackground: [(.thaw, .background), (.kill, .gone)]
        }
    }

    /// The passages that this life may take.
    package let allowed: [Passage]
    package private(set) var state = State.gone
    package private(set) var counts: [Passage: Int] = [:]

    /// - Parameter forbidden: Moves that the world does not stand.
    package init(forbidden: Set<Move> = []) { allowed = Self.all.filter { !forbidden.contains($0.move) } }

    /// Passages that were never taken.
    package var missing: [Passage] { allowed.filter { counts[$0] == nil } }

    /// Chooses what happens next.
    ///
    /// - Parameter mayKill: Whether the process may be killed now.
    package func next(mayKill: Bool, using random: inout some RandomNumberGenerator) -> Passage {
        let open = allowed.filter { mayKill || $0.move != .kill }
        // Every state has a move that kills nobody.
        return towardsNew(among: open, using: &random)
            ?? open.filter { $0.from == state }.randomElement(using: &random)!
    }

    /// The first step of a shortest way to a passage that was never taken.
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

    /// Returns the way to a state without killing anybody, shortest first; empty when it is there already.
    package func way(to goal: State) -> [Passage] {
        var ways: [State: [Passage]] = [state: []]
        var ring = [state]
        while ways[goal] == nil, !ring.isEmpty {
            var ahead: [State] = []
            // Beside no worker and overtaken by none: the plain way.
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

    /// The passage was taken. What came of it may differ, and counts as another passage if there is one.
    ///
    /// - Parameter state: Where it led to; nil for where it leads to by the rules.
    package mutating func make(_ passage: Passage, endingIn state: State? = nil) {
        precondition(passage.from == self.state, "a life goes on where it is")
        if state == nil || state == passage.to { counts[passage, default: 0] += 1 }
        self.state = state ?? passage.to
    }
}
