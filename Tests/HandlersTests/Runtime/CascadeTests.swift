import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing

/// Holds handlers in every place in which an argument may hold one.
private struct Holder: Handler {
    static let id = "test.holder"
    static let retry = RetryPolicy.never

    struct Inner: Codable, Sendable {
        var deep: [String: [Durable<Job>]]
    }
    enum Choice: Codable, Sendable {
        case none
        case one(Durable<Job>)
    }

    var optional: Durable<Job>?
    var list: [Durable<Job>] = []
    var inner: Inner?
    var choice = Choice.none
    /// The application's own data may look like a handler.
    var lookalike: [String: String] = [:]

    func run(_ call: borrowing Call<Job>) throws {}
}

/// Binds its argument again where it is invalidated: the argument was handed on.
private struct Rescue: Handler {
    static let id = "test.rescue"
    static let retry = RetryPolicy.never
    var then: Durable<Job>
    func run(_ call: borrowing Call<Invalidation>) throws { try call.step.bind(then) }
}

@Suite(.serialized, .ownThread, .engines(.sqlite, .postgres)) struct CascadeTests {
    private static let handlers: [any DurableHandler.Type] = [
        Holder.self, Rescue.self, Say.self, Gone.self, FlakyEnd<Never>.self, FlakyEnd<Thrice>.self,
    ]

    private func say(_ name: String) throws -> Durable<Job> {
        try Say(name: name).durable.orElse(Gone(name: name).durable)
    }

    @Test("H6 invalidating the outer handler invalidates those it holds, wherever they stand, each once")
    func everywhere() throws {
        try withRig(Self.handlers) { rig in
            let nested = try Holder(optional: say("deepest")).durable.orElse(Gone(name: "nested").durable)
            let outer = Holder(
                optional: try say("optional"), list: [try say("l1"), try say("l2")],
                inner: .init(deep: ["k": [try say("deep"), nested]]), choice: .one(try say("choice")),
                lookalike: ["$handler": "test.say", "version": "1"])
            let id = try rig.store.bind(outer.durable.orElse(Gone(name: "outer").durable))
            #expect(try rig.invalidate(id, .logout) == .ended)
            #expect(
                try rig.store.notes().sorted() == [
                    "choice gone: test.say logout", "deep gone: test.say logout",
                    "deepest gone: test.say logout", "l1 gone: test.say logout", "l2 gone: test.say logout",
                    "nested gone: test.holder logout", "optional gone: test.say logout",
                    "outer gone: test.holder logout",
                ])
            #expect(throws: HandlerError.self) { try rig.invalidate(id, .logout) }
            #expect(try rig.store.notes().count == 8)
        }
    }

    @Test("H6 a handler that was handed on to the invalidation is not invalidated: it may still be called")
    func handedOn() throws {
        try withRig(Self.handlers) { rig in
            let kept = try say("kept")
            let id = try rig.store.bind(
                Holder(list: [kept, try say("dropped")]).durable.orElse(Rescue(then: kept).durable))
            try rig.invalidate(id)
            #expect(try rig.store.notes() == ["dropped gone: test.say cancelled"])
            let rescued = try #require(try rig.handlers().first)
            #expect(rescued.name == "test.say")
            try rig.end(HandlerID(rawValue: rescued.id.rawValue), with: Job("now"))
            #expect(try rig.store.notes().last == "kept now")
        }
    }

    @Test("H6 when an invalidation in the middle throws, none has happened; it is tried again as a whole")
    func allOrNothing() throws {
        try withRig(Self.handlers) { rig in
            let fails = try Say(name: "x").durable.orElse(
                FlakyEnd<Thrice>(name: "x", until: rig.now + 10_000).durable)
            let id = try rig.store.bind(Holder(list: [try say("a"), fails, try say("b")]).durable)
            guard case .retrying = try rig.invalidate(id, .sessionLost) else {
                Issue.record("not to be tried again")
                return
            }
            #expect(try rig.store.notes() == [])
            try rig.runWhenDue(id)
            #expect(
                try rig.store.notes() == [
                    "a gone: test.say session-lost", "x test.say session-lost -",
                    "b gone: test.say session-lost",
                ])
            #expect(try rig.store.keptEnding(of: id)?.outcome == .invalidated)
        }
    }

    @Test("H6 an invalidation goes with its handler through storage and through other handlers' arguments")
    func roundTrip() throws {
        let inner = try say("i")
        let outer = try Holder(optional: inner).durable.orElse(Gone(name: "o").durable)
        let copy = try JSONDecoder().decode(Durable<Job>.self, from: JSONEncoder().encode(outer))
        #expect(copy == outer)
        #expect(copy != (try Holder(optional: inner).durable))
    }

    @Test("H7 the call's own arguments reach the invalidation, over the bound ones")
    func overrides() throws {
        try withRig(Self.handlers) { rig in
            let id = try rig.store.bind(try say("bound"))
            try rig.invalidate(id, overriding: Record(["name": .string("called")]))
            #expect(try rig.store.notes() == ["called gone: test.say cancelled"])
        }
    }
}
