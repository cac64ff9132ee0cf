import Handlers
import HandlersTestKit
import Synchronization
import TestSupport
import TestThreads
import Testing

private struct Tick: Handler {
    static let id = "keys.tick"
    var name = ""
    func run(_ call: borrowing Call<TimerFired>) throws { try call.step.note("tick \(name)") }
}

/// Binds the next of its kind with its own key.
private struct Again: Handler {
    static let id = "keys.again"
    static let retry = RetryPolicy(attempts: 3, firstDelay: .seconds(1))
    var count: Int
    func run(_ call: borrowing Call<Job>) throws {
        try call.step.bind(Again(count: count + 1).durable, key: "again")
        if call.word == "fail" { throw Failure() }
        try call.step.note("again \(count)")
    }
}

/// An invalidation that takes the key of what it stands for.
private struct TakeBack: Handler {
    static let id = "keys.take-back"
    static let retry = RetryPolicy.never
    func run(_ call: borrowing Call<Invalidation>) throws {
        try call.step.bind(Say(name: "back").durable, key: "one")
    }
}

/// Ends when it is told to.
private struct Wait: AsyncHandler {
    static let id = "keys.wait"
    static let mayEnd = Atomic(false)
    func run(_ call: AsyncCall<TimerFired>) async throws {
        while !Self.mayEnd.load(ordering: .relaxed) { try await Task.sleep(for: .milliseconds(1)) }
        try call.end { try $0.note("ended") }
    }
}

