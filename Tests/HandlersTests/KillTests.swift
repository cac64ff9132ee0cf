#if DEBUG  // failpoints exist in debug builds only
    import Glibc
    import Handlers
    import TestSupport
    import Testing

    /// Child processes that kill themselves at a failpoint of the step; the parent reads what is left.
    @Suite(.serialized, .ownThread, .engines(.sqlite, .postgres)) struct KillTests {
        /// Binds one handler, lets a child process end or invalidate it and die at `failpoint`, and returns the store
        /// as the next process finds it.
        private func kill(
            at failpoint: Failpoint, invalidating: Bool = false,
            _ check: (HandlerStore, HandlerID<Reply>) throws -> Void
        ) async throws {
            try await withFolder { folder in
                let id = try openStore(folder.file()).bind(
                    Greet(name: "Juliet").durable, orElse: Abandon(name: "a").durable)
                await #expect(processExitsWith: .signal(SIGKILL)) {
                    [
                        path = folder.file() as String, name = failpoint.rawValue as String,
                        row = id.rawValue as Int64, invalidating = invalidating as Bool
                    ] in
                    let store = try openStore(path)
                    setenv("HANDLERS_FAILPOINT", "\(name):kill:1", 1)
                    try store.step { step in
                        let id = HandlerID<Reply>(rawValue: row)
                        if invalidating {
                            try step.invalidate(id, reason: .logout)
                        } else {
                            try step.end(id, .result, with: Reply())
                        }
                    }
                }
                try check(try openStore(folder.file()), id)
            }
        }

        @Test(
            "H7 kill-before-commit: killed anywhere before the commit, the handler waits and has done nothing",
            arguments: [Failpoint.beforeHandler, .afterHandler, .beforeCommit])
        func beforeCommit(_ failpoint: Failpoint) async throws {
            try await kill(at: failpoint) { store, id throws in
                #expect(try store.notes() == [])
                #expect(try store.waiting().map(\.id) == [id])
                #expect(try store.keptEnding(of: id) == nil)
                #expect(try store.end(id) == .ended)
                #expect(try store.notes() == ["Hello, Juliet"])
            }
        }

        @Test("H7 killed right after the commit, the handler has ended, once, with its effect")
        func afterCommit() async throws {
            try await kill(at: .afterCommit) { store, id throws in
                #expect(try store.notes() == ["Hello, Juliet"])
                #expect(try store.waiting() == [])
                #expect(try store.keptEnding(of: id)?.outcome == .result)
                #expect(code { try store.end(id) } == .noSuchHandler)
            }
        }

        @Test(
            "H7 kill-during-logout-invalidation: the invalidation ran with its ending, or not at all",
            arguments: [Failpoint.beforeInvalidation, .beforeCommit, .afterCommit])
        func invalidation(_ failpoint: Failpoint) async throws {
            try await kill(at: failpoint, invalidating: true) { store, id throws in
                let committed = failpoint == .afterCommit
                #expect(try store.notes() == (committed ? ["a: test.greet logout nothing"] : []))
                #expect((try store.keptEnding(of: id) != nil) == committed)
                #expect(try store.waiting().isEmpty == committed)
            }
        }

        @Test(
            "H24 killed while a signal calls its handler, or while a handler gets one that waited: all of it has happened, or nothing, and then it happens once",
            arguments: [Failpoint.beforeHandler, .beforeCommit, .afterCommit], [false, true])
        func signal(_ failpoint: Failpoint, isEarly: Bool) async throws {
            // The runner calls the handler of an early signal.
            if isEarly, failpoint == .beforeHandler { return }
            try await withFolder { folder in
                let store = try openSignalStore(folder.file())
                try store.step { step in
                    if isEarly {
                        try step.signal("key", "now")
                    } else {
                        try step.bind(Hear(name: "Juliet").durable, key: "key")
                    }
                }
                await #expect(processExitsWith: .signal(SIGKILL)) {
                    [
                        path = folder.file() as String, name = failpoint.rawValue as String,
                        isEarly = isEarly as Bool
                    ] in
                    let store = try openSignalStore(path)
                    setenv("HANDLERS_FAILPOINT", "\(name):kill:1", 1)
                    try store.step { step in try send(isEarly, in: step) }
                }
                let next = try openSignalStore(folder.file())
                if failpoint != .afterCommit {
                    #expect(try next.notes() == [])
                    try next.step { step in try send(isEarly, in: step) }
                }
                let runner = try HandlerRunner(next)
                defer { runner.close() }
                try runner.runDue()
                #expect(try next.notes() == ["sent", "now, Juliet"])
                #expect(try next.step { try $0.status(ofKey: "key") } == nil)
                #expect(try next.integer("SELECT count(*) FROM early_signal") == 0)
            }
        }

        @Test(
            "H31 a workflow that is killed at one of its commits goes on, and has done each thing once",
            arguments: [Failpoint.beforeCommit, .afterCommit], Array(1...7))
        func workflow(_ failpoint: Failpoint, commit: Int) async throws {
            try await withFolder { folder in
                _ = try openFlowStore(folder.file())
                await #expect(processExitsWith: .signal(SIGKILL)) {
                    [
                        path = folder.file() as String, name = failpoint.rawValue as String,
                        commit = commit as Int
                    ] in
                    let store = try openFlowStore(path)
                    setenv("HANDLERS_FAILPOINT", "\(name):kill:\(commit)", 1)
                    try await finishErrand(store)
                }
                let next = try openFlowStore(folder.file())
                try await finishErrand(next)
                #expect(try next.notes() == ["begin", "asked", "now"])
                #expect(try next.integer("SELECT count(*) FROM journal") == 0)
                #expect(try next.waiting().isEmpty)
            }
        }

        @Test(
            "H27 killed anywhere while handlers of a lane run: each runs once in the end, in the order of its key, and never more than the limit at once",
            arguments: [
                Failpoint.beforeDue, .afterLease, .beforeClosing, .beforeQuarantine, .beforeCommit,
                .afterCommit,
            ])
        func lane(_ failpoint: Failpoint) async throws {
            try await withFolder { folder in
                try openLaneStore(folder.file()).step { step in
                    try step.setLane(LaneRule("ship", concurrency: 2))
                    for number in 1...9 {
                        try step.enqueue(
                            Ship(number: number).durable, with: Reply(),
                            lane: LanePlace("ship", orderedBy: "\(number % 3)"))
                    }
                }
                await #expect(processExitsWith: .signal(SIGKILL)) {
                    [path = folder.file() as String, name = failpoint.rawValue as String] in
                    let store = try openLaneStore(path)
                    setenv("HANDLERS_FAILPOINT", "\(name):kill:2", 1)
                    _ = try await HandlerRunner(store).drain(for: .seconds(30))
                }
                let next = try openLaneStore(folder.file())
                // One whose process died keeps its place: it is the next to run.
                #expect(
                    try next.integer(
                        "SELECT count(*) FROM lane WHERE running <> (SELECT count(*) FROM lane_entry WHERE state = 3)"
                    )
                        == 0)
                let runner = try HandlerRunner(next)
                defer { runner.close() }
                #expect(try await runner.drain(for: .seconds(30)))
                let notes = try next.notes()
                for key in 0...2 {
                    let mine = notes.compactMap { Int($0) }.filter { $0 % 3 == key }
                    #expect(mine == [1, 2, 3, 4, 5, 6, 7, 8, 9].filter { $0 % 3 == key })
                }
                #expect(notes.count == 9)
                #expect(try next.read { try $0.laneStatus("ship") }.running == 0)
            }
        }

        @Test(
            "H23 killed anywhere while the handlers of a chain end, each ends once in the end, and nothing of the chain is left",
            arguments: [
                (Failpoint.beforeCommit, 1), (.beforeCommit, 2), (.beforeCommit, 3), (.afterCommit, 1),
                (.afterCommit, 2), (.afterCommit, 3), (.beforeDue, 1), (.beforeDue, 3),
                (.beforeHandler, 1), (.afterHandler, 1), (.beforeInvalidation, 1), (.beforeInvalidation, 2),
            ])
        func chain(_ failpoint: Failpoint, nth: Int) async throws {
            try await withFolder { folder in
                let store = try openChainStore(folder.file())
                let ids = try store.step { step in
                    try step.withChainLimit(.zero) {
                        try (1...3).map { number in
                            let handler = try WaitForSignal().durable.orElse(
                                Abandon(name: "\(number)").durable)
                            return try step.bind(handler, key: "\(number)")
                        }
                    }
                }
                await #expect(processExitsWith: .signal(SIGKILL)) {
                    [
                        path = folder.file() as String, name = failpoint.rawValue as String,
                        nth = nth as Int
                    ] in
                    let store = try openChainStore(path)
                    setenv("HANDLERS_FAILPOINT", "\(name):kill:\(nth)", 1)
                    _ = try await HandlerRunner(store).drain(for: .seconds(30))
                }
                let next = try openChainStore(folder.file())
                let runner = try HandlerRunner(next)
                defer { runner.close() }
                #expect(try await runner.drain(for: .seconds(30)))
                for id in ids { #expect(try next.keptEnding(of: id)?.reason == .chainLimit) }
                #expect(
                    try next.notes() == (1...3).map { "\($0): kill.wait-for-signal chain-limit nothing" })
                #expect(try next.waiting().isEmpty)
                for table in ["chain_limit", "chain_member"] {
                    #expect(try next.integer("SELECT count(*) FROM \(table)") == 0)
                }
            }
        }
    }

    private struct WaitForSignal: Handler {
        static let id = "kill.wait-for-signal"
        func run(_ call: borrowing Call<SignalReceived<Int>>) throws {}
    }

    private func openChainStore(_ path: String) throws -> HandlerStore {
        try openStore(path, [WaitForSignal.self, Abandon.self], time: TimeSource())
    }

    /// The second one of each key fails at first.
    private struct Ship: AsyncHandler {
        static let id = "kill.ship"
        static let retry = RetryPolicy(attempts: 3, firstDelay: .zero, deaths: .max)
        var number: Int
        func run(_ call: AsyncCall<Reply>) async throws {
            if 4...6 ~= number, call.attempt == 1 { throw Failure() }
            try call.end { [number] step in
                let others =
                    try step.first("SELECT count(*) FROM handler WHERE state = 3") { $0.integer(0) } ?? 0
                try step.note(others < 2 ? "\(number)" : "\(others) others run")
            }
        }
    }

    private func openLaneStore(_ path: String) throws -> HandlerStore {
        try openStore(path, [Ship.self], time: TimeSource())
    }

    private struct Hear: Handler {
        static let id = "kill.hear"
        var name: String
        func run(_ call: borrowing Call<SignalReceived<String>>) throws {
            try call.step.note("\(call.value), \(name)")
        }
    }

    private struct Errand: Workflow {
        static let id = "kill.errand"
        func run(_ flow: Flow) async throws -> Nothing {
            try await flow.compensate(with: Abandon(name: "never").durable)
            try await flow.step("begin") { try $0.note("begin") }
            try await flow.run(AskOnce().durable)
            try await flow.sleep(for: .milliseconds(1))
            let word = try await flow.signal("errand-signal", as: String.self)
            try await flow.step("end") { try $0.note(word ?? "none") }
            return Nothing()
        }
    }

    private struct AskOnce: AsyncHandler {
        static let id = "kill.ask-once"
        func run(_ call: AsyncCall<TimerFired>) async throws { try call.end { try $0.note("asked") } }
    }

    private func openFlowStore(_ path: String) throws -> HandlerStore {
        try openStore(path, [Errand.self, AskOnce.self, Abandon.self], time: .system)
    }

    /// Starts the errand unless it was started before, and waits for its end.
    private func finishErrand(_ store: HandlerStore) async throws {
        let runner = try HandlerRunner(store)
        defer { runner.close() }
        try runner.start()
        let id = try store.step { step -> HandlerID<TimerFired>? in
            guard try step.ending(ofKey: "errand") == nil else { return nil }
            if try step.status(ofKey: "errand") == nil { try step.signal("errand-signal", "now") }
            return try step.start(Errand().durable, key: "errand")
        }
        if let id { _ = try await store.ending(of: id) }
        #expect(try await runner.drain(for: .seconds(60)))
    }

    private func openSignalStore(_ path: String) throws -> HandlerStore { try openStore(path, [Hear.self]) }

    /// What a program does in the step of a signal, or of the handler that an early one waits for.
    private func send(_ isEarly: Bool, in step: borrowing Step) throws {
        try step.note("sent")
        if isEarly {
            try step.bind(Hear(name: "Juliet").durable, key: "key")
        } else {
            try step.signal("key", "now")
        }
    }
#endif
