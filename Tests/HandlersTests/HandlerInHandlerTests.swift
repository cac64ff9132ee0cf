import Handlers
import TestSupport
import TestThreads
import Testing

@Suite(.serialized, .ownThread, .engines(.sqlite, .postgres, .postgresTwice)) struct HandlerInHandlerTests {
    /// Two handlers of one store; `first` is the one that is ended.
    private func withTwo(
        _ body: (HandlerStore, _ first: HandlerID<Reply>, _ second: HandlerID<Reply>) throws -> Void
    ) throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let ids = try store.step { step in
                (try step.bind(Greet(name: "1").durable), try step.bind(Greet(name: "2").durable))
            }
            try body(store, ids.0, ids.1)
        }
    }

    @Test("H7 a handler may end another one")
    func endsAnother() throws {
        try withTwo { store, first, second throws in
            #expect(
                try store.end(first, with: Reply { try $0.end(second, .result, with: Reply()) }) == .ended)
            #expect(try store.notes() == ["Hello, 1", "Hello, 2"])
            #expect(try store.keptEnding(of: second)?.outcome == .result)
        }
    }

    @Test("H13 when the inner handler throws, the outer one goes on and both are as they should be")
    func innerThrows() throws {
        try withTwo { store, first, second throws in
            let reply = Reply {
                try $0.end(second, .result, with: Reply { _ in throw Failure() })
            }
            #expect(try store.end(first, with: reply) == .ended)
            #expect(try store.notes() == ["Hello, 1"])
            #expect(try store.waiting().map(\.id) == [second])
            #expect(try store.waiting().map(\.input) == [[UInt8]("Hello".utf8)])
        }
    }

    @Test("H13 when the outer handler throws, what the inner one did is undone and it waits again")
    func outerThrows() throws {
        try withTwo { store, first, second throws in
            let reply = Reply {
                try $0.end(second, .result, with: Reply())
                throw Failure()
            }
            #expect(try store.end(first, with: reply) != .ended)
            #expect(try store.notes() == [])
            #expect(try store.waiting().map(\.id) == [first, second])
            #expect(try store.waiting().map(\.state) == [RowState.quarantined, RowState.pending])
            #expect(try store.end(second) == .ended)
        }
    }

    @Test("H13 a handler that looks for an ended one and then throws is undone whole and kept")
    func catchesThenThrows() throws {
        try withTwo { store, first, second throws in
            try store.end(second)
            let reply = Reply {
                _ = try? $0.end(second, .result, with: Reply())
                throw Failure()
            }
            #expect(try store.end(first, with: reply) != .ended)
            #expect(try store.notes() == ["Hello, 2"])
            #expect(try store.waiting().map(\.id) == [first])
            #expect(try store.waiting().map(\.input) == [[UInt8]("Hello".utf8)])
        }
    }

    @Test("H13 a handler that ends one that is gone is itself quarantined; the step is not given up")
    func endsGone() throws {
        try withTwo { store, first, second throws in
            try store.end(second)
            let disposition = try store.step { step in
                try step.execute("INSERT INTO note(text) VALUES ('step')")
                return try step.end(
                    first, .result, with: Reply { try $0.end(second, .result, with: Reply()) })
            }
            guard case .quarantined(let reason) = disposition else {
                Issue.record("\(disposition)")
                return
            }
            #expect(reason.contains("the handler \(second) has ended"))
            #expect(try store.notes() == ["Hello, 2", "step"])
            #expect(try store.waiting().map(\.id) == [first])
        }
    }

    @Test("H7 a handler that ends or invalidates itself finds that it is ending already", .countsInMemory)
    func endsItself() throws {
        try withTwo { store, first, second throws in
            let codes = Sink<ErrorCode<HandlerError>?>()
            let reply = Reply { step in
                codes.append(code { try step.end(first, .result, with: Reply()) })
                codes.append(code { try step.invalidate(first, reason: .cancelled) })
            }
            #expect(try store.end(first, with: reply) == .ended)
            #expect(codes.values == [.noSuchHandler, .noSuchHandler])
            #expect(try store.notes() == ["Hello, 1"])
            #expect(try store.keptEnding(of: first)?.outcome == .result)
            let uncaught = Reply { try $0.end(second, .result, with: Reply()) }
            #expect(try store.end(second, with: uncaught) != .ended)
            #expect(try store.waiting().map(\.id) == [second])
        }
    }

    @Test("H7 an invalidation may invalidate others")
    func invalidatesAnother() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let inner = try store.bind(Greet(name: "1").durable, orElse: Abandon(name: "inner").durable)
            let outer = try store.bind(Greet(name: "2").durable, orElse: Abandon(name: "outer").durable)
            let live = Reply(word: "live") { try $0.invalidate(inner, reason: .cancelled) }
            #expect(try store.step { try $0.invalidate(outer, reason: .logout, environment: live) } == .ended)
            #expect(
                try store.notes() == [
                    "outer: test.greet logout live", "inner: test.greet cancelled nothing",
                ])
        }
    }

    @Test(
        "H13 handlers that call each other without end are stopped at a named depth, not by the stack",
        .countsInMemory)
    func depth() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let id = try store.step { try $0.bindStanding(Greet(name: "again").durable) }
            let loop = Loop(id)
            guard
                case .ended = try store.step({ try $0.call(id, with: Reply(action: { try loop.run($0) })) })
            else {
                Issue.record("the call has not ended")
                return
            }
            #expect(loop.reasons.values.count == 1)
            #expect(loop.reasons.values.first?.contains("handlers called each other") == true)
        }
    }

    @Test("H6 a handler that runs itself as its own argument without end is stopped at a named depth")
    func nestedDepth() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let id = try store.bind(Greet(name: "again").durable)
            let durable = try Greet(name: "inner").durable
            guard case .quarantined(let reason) = try store.end(id, with: Self.runningItself(durable)) else {
                Issue.record("a handler without end has ended")
                return
            }
            #expect(reason.contains("handlers called each other"))
            #expect(try store.notes() == [])
        }
    }

    private static func runningItself(_ durable: Durable<Reply>) -> Reply {
        Reply { try $0.run(durable, with: runningItself(durable)) }
    }

    /// Calls its own standing handler again and again.
    private final class Loop: Sendable {
        let id: HandlerID<Reply>
        let reasons = Sink<String>()
        init(_ id: HandlerID<Reply>) { self.id = id }

        func run(_ step: borrowing Step) throws {
            switch try step.call(id, with: Reply(action: { try self.run($0) })) {
            case .quarantined(let reason): reasons.append(reason)
            default: break
            }
        }
    }
}
