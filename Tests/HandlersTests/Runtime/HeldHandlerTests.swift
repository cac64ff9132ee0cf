import Handlers
import TestSupport
import TestThreads
import Testing

/// Runs or invalidates the handler that it holds, with arguments of its own over those bound to it.
private struct Keeper: Handler {
    enum Way: String, Codable, Sendable { case run, invalidate, handOn }

    static let id = "test.keeper"
    static let retry = Thrice.retry
    var then: Durable<Job>
    var way = Way.run
    var overrides: [String: JSONValue] = [:]

    func run(_ call: borrowing Call<Job>) throws {
        try call.step.note("keeper")
        switch way {
        case .run: try call.step.run(then, with: call.context, overriding: Record(overrides))
        case .invalidate:
            try call.step.invalidate(
                then, reason: .sessionLost, overriding: Record(overrides))
        case .handOn: try call.step.bind(then.overriding(Record(overrides)))
        }
    }
}

/// A handler that runs in the main program alone.
private struct Indoors: Handler {
    static let id = "test.indoors"
    static let availability = Availability.mainOnly
    var name: String

    func run(_ call: borrowing Call<Job>) throws { try call.step.note("\(name) \(call.word)") }
}

/// A handler as a program of long ago bound it, and as it is today.
private struct Old: Handler {
    static let id = "test.aged"
    var who: String
    func run(_ call: borrowing Call<Job>) throws {}
}

private struct Aged: Handler {
    static let id = "test.aged"
    static let version = 2
    var name: String

    static func upcast(_ arguments: inout Record, from version: Int) { arguments.rename("who", to: "name") }
    func run(_ call: borrowing Call<Job>) throws { try call.step.note(name) }
}

