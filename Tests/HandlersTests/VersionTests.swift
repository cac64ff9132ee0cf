import Handlers
import TestSupport
import TestThreads
import Testing

/// What a program of long ago bound under `test.versions`.
private struct First: Handler {
    static let id = "test.versions"
    var who: String
    func run(_ call: borrowing Call<Reply>) throws {}
}

/// The same handler today: renamed argument in version 2, a new one in version 3.
private struct Third: Handler {
    static let id = "test.versions"
    static let version = 3
    var name: String
    var trail: String

    static func upcast(_ arguments: inout Record, from version: Int) throws {
        let trail: String
        if case .string(let text)? = arguments["trail"] { trail = text } else { trail = "" }
        switch version {
        case 1: arguments.rename("who", to: "name")
        default: break
        }
        if arguments["name"] == .string("unlucky") { throw Failure(description: "no way to convert this") }
        arguments["trail"] = .string(trail + "from \(version);")
    }

    func run(_ call: borrowing Call<Reply>) throws {
        try call.step.execute("INSERT INTO note(text) VALUES (?)", "\(name) \(trail)")
    }
}

private struct NewName: Handler {
    static let id = "test.new-name"
    static let aliases = ["test.greet", "test.oldest"]
    var name: String
    func run(_ call: borrowing Call<Reply>) throws {
        try call.step.execute("INSERT INTO note(text) VALUES (?)", "new \(name)")
    }
}

@Suite(.serialized, .ownThread, .engines(.sqlite, .postgres, .postgresTwice)) struct VersionTests {
    @Test("H11 old-version-arguments-migrate: one version at a time, then decoded")
    func upcast() throws {
        try withFolder { folder in
            let id = try openStore(folder.file(), [First.self]).bind(First(who: "Juliet").durable)
            let store = try openStore(folder.file(), [Third.self])
            #expect(try store.end(id) == .ended)
            #expect(try store.notes() == ["Juliet from 1;from 2;"])
        }
    }

    /// The same handler with a new argument and nothing that adds it.
    private struct Second: Handler {
        static let id = "test.versions"
        static let version = 2
        var who: String
        var place: String
        func run(_ call: borrowing Call<Reply>) throws {}
    }

    @Test("H11 a row of an older version that lacks a new argument names version, argument and remedy")
    func missingInOlder() throws {
        try withFolder { folder in
            let id = try openStore(folder.file(), [First.self]).bind(First(who: "Juliet").durable)
            let store = try openStore(folder.file(), [Second.self])
            #expect(
                try store.end(id)
                    == .quarantined(
                        reason:
                            "the handler 'test.versions' was bound in version 1 without the argument 'place', "
                            + "which version 2 needs; let upcast add it, or make it optional"))
        }
    }

    @Test("H11 a call-time value is one of today's arguments: it wins after the conversion")
    func upcastThenOverride() throws {
        try withFolder { folder in
            let id = try openStore(folder.file(), [First.self]).bind(First(who: "Juliet").durable)
            let store = try openStore(folder.file(), [Third.self])
            #expect(try store.end(id, overriding: Record(["trail": .string("called")])) == .ended)
            #expect(try store.notes() == ["Juliet called"])
        }
    }

    @Test("H11 a conversion that throws sets the row aside with the reason and the old arguments")
    func upcastThrows() throws {
        try withFolder { folder in
            let id = try openStore(folder.file(), [First.self]).bind(First(who: "unlucky").durable)
            let store = try openStore(folder.file(), [Third.self])
            #expect(try store.end(id) == .quarantined(reason: "no way to convert this"))
            #expect(try store.texts("SELECT arguments FROM handler") == [#"{"who":"unlucky"}"#])
        }
    }

    @Test(
        "H11 newer-version-row-kept-by-older-binary: parked with a reason, untouched, called by a newer program"
    )
    func newer() throws {
        try withFolder { folder in
            let id = try openStore(folder.file(), [Third.self]).bind(
                Third(name: "Juliet", trail: "x").durable)
            do {
                let store = try openStore(folder.file(), [First.self])
                guard case .parked(let reason) = try store.end(id) else {
                    Issue.record("an older program called a newer handler")
                    return
                }
                for part in ["'test.versions'", "version 3", "version 1"] { #expect(reason.contains(part)) }
                #expect(try store.waiting().map(\.state) == [RowState.parked])
                #expect(try store.waiting().map(\.input) == [[UInt8]("Hello".utf8)])
                #expect(try store.waiting().map(\.attempts) == [0], "no attempt was made")
            }
            let store = try openStore(folder.file(), [Third.self])
            #expect(try store.end(id) == .ended)
            #expect(try store.notes() == ["Juliet x"])
        }
    }

    @Test("H11 renamed-handler-alias: a row under the old name calls the renamed handler")
    func alias() throws {
        try withFolder { folder in
            let id = try openStore(folder.file()).bind(Greet(name: "Juliet").durable)
            let store = try openStore(folder.file(), [NewName.self])
            #expect(try store.end(id) == .ended)
            #expect(try store.notes() == ["new Juliet"])
            #expect(
                try store.keptEnding(of: id)?.name == "test.greet",
                "the ending keeps the name that was stored"
            )
        }
    }

    @Test("H12 unknown-handler-is-kept: parked with reason and input, and called once a program knows it")
    func unknown() throws {
        try withFolder { folder in
            let id = try openStore(folder.file()).bind(Greet(name: "Juliet").durable)
            do {
                let store = try openStore(folder.file(), [Count.self])
                let disposition = try store.step { step in
                    try step.execute("INSERT INTO note(text) VALUES ('step')")
                    return try step.end(id, .result, with: Reply())
                }
                guard case .parked(let reason) = disposition else {
                    Issue.record("\(disposition)")
                    return
                }
                #expect(reason.contains("'test.greet'"))
                #expect(try store.notes() == ["step"])
                #expect(try store.waiting().map(\.state) == [RowState.parked])
                #expect(try store.waiting().map(\.input) == [[UInt8]("Hello".utf8)])
            }
            let store = try openStore(folder.file())
            #expect(try store.end(id) == .ended)
            #expect(try store.notes() == ["step", "Hello, Juliet"])
        }
    }

    @Test("H12 a handler whose invalidation is unknown is parked when it is invalidated, not dropped")
    func unknownInvalidation() throws {
        try withFolder { folder in
            let id = try openStore(folder.file()).bind(
                Greet(name: "Juliet").durable, orElse: Abandon(name: "a").durable)
            do {
                let store = try openStore(folder.file(), [Greet.self])
                guard case .parked(let reason) = try store.step({ try $0.invalidate(id, reason: .logout) })
                else {
                    Issue.record("an unknown invalidation was dropped")
                    return
                }
                #expect(reason.contains("'test.abandon'"))
            }
            let store = try openStore(folder.file())
            #expect(try store.step { try $0.invalidate(id, reason: .logout) } == .ended)
            #expect(try store.notes() == ["a: test.greet logout nothing"])
        }
    }

    @Test("H12 a handler that this program does not know can still be invalidated when nothing has to run")
    func unknownWithoutInvalidation() throws {
        try withFolder { folder in
            let id = try openStore(folder.file()).bind(Greet(name: "Juliet").durable)
            let store = try openStore(folder.file(), [])
            #expect(try store.step { try $0.invalidate(id, reason: .cancelled) } == .ended)
        }
    }
}
