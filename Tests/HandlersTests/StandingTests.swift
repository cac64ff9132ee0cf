import Handlers
import TestSupport
import TestThreads
import Testing

@Suite(.serialized, .ownThread, .engines(.sqlite, .postgres, .postgresTwice)) struct StandingTests {
    @Test("H9 a standing handler is called many times and stays")
    func manyTimes() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let id = try store.step { try $0.bindStanding(Greet(name: "Juliet").durable) }
            for word in ["a", "b", "c"] {
                #expect(try store.step { try $0.call(id, with: Reply(word: word)) } == .ended)
            }
            #expect(try store.notes() == ["a, Juliet", "b, Juliet", "c, Juliet"])
            #expect(try store.waiting().map(\.id) == [id])
            #expect(try store.keptEnding(of: id) == nil)
        }
    }

    @Test("H9 a failing call is quarantined on its own, with its input; the handler goes on")
    func failingCall() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let id = try store.step { try $0.bindStanding(Greet(name: "Juliet").durable) }
            let failing = Reply(word: "bad") { _ in throw Failure() }
            #expect(
                try store.step { try $0.call(id, with: failing) }
                    == .quarantined(reason: "the handler did not want to"))
            #expect(try store.step { try $0.call(id, with: Reply(word: "good")) } == .ended)
            #expect(try store.notes() == ["good, Juliet"])
            let rows = try store.waiting()
            #expect(rows.map(\.state) == [RowState.pending, RowState.quarantined])
            #expect(rows.map(\.input) == [[], [UInt8]("bad".utf8)])
            // The call that was quarantined or parked is a handler to be ended once.
            let aside = try #require(rows.last).id
            #expect(try store.end(aside, with: Reply(word: "repaired")) == .ended)
            #expect(code { try store.end(aside) } == .noSuchHandler)
            #expect(try store.notes() == ["good, Juliet", "repaired, Juliet"])
        }
    }

    @Test(
        "H9 a standing handler cannot be ended as if it were bound once, and the other way round; the sentence says so"
    )
    func kinds() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let standing = try store.step { try $0.bindStanding(Greet(name: "Juliet").durable) }
            let once = try store.bind(Greet(name: "Romeo").durable)
            let ended = error { try store.end(standing) }
            #expect(ended?.code == .noSuchHandler)
            #expect(ended?.message.contains("is a standing one") == true)
            let called = error { try store.step { try $0.call(once, with: Reply()) } }
            #expect(called?.code == .noSuchHandler)
            #expect(called?.message.contains("is not a standing one") == true)
            #expect(try store.waiting().count == 2)
        }
    }

    @Test("H9 a standing handler is removed by invalidating it, and leaves an ending")
    func removed() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let id = try store.step { try $0.bindStanding(Greet(name: "Juliet").durable) }
            #expect(try store.step { try $0.invalidate(id, reason: .cancelled) } == .ended)
            #expect(code { try store.step { try $0.call(id, with: Reply()) } } == .noSuchHandler)
            #expect(try store.keptEnding(of: id)?.reason == .cancelled)
        }
    }

    @Test("H12 a standing handler that this program does not know parks each call")
    func unknown() throws {
        try withFolder { folder in
            let id = try openStore(folder.file()).step { try $0.bindStanding(Greet(name: "Juliet").durable) }
            let store = try openStore(folder.file(), [])
            for word in ["1", "2"] {
                guard case .parked = try store.step({ try $0.call(id, with: Reply(word: word)) }) else {
                    Issue.record("an unknown handler was called")
                    return
                }
            }
            #expect(try store.waiting().map(\.state) == [RowState.pending, RowState.parked, RowState.parked])
            #expect(try store.waiting().map(\.input) == [[], [UInt8]("1".utf8), [UInt8]("2".utf8)])
        }
    }
}
