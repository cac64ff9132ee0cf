import Handlers
import TestSupport
import TestThreads
import Testing

@Suite(.serialized, .ownThread, .engines(.sqlite, .postgres, .postgresTwice)) struct FailingHandlerTests {
    private let failing = Reply { step in
        try step.execute("INSERT INTO note(text) VALUES ('undone')")
        try step.bind(Greet(name: "undone").durable)
        throw Failure()
    }

    @Test(
        "H13 a handler that throws: its writes are undone, the rest of the step commits, the row is kept with reason and input"
    )
    func quarantined() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let id = try store.bind(Greet(name: "Juliet").durable)
            let disposition = try store.step { step in
                try step.execute("INSERT INTO note(text) VALUES ('before')")
                let disposition = try step.end(id, .result, with: failing)
                try step.execute("INSERT INTO note(text) VALUES ('after')")
                return disposition
            }
            #expect(disposition == .quarantined(reason: "the handler did not want to"))
            #expect(try store.notes() == ["before", "after"])
            #expect(
                try store.waiting() == [
                    WaitingRow(
                        id: id, state: RowState.quarantined, reason: "the handler did not want to",
                        input: [UInt8]("Hello".utf8), attempts: 1)
                ])
            #expect(try store.keptEnding(of: id) == nil)
        }
    }

    @Test("H13 a quarantined handler can be ended later, and then ends once")
    func repaired() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let id = try store.bind(Greet(name: "Juliet").durable)
            #expect(try store.end(id, with: failing) != .ended)
            #expect(try store.end(id, with: failing) != .ended)
            #expect(try store.waiting().map(\.attempts) == [2])
            #expect(try store.end(id) == .ended)
            #expect(code { try store.end(id) } == .noSuchHandler)
            #expect(try store.notes() == ["Hello, Juliet"])
        }
    }

    @Test("H13 an invalidation that throws is undone and quarantined; the input kept before is not lost")
    func failingInvalidation() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let id = try store.bind(Greet(name: "Juliet").durable, orElse: Abandon(name: "a").durable)
            try store.end(id, with: failing)
            let disposition = try store.step { [failing] in
                try $0.invalidate(id, reason: .logout, environment: failing)
            }
            #expect(disposition == .quarantined(reason: "the handler did not want to"))
            #expect(try store.notes() == [])
            #expect(try store.waiting().map(\.input) == [[UInt8]("Hello".utf8)])
            #expect(try store.step { try $0.invalidate(id, reason: .logout) } == .ended)
        }
    }

    @Test("H13 a handler called with the wrong context is quarantined, and the sentence names both types")
    func wrongContext() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let id = try store.bind(Greet(name: "Juliet").durable)
            guard
                case .quarantined(let reason) = try store.step({
                    try $0.end(
                        HandlerID<TimerFired>(rawValue: id.rawValue), .result,
                        with: TimerFired(dueAt: Timestamp(milliseconds: 7)))
                })
            else {
                Issue.record("called with the wrong context")
                return
            }
            for part in ["'test.greet'", "was called with TimerFired", "call it with Reply"] {
                #expect(reason.contains(part))
            }
            #expect(try store.waiting().map(\.input) == [[UInt8](#"{"due":7,"missed":0}"#.utf8)])
        }
    }

    @Test("H13 undecodable-argument-is-quarantined: the other handlers of the step are not touched")
    func undecodable() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let ids = try store.step { step in
                try (0..<3).map { try step.bind(Greet(name: "\($0)").durable) }
            }
            try store.step {
                try $0.execute("UPDATE handler SET arguments = ? WHERE id = ?", [UInt8]("{".utf8), ids[1])
            }
            try store.step { step in for id in ids { try step.end(id, .result, with: Reply()) } }
            #expect(try store.notes() == ["Hello, 0", "Hello, 2"])
            #expect(try store.waiting().map(\.id) == [ids[1]])
        }
    }

    @Test("H13 an unreadable invalidation is quarantined and named")
    func undecodableInvalidation() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let id = try store.bind(Greet(name: "Juliet").durable, orElse: Abandon(name: "a").durable)
            try store.step { try $0.execute("UPDATE handler SET or_else = ?", [UInt8]("[]".utf8)) }
            guard case .quarantined(let reason) = try store.step({ try $0.invalidate(id, reason: .logout) })
            else {
                Issue.record("an unreadable invalidation ended")
                return
            }
            #expect(reason.contains("'test.greet'"))
        }
    }

    @Test("H13 the error of a handler is not taken for one of the store, whatever its code")
    func disguised() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            for code in [ErrorCode<HandlerError>.storageFailed, .databaseLocked, .noSuchHandler] {
                let id = try store.bind(Greet(name: "Juliet").durable)
                let reply = Reply { _ in throw HandlerError(code, "of another store") }
                // Thrown to the caller it would undo the step, and the same stanza would fail again for ever.
                #expect(try store.end(id, with: reply) == .quarantined(reason: "of another store"))
            }
        }
    }

    @Test("H13 a deferred constraint that a handler leaves broken is its own failure, not that of the step")
    func deferredConstraint() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            try store.step { step in
                try step.execute("CREATE TABLE parent(id INTEGER PRIMARY KEY)")
                try step.execute(
                    "CREATE TABLE child(id INTEGER REFERENCES parent(id) DEFERRABLE INITIALLY DEFERRED)")
            }
            let id = try store.bind(Greet(name: "Juliet").durable)
            let orphan = Reply { try $0.execute("INSERT INTO child(id) VALUES (1)") }
            let disposition = try store.step { step in
                try step.execute("INSERT INTO note(text) VALUES ('kept')")
                return try step.end(id, .result, with: orphan)
            }
            #expect(disposition != .ended)
            #expect(try store.notes() == ["kept"])
            let mended = Reply {
                try $0.execute("INSERT INTO child(id) VALUES (1)")
                try $0.execute("INSERT INTO parent(id) VALUES (1)")
            }
            #expect(try store.end(id, with: mended) == .ended)
        }
    }

    @Test(
        "H13 arguments nested deeper than a decoder goes are quarantined, with and without a call-time argument",
        arguments: [
            200, 10_000,
        ])
    func deep(_ depth: Int) throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let id = try store.bind(Greet(name: "Juliet").durable)
            let json =
                #"{"name":"# + String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
                + "}"
            try store.step { try $0.execute("UPDATE handler SET arguments = ?", [UInt8](json.utf8)) }
            #expect(try store.end(id) != .ended)
            #expect(try store.end(id, overriding: Record(["punctuation": .string("!")])) != .ended)
            #expect(try store.waiting().map(\.state) == [RowState.quarantined])
        }
    }
}
