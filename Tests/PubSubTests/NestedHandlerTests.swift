import Handlers
import PubSub
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore

/// The program's handler inside the module's: done together or not at all, and quarantined as one.
@Suite(.ownThread) struct NestedHandlerTests {
    private let answer = """
        <pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='nick'><item id='i'/></items></pubsub>
        """

    private func result(_ id: String) -> String { "<iq type='result' id='\(id)'>\(answer)</iq>" }

    @Test("H12 a handler whose inner one this program does not know is parked with the answer")
    func unknownInside() async throws {
        let folder = try TemporaryFolder()
        let knowing = try PubSubAccount(in: folder)
        let id = try await knowing.account.send(
            .pubsub(.items(of: "nick")), then: Notes.Fetched(tag: "t").durable)
        await knowing.close()

        let ignorant = try PubSubAccount(in: folder, handlers: PubSubService.handlers)
        let events = try ignorant.receive(result(id))
        let rows = try ignorant.rows
        #expect(rows.map(\.name) == ["pubsub.answered"])
        #expect(rows.first?.state == 1)
        #expect(rows.first?.reason?.contains("no handler named 'test.fetched' is registered") == true)
        #expect(rows.first?.input?.contains("<item id='i'/>") == true)
        #expect(try ignorant.endings.isEmpty)
        guard case .unfinished(let handler, let call, let reason) = try #require(events.first) else {
            Issue.record("\(events)")
            return
        }
        #expect(handler == "pubsub.answered")
        #expect(call == "answer to request \(id)")
        #expect(reason == rows.first?.reason)
        await ignorant.close()
    }

    /// The same stored name as ``Notes/Fetched``, one version on.
    private struct FetchedNow: Handler {
        static let id = "test.fetched"
        static let version = 2
        var tag: String
        func run(_ call: borrowing Call<PubSubFetch>) throws {}
    }

    @Test("H11 a handler whose inner one was bound by a newer program is parked")
    func newerInside() async throws {
        let folder = try TemporaryFolder()
        let newer = try PubSubAccount(in: folder, handlers: PubSubService.handlers + [FetchedNow.self])
        let id = try await newer.account.send(.pubsub(.items(of: "nick")), then: FetchedNow(tag: "t").durable)
        await newer.close()

        let older = try PubSubAccount(in: folder)
        try older.receive(result(id))
        let rows = try older.rows
        #expect(rows.first?.state == 1)
        #expect(rows.first?.reason?.contains("'test.fetched' was bound in version 2") == true)
        #expect(try older.notes.isEmpty)
        await older.close()
    }

    @Test("H13 a handler whose inner one throws is quarantined with the answer, and nothing is half done")
    func throwsInside() async throws {
        let offline = try PubSubAccount()
        let id = try await offline.account.send(.pubsub(.items(of: "nick")), then: Notes.Failing().durable)
        try offline.receive(result(id))
        let rows = try offline.rows
        #expect(rows.map(\.name) == ["pubsub.answered"])
        #expect(rows.first?.state == 2)
        #expect(rows.first?.reason == "the program's handler is broken")
        #expect(rows.first?.input?.contains("<item id='i'/>") == true)
        #expect(try offline.notes.isEmpty)
        #expect(try offline.endings.isEmpty)
        await offline.close()
    }

    @Test(
        "H6 an inner handler's error cannot be swallowed by the one around it, which would lose the inner one"
    )
    func swallowed() async throws {
        let offline = try PubSubAccount()
        let failing = try Notes.Failing().durable
        let id = try await offline.account.send(
            .pubsub(.items(of: "nick")), then: Notes.Swallowing(then: failing).durable)
        // What stands in the same step beside it is not touched.
        let other = try await offline.account.send(
            .pubsub(.items(of: "nick")), then: Notes.Fetched(tag: "t").durable)
        try offline.receive(result(id))
        try offline.receive(result(other))
        #expect(try offline.rows.map(\.state) == [2])
        #expect(try offline.rows.first?.reason == "the program's handler is broken")
        #expect(try offline.notes == ["t main alice@example.test nick: items i=-"])

        // The same outside of any handler: the whole step.
        struct Context: Sendable {}
        let unknown = Durable<Context>(name: "test.nobody", version: 1, arguments: Array("{}".utf8))
        let error = #expect(throws: HandlerError.self) {
            try offline.store.step { step in
                try Notes.add("undone", in: step)
                try? step.run(unknown, with: Context())
            }
        }
        #expect(error?.code == .unknownHandler)
        #expect(try offline.notes.count == 1)
        await offline.close()
    }

    @Test("H12 an unknown inner handler parks the outer one, however the one between words its error")
    func reworded() async throws {
        let folder = try TemporaryFolder()
        let knowing = try PubSubAccount(in: folder)
        let inner = try Notes.Fetched(tag: "t").durable
        let id = try await knowing.account.send(
            .pubsub(.items(of: "nick")), then: Notes.Rewording(then: inner).durable)
        await knowing.close()

        let ignorant = try PubSubAccount(
            in: folder, handlers: PubSubService.handlers + [Notes.Rewording.self])
        try ignorant.receive(result(id))
        #expect(try ignorant.rows.map(\.state) == [1])
        #expect(try ignorant.rows.first?.reason?.contains("'test.fetched'") == true)
        await ignorant.close()
    }

    @Test("H6 handlers nest to any depth, and one step does them all")
    func nestedTwice() async throws {
        let offline = try PubSubAccount()
        let inner = try Notes.Fetched(tag: "inner").durable
        let middle = try Notes.Swallowing(then: inner).durable
        let id = try await offline.account.send(
            .pubsub(.items(of: "nick")), then: Notes.Swallowing(then: middle).durable)
        try offline.receive(result(id))
        #expect(
            try offline.notes == [
                "before", "before", "inner main alice@example.test nick: items i=-", "after", "after",
            ])
        #expect(try offline.endings == ["pubsub.answered result"])
        await offline.close()
    }

    @Test("H7 an inner invalidation that is unknown or throws sets the handler aside as well")
    func invalidationInside() async throws {
        let folder = try TemporaryFolder()
        let knowing = try PubSubAccount(in: folder)
        let id = try await knowing.account.send(
            .pubsub(.items(of: "nick")), then: Notes.Fetched(tag: "t").durable,
            orElse: Notes.Abandoned(tag: "t").durable)
        await knowing.close()

        let ignorant = try PubSubAccount(in: folder, handlers: PubSubService.handlers + [Notes.Fetched.self])
        try ignorant.lose(id)
        #expect(try ignorant.rows.map(\.state) == [1])
        #expect(try ignorant.rows.first?.reason?.contains("'test.abandoned'") == true)
        #expect(try ignorant.endings.isEmpty)
        await ignorant.close()
    }

    @Test(
        "H14 H17 a handler that waits, or belongs to the main program, is called later with the same answer")
    func later() async throws {
        let folder = try TemporaryFolder()
        let worker = try PubSubAccount(in: folder, role: .worker)
        let juliet = try JID("juliet@capulet.lit")
        let fetch = try await worker.account.send(
            .pubsub(.items(of: "nick"), at: juliet), then: Notes.FetchedLater().durable)
        let publication = try await worker.account.send(
            .pubsub(.publish(PubSubItem(id: "i"), on: "nick")), then: Notes.PublishedInMain().durable)
        try worker.receive("<iq type='result' id='\(fetch)' from='\(juliet)'>\(answer)</iq>")
        try worker.receive("<iq type='result' id='\(publication)'/>")
        #expect(try worker.notes == [])
        #expect(try worker.rows.map(\.name) == ["test.fetched-later", "test.published-in-main"])
        await worker.close()

        let main = try PubSubAccount(in: folder)
        try main.account.runner.start()
        try await eventually("both calls") { try main.notes.count == 2 }
        let items = PubSubFetch.Outcome.success([PubSubItem(id: "i")])
        let published = PubSubPublication.Outcome.success("i")
        #expect(
            try main.notes.sorted() == [
                "later juliet@capulet.lit nick: \(items)", "main alice@example.test nick: \(published)",
            ])
        try await eventually("their ends") { try main.rows.isEmpty }
        await main.close()
    }
}
