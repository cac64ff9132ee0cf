import Platform
import TestServers

// Performs the moves of main's life on real processes.
extension SimulationRun {
    /// Moves main from its state to the next.
    ///
    /// - Parameter isPausing: Whether to wait for a random time afterwards.
    func take(_ passage: MainLife.Passage, pausing isPausing: Bool = true) throws {
        switch passage.move {
        case .start, .startBesideWorker, .call, .callBesideWorker: try ask(passage)
        case .arrive: try arrive(passage)
        case .leave: try leave(passage)
        case .freeze: try freeze(passage)
        case .freezeInTransaction: try freezeInTransaction(passage)
        case .thaw: try thaw(passage)
        case .overtaken: try overtake(passage)
        case .kill: try kill(passage)
        case .quit:
            try quitMain()
            life.make(passage)
        }
        if isPausing { pause(milliseconds: life.state == .foreground ? 5...60 : 0...25) }
    }

    /// Moves main to a state on the shortest path without workers.
    package func bring(to state: MainLife.State) throws {
        while let passage = life.way(to: state).first { try take(passage, pausing: false) }
    }

    /// Makes main give up the stream by a kill, a move to the background, or a normal end.
    ///
    /// - Parameter kills: The number of processes that may still be killed. A kill reduces it.
    func retreat(_ kills: inout Int) throws {
        if life.state.isFrozen || life.state.isLocked {
            try take(.init(from: life.state, move: .thaw, to: thawed(life.state)))
        }
        if life.state == .opening { try take(.init(from: .opening, move: .arrive, to: .foreground)) }
        guard life.state == .foreground else { return }
        if kills > 0, Bool.random(using: &random) {
            kills -= 1
            try take(.init(from: .foreground, move: .kill, to: .gone))
        } else if Bool.random(using: &random) {
            try take(.init(from: .foreground, move: .leave, to: .background))
        } else {
            try take(.init(from: .foreground, move: .quit, to: .gone))
        }
    }

    private func thawed(_ state: MainLife.State) -> MainLife.State {
        MainLife.all.first { $0.from == state && $0.move == .thaw }?.to ?? state
    }

    private func process() throws -> ChildProcess {
        guard let main else { throw SimulationError("there is no main to be \(life.state.rawValue)") }
        return main
    }

    /// Waits for one of the lines and ignores other lines.
    func hear(_ words: String..., within limit: Duration = .seconds(30)) throws -> String {
        let main = try process()
        do {
            return try main.output?.readLine(deadline: .now + limit) { words.contains($0) } ?? ""
        } catch {
            throw SimulationError(
                "main did not say '\(words.joined(separator: "' or '"))' (its complaint stands above): \(error)"
            )
        }
    }

    // MARK: Moves

    /// The time for which a worker keeps the stream before main requests it, in milliseconds.
    private static let lingering = 1500

    private func ask(_ passage: MainLife.Passage) throws {
        if passage.move == .startBesideWorker || passage.move == .callBesideWorker { try inviteGuest() }
        if passage.from == .gone {
            main = try start("main", ["--stay"])
        } else {
            try process().write("foreground\n")
        }
        life.make(passage)
    }

    /// Starts a worker that takes over the stream and keeps it for a while.
    private func inviteGuest() throws {
        let worker = try startWorker(isPushed: false, lingering: Self.lingering)
        while let line = try? worker.process.output?.readLine(deadline: .now + .seconds(30)) {
            if line == "lingering" { break }
        }
        guest = worker
    }

    /// Waits for the worker that had the stream. It may end in any way, because main may have been late, or frozen on its way.
    private func dismissGuest() throws {
        guard let worker = guest else { return }
        guest = nil
        if try finish(worker) == .leftToMain { verdict.handedOver += 1 }
    }

    /// Waits until main has the stream, unless a worker took it from a main that was frozen on its way there.
    private func arrive(_ passage: MainLife.Passage) throws {
        var word = try hear("connected", "overtaken")
        if word == "connected" {
            try process().write("tell\n")
            word = try hear("here", "overtaken")
        }
        try dismissGuest()
        life.make(passage, endingIn: word == "here" ? .foreground : .background)
    }

    private func leave(_ passage: MainLife.Passage) throws {
        try process().write("background\n")
        _ = try hear("left", "overtaken")
        try awaitDeparture()
        life.make(passage)
    }

    private func freeze(_ passage: MainLife.Passage) throws {
        let main = try process()
        main.signal(Signal.stop)
        try awaitStop(main)
        // Inside a transaction is a separate state, in which no other process can work.
        while StoreLock.isHeldForWriting(storePath, by: main.processID) {
            main.signal(Signal.resume)
            SystemThread.sleep(microseconds: 300)
            main.signal(Signal.stop)
            try awaitStop(main)
        }
        verdict.faults.frozen += 1
        chronicle.froze(main.processID)
        life.make(passage)
        try dismissGuest()
    }

    private func freezeInTransaction(_ passage: MainLife.Passage) throws {
        let main = try process()
        try main.write("freeze\n")
        try awaitStop(main)
        verdict.faults.frozen += 1
        chronicle.froze(main.processID)
        life.make(passage)
        guard !hasMetLock, plan.rounds >= 20 else { return }
        hasMetLock = true
        guard try runWorkers(isPushed: false) == .locked else {
            throw SimulationError("a worker went on although main stands still inside a transaction")
        }
    }

    private func awaitStop(_ main: ChildProcess) throws {
        let end = ContinuousClock.now + .seconds(20)
        while !main.isStopped {
            guard ContinuousClock.now < end, main.isRunning else {
                throw SimulationError("main did not stand still when told to")
            }
            SystemThread.sleep(microseconds: 500)
        }
    }

    private func thaw(_ passage: MainLife.Passage) throws {
        let main = try process()
        main.signal(Signal.resume)
        chronicle.thawed(main.processID)
        life.make(passage)
    }

    /// Lets a worker take over the stream while main is frozen. After the thaw, a main that had it must notice and go on without
    /// it.
    private func overtake(_ passage: MainLife.Passage) throws {
        guard try workBesideFrozen() else {
            // Main is frozen inside a transaction after all, and blocks every process until the thaw.
            return try thaw(.init(from: passage.from, move: .thaw, to: thawed(passage.from)))
        }
        let main = try process()
        main.signal(Signal.resume)
        chronicle.thawed(main.processID)
        if passage.from == .frozenForeground { _ = try hear("overtaken") }
        life.make(passage)
    }

    /// - Returns: Whether a worker finished its work.
    private func workBesideFrozen() throws -> Bool {
        switch try runWorkers(isPushed: false) {
        case .done: return true
        case .locked: return false
        case .early, .leftToMain:
            throw SimulationError("a worker beside a frozen main took it for one that is alive")
        }
    }

    private func kill(_ passage: MainLife.Passage) throws {
        // Some mains are killed after a worker has taken over.
        if life.state.isFrozen, world.standsTakeover, Bool.random(using: &random) {
            _ = try workBesideFrozen()
        }
        try killMain()
        life.make(passage)
        try dismissGuest()
    }
}
