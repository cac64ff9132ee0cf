import Handlers
import TestSupport
import TestThreads
import Testing

@Suite(.serialized, .ownThread, .engines(.sqlite, .postgres, .postgresTwice)) struct EndingTests {
    @Test("H7 a handler ends once: it runs, leaves an ending, and a second end finds no such handler")
    func endsOnce() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let id = try store.bind(Greet(name: "Juliet").durable)
            #expect(try store.keptEnding(of: id) == nil)
            #expect(try store.end(id, .result) == .ended)
            let again = error { try store.end(id) }
            #expect(again?.code == .noSuchHandler)
            #expect(again?.message.contains("handler \(id) has ended or never existed") == true)
            #expect(code { try store.step { try $0.invalidate(id, reason: .cancelled) } } == .noSuchHandler)
            #expect(try store.notes() == ["Hello, Juliet"])
            #expect(try store.waiting() == [])
        }
    }

    @Test("H7 an invalidated handler can neither be called nor invalidated again")
    func invalidatesOnce() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let id = try store.bind(Greet(name: "Juliet").durable, orElse: Abandon(name: "a").durable)
            #expect(try store.step { try $0.invalidate(id, reason: .logout) } == .ended)
            #expect(code { try store.step { try $0.invalidate(id, reason: .logout) } } == .noSuchHandler)
            #expect(code { try store.end(id) } == .noSuchHandler)
            #expect(try store.notes() == ["a: test.greet logout nothing"])
        }
    }

    @Test(
        "H7 the invalidation gets its bound arguments, the reason, the handler's name and the live environment"
    )
    func environment() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let id = try store.bind(Greet(name: "Juliet").durable, orElse: Abandon(name: "b").durable)
            try store.step {
                try $0.invalidate(id, reason: .sessionLost, environment: Reply(word: "account"))
            }
            #expect(try store.notes() == ["b: test.greet session-lost account"])
        }
    }

    @Test("H8 without an invalidation the ending is recorded with its reason all the same")
    func withoutInvalidation() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let id = try store.bind(Greet(name: "Juliet").durable)
            #expect(try store.step { try $0.invalidate(id, reason: .cancelled) } == .ended)
            #expect(
                line(try store.keptEnding(of: id)) == "\(id) test.greet invalidated cancelled 1700000000000")
            #expect(try store.notes() == [])
        }
    }

    @Test(
        "H19 each outcome leaves its ending: handler, name, outcome, time",
        arguments: [
            Outcome.result, .error, .timeout,
        ])
    func tombstone(_ outcome: Outcome) throws {
        try withFolder { folder in
            let path = folder.file()
            let id = try {
                let store = try openStore(path)
                let id = try store.bind(Greet(name: "Juliet").durable)
                try store.end(id, outcome)
                return id
            }()
            // Found by a program that does not know the handler, too.
            #expect(
                line(try openStore(path, []).keptEnding(of: id))
                    == "\(id) test.greet \(outcome) - 1700000000000")
        }
    }

    @Test("H19 an ending of a kind that this program does not know is an error, not a crash")
    func unknownOutcome() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let id = try store.bind(Greet(name: "Juliet").durable)
            try store.end(id)
            try store.step { try $0.execute("UPDATE ending SET outcome = 99") }
            #expect(code { _ = try store.keptEnding(of: id) } == .databaseNewer)
        }
    }

    @Test("H7 a handler that never existed is no such handler")
    func neverExisted() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let id = HandlerID<Reply>(rawValue: 12345)
            #expect(code { try store.end(id) } == .noSuchHandler)
            #expect(code { try store.step { try $0.invalidate(id, reason: .cancelled) } } == .noSuchHandler)
            #expect(code { try store.step { try $0.call(id, with: Reply()) } } == .noSuchHandler)
            #expect(try store.keptEnding(of: id) == nil)
        }
    }

    @Test("H7 a call of an ended handler leaves the rest of its step as it was")
    func noSuchHandlerIsCaught() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let ids = try store.step { step in
                try (0..<3).map { try step.bind(Greet(name: "\($0)").durable) }
            }
            try store.end(ids[0])
            try store.step { step in
                #expect(code { try step.end(ids[0], .result, with: Reply()) } == .noSuchHandler)
                try step.end(ids[1], .result, with: Reply { _ in throw Failure() })
                try step.end(ids[2], .result, with: Reply())
            }
            #expect(try store.notes() == ["Hello, 0", "Hello, 2"])
            #expect(try store.waiting().map(\.id) == [ids[1]])
        }
    }

    @Test("H7 ids grow and are never used again, also after every row was deleted and the file reopened")
    func idsNeverReused() throws {
        try withFolder { folder in
            var seen: [HandlerID<Reply>] = []
            for _ in 0..<3 {
                let store = try openStore(folder.file())
                let id = try store.bind(Greet(name: "Juliet").durable)
                try store.end(id)
                try store.step { try $0.execute("DELETE FROM ending") }
                #expect(seen.allSatisfy { $0.rawValue < id.rawValue })
                seen.append(id)
            }
        }
    }
}
