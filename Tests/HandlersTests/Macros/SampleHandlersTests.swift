import FoundationEssentials
import HandlerMacrosSupport
import TestThreads
import Testing

@Suite("Handlers as a program writes them, stored, and called by another process", .serialized, .ownThread)
struct SampleHandlersTests {
    private struct Run: Sendable {
        /// What the handlers said.
        var said: [String]
        /// What became of the call.
        var disposition: Disposition
        /// What the handlers wrote.
        var notes: [String]
        /// What is left.
        var waiting: [WaitingRow]
    }

    /// Stores `durable` in one store, forgets it, calls it in another one, and lets a runner do the rest.
    private func run(_ durable: Durable<Answer>, role: HandlerStore.Role = .main) async throws -> Run {
        var result: Run?
        try await withFolder { folder in result = try await run(durable, role: role, folder.file()) }
        return try #require(result)
    }

    private func run(_ durable: Durable<Answer>, role: HandlerStore.Role, _ path: String) async throws -> Run
    {
        let id = try HandlerStore(path: path, registry: HandlerRegistry()).bind(durable)
        let store = try HandlerStore(
            path: path, registry: .discovered(), schemas: [notes], role: role, synchronous: .normal)
        let messenger = Messenger()
        let runner = try HandlerRunner(store)
        defer { runner.close() }
        try runner.attach(messenger)
        let disposition = try store.step { try $0.end(id, .result, with: Answer(messenger)) }
        try #require(try await runner.drain(for: .seconds(100)))
        return Run(
            said: messenger.taken(), disposition: disposition, notes: try store.notes(),
            waiting: try store.waiting())
    }

    @Test("H10 static functions run inside the step, with enums, lists, maps and defaults as arguments")
    func inStep() async throws {
        #expect(try await run(Storefront.opened()).said == ["opened yes"])
        let payment = Payment.card(number: "4", expires: Date(timeIntervalSinceReferenceDate: 0))
        let line = StoredStanza(
            name: "iq", attributes: [.init(name: "to", value: "a@b")], children: [.init(name: "q")])
        let ordered = try Storefront.ordered(
            payment: payment, lines: [line, line], notes: ["a": ["b", nil]])
        let run = try await run(ordered)
        #expect(run.disposition == .ended)
        #expect(run.waiting == [])
        #expect(
            run.said == [
                "ordered \(payment) [\"iq\", \"iq\"] \(["a": ["b", nil]] as [String: [String?]]) 3 -"
            ])
    }

    @Test("H1 a second handler of one name traps at start and names the place of the first one's @Handler")
    func duplicate() async throws {
        let result = try await #require(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            HandlerRegistry.discovered().register(SecondOpened.self, file: "App/Second.swift", line: 22)
        }
        let text = String(decoding: result.standardErrorContent, as: UTF8.self)
        #expect(text.contains("'sample.opened'"))
        #expect(text.contains("HandlersTests/SampleHandlers.swift:\(Storefront.lineOfOpened)"))
        #expect(text.contains("App/Second.swift:22"))
    }

    @Test("H10 functions of a class and of a struct run on the instance of the process that calls them")
    func instances() async throws {
        #expect(try await run(Roster.fetched(version: nil)).said == ["roster - of 2"])
        let inner = try Archive.pageFetched(after: 0, then: Roster.fetched(version: "v"))
        #expect(
            try await run(Archive.pageFetched(after: .max, then: inner)).said == [
                "page of 50 after 18446744073709551615", "page of 50 after 0", "roster v of 2",
            ])
    }

    @Test("H11 a handler under its old name and version is brought up to date by its class")
    func upcast() async throws {
        let json = #"{"$handler":"sample.roster","version":1,"arguments":{"ver":"old"}}"#
        let stored = try JSONDecoder().decode(Durable<Answer>.self, from: Data(json.utf8))
        #expect(try await run(stored).said == ["roster old of 2"])
    }

    @Test(
        "H14 an async function waits for its actor, is tried again as its policy says, and ends in one step")
    func onActor() async throws {
        let file = try #require(URL(string: "file:///photo.jpg"))
        let durable = try Uploads.slotGiven(file: file, token: Secret("hush"))
        #expect(!durable.description.contains("hush"))
        let run = try await run(durable)
        #expect(run.disposition == .queued)
        #expect(
            run.said == [
                "upload 1 of file:///photo.jpg, attempt 1", "upload 2 of file:///photo.jpg, attempt 2",
            ])
        #expect(run.notes == ["uploaded with hush"])
        #expect(run.waiting == [])
    }

    @Test("H14 async functions run on the main actor and on instances of a struct")
    func elsewhere() async throws {
        #expect(try await run(Screen.show(lines: ["a", "b"])).said == [#"screen ["a", "b"]"#])
        let stanza = StoredStanza(name: "presence", children: [.init(name: "show")])
        #expect(try await run(Presence.published(stanza: stanza)).said == ["published presence 1"])
    }

    @Test("H13 retry: says how often a function is called that throws")
    func retry() async throws {
        #expect(Uploads.Handler_slotGiven.retry == RetryPolicy(attempts: 2, firstDelay: .zero))
        #expect(Storefront.Handler_opened.retry == .standard)
        guard
            case .quarantined(let reason) = try await run(Uploads.slotRefused(reason: "too large"))
                .disposition
        else {
            Issue.record("it is to be called again, in spite of .never")
            return
        }
        #expect(reason.contains("too large"))
    }

    @Test("H17 availability: says in which processes a function runs: a worker leaves it")
    func availability() async throws {
        #expect(Uploads.Handler_slotGiven.availability == .mainOnly)
        #expect(Presence.Handler_idle.availability == .everywhere)
        let file = try #require(URL(string: "file:///photo.jpg"))
        let left = try await run(
            Uploads.slotGiven(file: file, token: Secret("hush")), role: .worker)
        #expect(left.said == [])
        #expect(left.disposition == .queued)
        #expect(left.waiting.map(\.state) == [RowState.pending])
        #expect(
            try await run(Presence.published(stanza: .init(name: "x")), role: .worker).said == [
                "published x 0"
            ])
    }

    @Test("H7 a function runs instead of one that can never be called")
    func invalidation() async throws {
        try withFolder { folder in
            let store = try HandlerStore(path: folder.file(), registry: .discovered(), synchronous: .normal)
            let messenger = Messenger()
            let id = try store.bind(Storefront.opened(), orElse: Storefront.abandoned(order: 7))
            try store.step { try $0.invalidate(id, reason: .sessionLost, environment: messenger) }
            #expect(messenger.taken() == ["abandoned 7: session-lost"])
        }
    }

    @Test("H15 a function is a timer, with a default for its argument")
    func timer() async throws {
        try await withFolder { folder in
            let store = try HandlerStore(path: folder.file(), registry: .discovered(), synchronous: .normal)
            let messenger = Messenger()
            let runner = try HandlerRunner(store)
            try runner.attach(messenger)
            try store.step { try $0.schedule(Presence.idle(), after: .zero, in: messenger.scope) }
            #expect(try await runner.drain(for: .seconds(100)))
            #expect(messenger.taken() == ["idle away"])
            runner.close()
        }
    }
}

/// Has the name of another handler.
private struct SecondOpened: Handler {
    static let id = "sample.opened"
    func run(_ call: borrowing Call<Answer>) throws {}
}