@Suite(.serialized, .ownThread, .engines(.sqlite, .postgres)) struct HeldHandlerTests {
    private static let handlers: [any DurableHandler.Type] = [
        Keeper.self, Indoors.self, Aged.self, Say.self, Gone.self, FlakyEnd<Never>.self,
        FlakyEnd<Thrice>.self,
    ]

    private func say(_ name: String) throws -> Durable<Job> {
        try Say(name: name).durable.orElse(Gone(name: name).durable)
    }

    @Test("H22 the holder's values win over those bound to the handler that it runs")
    func run() throws {
        try withRig(Self.handlers) { rig in
            let keeper = Keeper(then: try say("bound"), overrides: ["name": "called"])
            #expect(try rig.end(rig.store.bind(keeper.durable)) == .ended)
            #expect(try rig.store.notes() == ["keeper", "called go"])
        }
    }

    @Test("H22 a value by today's name wins in a handler that an older version bound")
    func version() throws {
        try withRig(Self.handlers) { rig in
            let then = try Old(who: "bound").durable
            let keeper = Keeper(then: then, overrides: ["name": "called"])
            #expect(try rig.end(rig.store.bind(keeper.durable)) == .ended)
            // One that is handed on keeps its version, and with it the names of its arguments.
            let later = Keeper(then: then, way: .handOn, overrides: ["who": "handed on"])
            #expect(try rig.end(rig.store.bind(later.durable)) == .ended)
            let handler = try #require(try rig.handlers().first)
            #expect(handler.version == 1)
            #expect(try rig.end(HandlerID(rawValue: handler.id.rawValue)) == .ended)
            #expect(try rig.store.notes() == ["keeper", "called", "keeper", "handed on"])
        }
    }

    @Test("H22 the values reach a held handler that another process calls later")
    func later() throws {
        try withFolder { folder in
            let path = folder.file()
            try withRig(path, Self.handlers, role: .worker) { rig in
                let keeper = Keeper(then: try Indoors(name: "bound").durable, overrides: ["name": "called"])
                #expect(try rig.end(rig.store.bind(keeper.durable)) == .ended)
                #expect(try rig.store.notes() == ["keeper"])
            }
            try withRig(path, Self.handlers) { rig in
                try rig.runner.runDue()
                #expect(try rig.store.notes() == ["keeper", "called go"])
                #expect(try rig.handlers().isEmpty)
            }
        }
    }

    @Test("H22 a held handler is invalidated where it is, with all that it holds, and its holder ends once")
    func invalidate() throws {
        try withRig(Self.handlers) { rig in
            let inner = try Keeper(then: say("inner")).durable.orElse(Gone(name: "outer").durable)
            let keeper = Keeper(then: inner, way: .invalidate, overrides: ["name": "called"])
            let id = try rig.store.bind(keeper.durable)
            #expect(try rig.end(id) == .ended)
            #expect(
                try rig.store.notes() == [
                    "keeper", "called gone: test.keeper session-lost",
                    "inner gone: test.say session-lost",
                ])
            #expect(try rig.store.keptEnding(of: id)?.outcome == .result)
            #expect(try rig.handlers().isEmpty)
        }
    }

    @Test("H22 an invalidation that fails is the holder's failure: all is undone, and done again later")
    func failingInvalidation() throws {
        try withRig(Self.handlers) { rig in
            let until = rig.now + 10_000
            let then = try Say(name: "x").durable.orElse(FlakyEnd<Thrice>(name: "x", until: until).durable)
            let id = try rig.store.bind(Keeper(then: then, way: .invalidate).durable)
            let disposition = try rig.end(id)
            guard case .retrying = disposition else {
                Issue.record("\(disposition)")
                return
            }
            #expect(try rig.store.notes() == [])
            try rig.runWhenDue(id)
            #expect(try rig.store.notes() == ["keeper", "x test.say session-lost -"])
            #expect(try rig.store.keptEnding(of: id)?.outcome == .result)
        }
    }

    @Test("H13 a holder that swallows the failure of what it runs fails with it, and nothing of either stays")
    func swallowed() throws {
        try withRig([Relay<Never>.self, Flaky<Never>.self]) { rig in
            let relay = Relay<Never>(then: try Flaky<Never>(name: "x").durable, swallows: true)
            #expect(try rig.end(rig.store.bind(relay.durable)) == .quarantined(reason: "x failed 1"))
            #expect(try rig.store.notes() == [])
        }
    }

    @Test("H22 a handler without an invalidation is invalidated, too: nothing runs, its holder goes on")
    func nothingBound() throws {
        try withRig(Self.handlers) { rig in
            let keeper = Keeper(then: try Say(name: "x").durable, way: .invalidate)
            #expect(try rig.end(rig.store.bind(keeper.durable)) == .ended)
            #expect(try rig.store.notes() == ["keeper"])
        }
    }

    @Test(
        "H22 a handler that is handed on keeps its invalidation and those of its values that are not replaced"
    )
    func handOn() throws {
        try withRig(Self.handlers) { rig in
            let bound = try say("bound")
            let keeper = Keeper(
                then: bound, way: .handOn, overrides: ["name": "called", "surplus": [1, 2.5]])
            #expect(try rig.end(rig.store.bind(keeper.durable)) == .ended)
            let id = try #require(try rig.handlers().first).id
            #expect(try rig.invalidate(id, .logout) == .ended)
            #expect(try rig.store.notes() == ["keeper", "bound gone: test.say logout"])
            #expect(try bound.overriding([:]) == bound)
            #expect(try bound.overriding(["name": "x", "name": "bound"]) == bound)
        }
    }

    @Test("H22 values that cannot be stored are refused where they are given")
    func refused() throws {
        let bound = try say("bound")
        let deep = (0..<200).reduce(JSONValue.null) { value, _ in [value] }
        for value in [JSONValue.number(.nan), deep] {
            let error = #expect(throws: HandlerError.self) { try bound.overriding(["name": value]) }
            #expect(error?.code == .argumentNotEncodable)
        }
    }
}
