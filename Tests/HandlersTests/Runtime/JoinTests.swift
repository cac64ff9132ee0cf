import Handlers
import HandlersTestKit
import TestThreads
import TestSupport
import Testing

/// Returns its number, or fails.
private struct Offer: Handler {
    static let id = "joins.offer"
    static let retry = RetryPolicy.never
    var cents: Int
    func run(_ call: borrowing Call<Job>) throws {
        if call.word == "fail" { throw Failure() }
        try call.setResult(cents)
    }
}

/// Notes what the others returned.
private struct Collect: Handler {
    static let id = "joins.collect"
    static let retry = RetryPolicy(attempts: 3, firstDelay: .seconds(10), factor: 1)
    var name = "c"
    var failures = 0
    func run(_ call: borrowing Call<Joined>) throws {
        let children = try call.children().map { child in
            (try? child.result(as: Int.self)).map { "\($0)" } ?? child.reason.map { "\($0)" }
                ?? child.outcome.map { "\($0)" } ?? "waits"
        }
        try call.step.note("\(name): \(children.joined(separator: " "))")
        try call.setResult(children.count)
        if call.attempt <= failures { throw Failure() }
    }
}

/// Ends another handler in its call.
private struct EndOther: Handler {
    static let id = "joins.end-other"
    var other: AnyHandlerID
    func run(_ call: borrowing Call<Job>) throws {
        try call.step.end(HandlerID<Job>(rawValue: other.rawValue), .result, with: Job())
    }
}

/// Notes the names of the others.
private struct Names: Handler {
    static let id = "joins.names"
    func run(_ call: borrowing Call<Joined>) throws {
        for child in try call.children() {
            try call.step.note("\(child.name) \(child.outcome.map { "\($0)" } ?? "runs")")
        }
    }
}

private struct CollectLater: AsyncHandler {
    static let id = "joins.collect-later"
    func run(_ call: AsyncCall<Joined>) async throws {
        let count = try call.children().count { $0.outcome == .result }
        try call.end { try $0.note("later \(count)") }
    }
}