@Suite(.serialized, .ownThread, .engines(.sqlite, .postgres, .postgresTwice)) struct KeyTests {
    private static let handlers: [any DurableHandler.Type] = [
        Tick.self, Again.self, Say.self, Gone.self, TakeBack.self, FlakyEnd<Standard>.self, Wait.self,
    ]

    @Test("H24 a program that schedules with a key at every start has one timer, which keeps its time")
    func everyStart() throws {
        try withFolder { folder in
            let clock = VirtualClock()
            for _ in 0..<3 {
                try withRig(folder.file(), Self.handlers, clock: clock) { rig in
                    try rig.store.step {
                        try $0.schedule(
                            Tick().durable, key: "tick", after: .seconds(60), every: .seconds(60))
                    }
                    clock.advance(by: .seconds(25))
                    try rig.runner.runDue()
                    #expect(try rig.handlers().count == 1)
                }
            }
            try withRig(folder.file(), Self.handlers, clock: clock) { rig in
                #expect(try rig.store.notes() == ["tick "])
                let status = try #require(try rig.store.read { try $0.status(ofKey: "tick") })
                #expect(status.key == "tick" && status.isStanding)
                #expect(status.description.contains("key 'tick'"), "\(status)")
                try rig.store.step { _ = try $0.invalidate(key: "tick", reason: .cancelled) }
                #expect(try rig.store.step { try $0.invalidate(key: "tick", reason: .cancelled) } == nil)
                #expect(try rig.handlers().isEmpty)
                #expect(try rig.store.read { try $0.ending(ofKey: "tick") }?.handler == status.id)
            }
        }
    }

    @Test("H24 a key that is taken is kept, refused or replaced, and is free after an ending")
    func rules() throws {
        try withRig(Self.handlers) { rig in
            func bind(_ name: String, _ rule: KeyRule) throws -> HandlerID<Job> {
                try rig.store.step {
                    try $0.bind(
                        Say(name: name).durable.orElse(Gone(name: name).durable), key: "one", ifTaken: rule)
                }
            }
            let first = try bind("a", .refuse)
            #expect(try bind("b", .keep) == first)
            let refused = error { _ = try bind("c", .refuse) }
            #expect(refused?.code == .keyTaken && refused?.message.contains("'test.say'") == true)
            #expect(
                code { try rig.store.step { try $0.schedule(Tick().durable, key: "one", after: .zero) } }
                    == .keyTaken)
            #expect(try rig.store.notes().isEmpty && rig.handlers().count == 1)

            // One of another kind is another one.
            #expect(
                code { try rig.store.step { try $0.bindStanding(Say(name: "c").durable, key: "one") } }
                    == .keyTaken)
            let second = try bind("d", .replace)
            #expect(second != first)
            #expect(try rig.store.notes() == ["a gone: test.say replaced"])
            #expect(try rig.store.keptEnding(of: first)?.reason == .replaced)
            try rig.end(second)
            #expect(try rig.store.read { try $0.ending(ofKey: "one") }?.handler == AnyHandlerID(second))
            let third = try bind("e", .refuse)
            try rig.end(third)
            #expect(try rig.store.read { try $0.ending(ofKey: "one") }?.handler == AnyHandlerID(third))
        }
    }

    @Test("H24 a handler may bind its own key again; when it fails, it has the key itself")
    func ownKey() throws {
        try withRig(Self.handlers) { rig in
            let first = try rig.store.step { try $0.bind(Again(count: 0).durable, key: "again") }
            try rig.end(first)
            let second = try #require(try rig.store.read { try $0.status(ofKey: "again") }?.id)
            #expect(second != AnyHandlerID(first))
            try rig.end(HandlerID<Job>(rawValue: second.rawValue), with: Job("fail"))
            #expect(try rig.store.read { try $0.status(ofKey: "again") }?.id == second)
            #expect(try rig.handlers().count == 1)
            #expect(try rig.store.notes() == ["again 0"])
        }
    }

    @Test("H24 an invalidation that fails does not hold the key, and one that takes it is told")
    func replacedInvalidation() throws {
        try withRig(Self.handlers) { rig in
            func bind(_ orElse: Durable<Invalidation>) throws -> HandlerID<Job> {
                try rig.store.step {
                    try $0.bind(Say(name: "s").durable.orElse(orElse), key: "one", ifTaken: .replace)
                }
            }
            let flaky = try bind(FlakyEnd<Standard>(name: "f", until: 0).durable)
            _ = try bind(FlakyEnd<Standard>(name: "g").durable)
            #expect(try rig.store.keptEnding(of: flaky) != nil)
            let next = try bind(TakeBack().durable)
            // The failing one is tried again without its key.
            #expect(try rig.handlers().count == 2)
            #expect(try rig.store.read { try $0.status(ofKey: "one") }?.id == AnyHandlerID(next))
            #expect(code { try bind(Gone(name: "n").durable) } == .keyTaken)
            #expect(try rig.store.read { try $0.status(ofKey: "one") }?.id == AnyHandlerID(next))
        }
    }

    @Test("H24 one that an environment has bound is replaced where that is")
    func scope() throws {
        try withRig(Self.handlers) { rig in
            let shop = Workshop("shop")
            try rig.store.step {
                try $0.bind(
                    Say(name: "s").durable.orElse(FlakyEnd<Standard>(name: "f", until: 0).durable),
                    key: "one",
                    timeout: .seconds(60), in: shop.scope)
                try $0.bind(Say(name: "t").durable, key: "one", ifTaken: .replace)
            }
            try rig.runner.runDue()
            #expect(try rig.store.notes().isEmpty)
            try rig.runner.attach(shop)
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["f test.say replaced shop"])
        }
    }

    @Test("H24 an async handler that runs is replaced, and cannot end any more")
    func running() async throws {
        try await withFolder { folder in
            let rig = try Rig(folder.file(), Self.handlers)
            defer { rig.runner.close() }
            let first = try rig.store.step { try $0.schedule(Wait().durable, key: "one", after: .zero) }
            try rig.runner.runDue()
            #expect(try rig.status(of: first)?.state == .running)
            try rig.store.step {
                _ = try $0.schedule(Tick().durable, key: "one", ifTaken: .replace, after: .seconds(60))
            }
            #expect(try rig.store.keptEnding(of: first)?.reason == .replaced)
            Wait.mayEnd.store(true, ordering: .relaxed)
            #expect(try await rig.runner.drain(for: .seconds(60)))
            #expect(try rig.handlers().map(\.name) == ["keys.tick"])
            #expect(try rig.store.notes().isEmpty)

            // One that ends itself leaves its key to its ending.
            let second = try rig.store.step { try $0.schedule(Wait().durable, key: "two", after: .zero) }
            try rig.runner.runDue()
            #expect(try await rig.runner.drain(for: .seconds(60)))
            #expect(try rig.store.read { try $0.ending(ofKey: "two") }?.handler == AnyHandlerID(second))
            #expect(try rig.store.integer("SELECT count(*) FROM handler_key") == 1)
        }
    }

    @Test(
        "H24 a key that cannot be stored is refused, with its length",
        arguments: ["", String(repeating: "k", count: 513), "a\0b"])
    func wrongKeys(key: String) throws {
        try withRig(Self.handlers) { rig in
            let refused = error {
                _ = try rig.store.step { try $0.bind(Say(name: "s").durable, key: key) }
            }
            #expect(refused?.code == .invalidKey)
            #expect(refused?.message.contains("\(key.utf8.count) bytes") == true)
            #expect(code { try rig.store.step { try $0.signal(key, 1) } } == .invalidKey)
            let left = try rig.handlers()
            #expect(left.isEmpty)
        }
    }

    @Test("H24 handlers are found by name, chain and bound arguments, and canceled", .countsInMemory)
    func found() throws {
        try withRig(Self.handlers) { rig in
            for number in 0..<1200 {
                _ = try rig.store.bind(Say(name: "\(number % 3)").durable)
            }
            let again = try rig.store.step { try $0.bind(Again(count: 0).durable, key: "again") }
            try rig.end(again)
            try rig.store.step { step in
                let chain = try step.handlers(trace: AnyHandlerID(again))
                #expect(chain.map(\.name) == ["keys.again"] && chain.first?.trace == AnyHandlerID(again))
                #expect(try step.handlers(named: "test.say", limit: 5000).count == 1200)
                #expect(try step.handlers(arguments: ["name": "1"], limit: 5000).count == 400)
                #expect(try step.handlers(arguments: ["name": "1", "other": 1]).isEmpty)
                let first = try step.handlers(arguments: ["name": "2"], limit: 3)
                #expect(first.map(\.id.rawValue) == [3, 6, 9])
                let next = try step.handlers(arguments: ["name": "2"], after: first.last?.id, limit: 2)
                #expect(next.map(\.id.rawValue) == [12, 15])
                for handler in try step.handlers(arguments: ["name": "1"], limit: .max) {
                    try step.invalidate(handler.id, reason: .cancelled)
                }
                #expect(try step.handlers(named: "test.say", limit: .max).count == 800)
            }
        }
    }
}