@Suite(.serialized, .ownThread, .engines(.sqlite, .postgres, .postgresTwice)) struct JoinTests {
    private static let handlers: [any DurableHandler.Type] = [
        Offer.self, Collect.self, CollectLater.self, Gone.self, Say.self, FlakyTimer.self,
        EndOther.self, Names.self,
    ]

    /// Binds offers, and a handler that waits for them.
    private func bind(
        _ rig: Rig, _ count: Int, _ rule: JoinRule, _ collect: Collect = Collect()
    ) throws -> (parent: HandlerID<Joined>, children: [HandlerID<Job>]) {
        try rig.store.step { step in
            let children = try (0..<count).map {
                try step.bind(Offer(cents: $0).durable.orElse(Gone(name: "\($0)").durable))
            }
            let parent = try step.join(
                collect.durable.orElse(Gone(name: "p").durable), when: rule,
                of: children.map { AnyHandlerID($0) })
            return (parent, children)
        }
    }

    private func rows(_ rig: Rig) throws -> [Int64?] {
        try ["handler", "handler_join", "join_child"].map {
            try rig.store.integer("SELECT count(*) FROM \($0)")
        }
    }

    @Test(
        "H25 a join is called once, in the step in which the last of its handlers ends, with all outcomes and results"
    )
    func all() throws {
        try withRig(Self.handlers) { rig in
            let (parent, children) = try bind(rig, 3, .all)
            try rig.end(children[2])
            try rig.invalidate(children[0])
            #expect(try rig.store.keptEnding(of: parent) == nil)
            try rig.store.step { step in
                try step.end(children[1], .result, with: Job())
                #expect(try step.ending(of: parent)?.result() == 3)
            }
            #expect(try rig.store.notes() == ["0 gone: joins.offer cancelled", "c: cancelled 1 2"])
            #expect(try rows(rig) == [0, 0, 0])
        }
    }

    @Test("H25 a handler with a key that is joined keeps the key, and frees it when it ends")
    func keyedChild() throws {
        try withRig(Self.handlers) { rig in
            let child = try rig.store.step { step in
                let child = try step.bind(Offer(cents: 1).durable, key: "offer")
                try step.join(Collect().durable, when: .all, of: [AnyHandlerID(child)])
                return child
            }
            try rig.end(child)
            #expect(try rig.store.notes() == ["c: 1"])
            try rig.store.step { step in
                #expect(
                    try step.status(ofKey: "offer") == nil
                        && step.ending(ofKey: "offer")?.handler == AnyHandlerID(child))
                try step.bind(Offer(cents: 2).durable, key: "offer", ifTaken: .refuse)
            }
        }
    }

    @Test("H25 the result of a handler is kept as long as the join waits, however long that is")
    func oldChild() throws {
        try withRig(Self.handlers) { rig in
            let runner = try HandlerRunner(rig.store, .init(keepEndings: .seconds(3600)))
            defer { runner.close() }
            let (_, children) = try bind(rig, 2, .all)
            try rig.end(children[0])
            for _ in 0..<5 {
                rig.clock.advance(by: .seconds(4000))
                try runner.runDue()
            }
            try rig.end(children[1])
            #expect(try rig.store.notes() == ["c: 0 1"])
        }
    }

    @Test("H25 for any or some results the others are canceled, each once, in steps of the runner")
    func some() throws {
        try withRig(Self.handlers) { rig in
            let (parent, children) = try bind(rig, 200, .quorum(2))
            try rig.end(children[7])
            try rig.invalidate(children[9], .timedOut)
            try rig.end(children[8])
            #expect(try rig.store.keptEnding(of: parent)?.outcome == .result)
            let note = try #require(try rig.store.notes().last)
            #expect(
                note.hasPrefix("c: waits waits waits waits waits waits waits 7 8 timed-out waits"), "\(note)")
            while try rig.runner.runDue() == .zero {}
            #expect(try rows(rig) == [0, 0, 0])
            let gone = try rig.store.notes().filter { $0.hasSuffix("gone: joins.offer cancelled") }
            #expect(Set(gone).count == 197 && gone.count == 197)

            let (any, others) = try bind(rig, 2, .any, Collect(name: "any"))
            try rig.invalidate(others[0])
            #expect(try rig.store.keptEnding(of: any) == nil)
            try rig.invalidate(others[1])
            #expect(try rig.store.notes().last == "any: cancelled cancelled")
        }
    }

    @Test("H25 a join that is called in the calls of its children has their names")
    func runningChildren() throws {
        try withRig(Self.handlers) { rig in
            let outer = try rig.store.step { step in
                let offer = try step.bind(Offer(cents: 1).durable)
                let inner = try step.bind(EndOther(other: AnyHandlerID(offer)).durable)
                let outer = try step.bind(EndOther(other: AnyHandlerID(inner)).durable)
                try step.join(
                    Names().durable, when: .any,
                    of: [AnyHandlerID(offer), AnyHandlerID(inner), AnyHandlerID(outer)])
                return outer
            }
            try rig.end(outer)
            #expect(
                try rig.store.notes()
                    == ["joins.offer result", "joins.end-other runs", "joins.end-other runs"])
        }
    }

    @Test("H25 a quorum that cannot be reached any more does not wait for the rest")
    func unreachable() throws {
        try withRig(Self.handlers) { rig in
            let (parent, children) = try bind(rig, 3, .quorum(2))
            try rig.invalidate(children[0])
            try rig.invalidate(children[1])
            #expect(try rig.store.keptEnding(of: parent)?.outcome == .result)
            #expect(try rig.store.notes().last == "c: cancelled cancelled waits")
        }
    }

    @Test("H25 a handler that waits is invalidated with those for which it waits")
    func canceled() throws {
        try withRig(Self.handlers) { rig in
            let (parent, children) = try bind(rig, 3, .all)
            try rig.end(children[1])
            try rig.invalidate(parent)
            while try rig.runner.runDue() == .zero {}
            #expect(
                try rig.store.notes()
                    == ["p gone: joins.collect cancelled"]
                    + ["0", "2"].map { "\($0) gone: joins.offer cancelled" })
            #expect(try rows(rig) == [0, 0, 0])
        }
    }

    @Test("H25 a join that fails is tried again with the same children, and none of them ends twice")
    func retried() throws {
        try withRig(Self.handlers) { rig in
            let (parent, children) = try bind(rig, 2, .any, Collect(failures: 1))
            try rig.end(children[0])
            // Its call is to be made again; the other one ends meanwhile.
            #expect(try rig.status(of: parent)?.reason == "the handler did not want to")
            try rig.end(children[1])
            #expect(try rig.store.notes().isEmpty, "it was called before its next attempt")
            try rig.runWhenDue(parent)
            #expect(try rig.store.notes() == ["c: 0 1"])
            #expect(try rows(rig) == [0, 0, 0])
        }
    }

    @Test("H25 a child that has ended counts; one that never was or stands is refused")
    func ended() throws {
        try withRig(Self.handlers) { rig in
            let first = try rig.store.bind(Offer(cents: 1).durable)
            try rig.end(first)
            let parent = try rig.store.step {
                try $0.join(Collect().durable, when: .all, of: [AnyHandlerID(first)])
            }
            #expect(try rig.store.notes() == ["c: 1"] && rig.store.keptEnding(of: parent) != nil)
            let none = try rig.store.step { try $0.join(Collect(name: "none").durable, when: .all, of: []) }
            #expect(try rig.store.keptEnding(of: none) != nil)

            let standing = AnyHandlerID(try rig.store.step { try $0.bindStanding(Say(name: "s").durable) })
            let second = AnyHandlerID(try rig.store.bind(Offer(cents: 2).durable))
            try rig.store.step { _ = try $0.join(Collect().durable, when: .all, of: [second]) }
            for child in [standing, AnyHandlerID(rawValue: 4711)] {
                #expect(
                    code { try rig.store.step { try $0.join(Collect().durable, when: .all, of: [child]) } }
                        == .noSuchHandler)
            }
            #expect(try rows(rig) == [3, 1, 1])
        }
    }

    @Test(
        "H25 a child is joined once: a second join of it, or its second name in one, is refused with a sentence"
    )
    func joinedTwice() throws {
        try withRig(Self.handlers) { rig in
            let (children, parent) = try rig.store.step { step in
                let children = try (0..<2).map { AnyHandlerID(try step.bind(Offer(cents: $0).durable)) }
                return (children, try step.join(Collect().durable, when: .all, of: children))
            }
            // One of them has ended, and its parent waits for the other.
            try rig.end(HandlerID<Job>(rawValue: children[0].rawValue))
            for child in children {
                let error = #expect(throws: HandlerError.self) {
                    try rig.store.step { try $0.join(Collect().durable, when: .all, of: [child]) }
                }
                #expect(error?.code == .alreadyJoined)
                #expect(
                    error?.message
                        == "the handler \(parent) waits for the handler \(child) already, and only one can; wait for the handler \(parent) instead"
                )
            }
            let new = AnyHandlerID(try rig.store.bind(Offer(cents: 2).durable))
            let error = #expect(throws: HandlerError.self) {
                try rig.store.step { try $0.join(Collect().durable, when: .all, of: [new, new]) }
            }
            #expect(error?.code == .alreadyJoined)
            #expect(
                error?.message
                    == "the handler \(new) is named twice among the handlers to wait for; name it once")
        }
    }

    @Test("H25 a child that outlives its parent can be joined again")
    func joinedAgain() throws {
        try withRig(Self.handlers) { rig in
            let (parent, children) = try bind(rig, 2, .any)
            let left = AnyHandlerID(children[1])
            try rig.store.step { step in
                try step.end(children[0], .result, with: Job())
                try step.join(Collect(name: "d").durable, when: .all, of: [left])
            }
            #expect(try rig.store.keptEnding(of: parent) != nil)
            while try rig.runner.runDue() == .zero {}
            #expect(try rig.store.notes() == ["c: 0 waits", "1 gone: joins.offer cancelled", "d: cancelled"])
        }
    }

    @Test("H25 joins of joins end together, and an async one is called by a runner")
    func nested() async throws {
        try await withFolder { folder in
            let rig = try Rig(folder.file(), Self.handlers)
            defer { rig.runner.close() }
            let (children, top) = try rig.store.step { step in
                let children = try (0..<4).map { try step.bind(Offer(cents: $0).durable) }
                let pairs = try [0, 2].map { start in
                    try step.join(
                        Collect(name: "\(start)").durable, when: .all,
                        of: children[start...(start + 1)].map { AnyHandlerID($0) })
                }
                let top = try step.join(
                    CollectLater().durable, when: .all, of: pairs.map { AnyHandlerID($0) })
                return (children, top)
            }
            for child in children { try rig.end(child) }
            #expect(try rig.store.notes() == ["0: 0 1", "2: 2 3"])
            #expect(try await rig.runner.drain(for: .seconds(60)))
            #expect(try rig.store.notes().last == "later 2")
            #expect(try rig.store.keptEnding(of: top)?.outcome == .result)
            #expect(try rows(rig) == [0, 0, 0])
        }
    }

    @Test("H25 a join that is refused leaves nothing, also when the step goes on", .effectsInMemory)
    func refused() throws {
        try withRig(Self.handlers) { rig in
            let child = AnyHandlerID(try rig.store.bind(Offer(cents: 1).durable))
            let none = AnyHandlerID(rawValue: 4711)
            try rig.store.step { step in
                #expect(
                    code { try step.join(Collect().durable, when: .all, of: [child, none]) } == .noSuchHandler
                )
                let many = Array(repeating: child, count: 10_001)
                #expect(code { try step.join(Collect().durable, when: .all, of: many) } == .tooManyChildren)
            }
            #expect(try rows(rig) == [1, 0, 0])
            try rig.store.step { _ = try $0.join(Collect().durable, when: .all, of: [child]) }
        }
    }

    @Test("H25 forty joins of joins are called, the deep ones by a runner")
    func deep() throws {
        try withRig(Self.handlers) { rig in
            let first = AnyHandlerID(try rig.store.bind(Offer(cents: 1).durable))
            try rig.store.step { step in
                var last = first
                for number in 0..<40 {
                    last = AnyHandlerID(
                        try step.join(Collect(name: "\(number)").durable, when: .all, of: [last]))
                }
            }
            try rig.end(HandlerID<Job>(rawValue: first.rawValue))
            while try rig.runner.runDue() == .zero {}
            #expect(try rig.store.notes().count == 40 && rows(rig) == [0, 0, 0])
        }
    }

    @Test("H25 discarding the last child runs nothing; a runner calls what waited for it")
    func discarded() throws {
        try withRig(Self.handlers) { rig in
            let (_, children) = try bind(rig, 1, .all)
            try rig.store.step { try $0.discard(children[0]) }
            #expect(try rig.store.notes().isEmpty)
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["c: discarded"])
        }
    }

    @Test(
        "H25 a handler to which another row refers is quarantined when it is to end by itself, and the others go on",
        arguments: ["DEFERRABLE INITIALLY DEFERRED", ""])
    func dangling(when: String) throws {
        try withRig(Self.handlers) { rig in
            let (_, children) = try bind(rig, 2, .any)
            try rig.store.step { step in
                try step.execute(
                    "CREATE TABLE refers(handler INTEGER NOT NULL REFERENCES handler(id) \(when))"
                )
                try step.execute("INSERT INTO refers VALUES (?)", children[1])
            }
            try rig.end(children[0])
            let other = try rig.store.step {
                try $0.schedule(FlakyTimer(name: "t", until: 1).durable, after: .zero)
            }
            while try rig.runner.runDue() == .zero {}
            #expect(try rig.store.keptEnding(of: other)?.outcome == .result)
            let status = try #require(try rig.status(of: children[1]))
            #expect(status.state == .quarantined && status.reason?.contains("refers to this handler") == true)
            try rig.store.step { step in
                try step.execute("DELETE FROM refers")
                try step.requeue(children[1])
            }
            try rig.runner.runDue()
            #expect(try rig.store.notes().last == "1 gone: joins.offer cancelled")
        }
    }
}
