import Handlers
import HandlersTestKit
import TestSupport
import TestThreads
import Testing

@Suite(.serialized, .ownThread, .timeLimit(.minutes(2)), .engines(.sqlite, .postgres)) struct ChangeTests {
    // MARK: Who and why

    @Test("H33 a change by hand is stored with who made it and why, in the same step")
    func recorded() throws {
        let rig = try Rig()
        defer { rig.runner.close() }
        let ids = try (0..<3).map { _ in try rig.call(Broken().durable) }
        let waiting = try rig.store.step { try $0.bind(Fine().durable.orElse(Undone().durable)) }
        try rig.store.step { step in
            try step.repair(ids[0], .requeue, by: Rig.ada)
            try step.repair(ids[1], .discard, by: RepairAuthor("bob"))
            try step.repair(waiting, .invalidate, by: Rig.ada)
        }
        let first = try rig.store.read { try $0.repairs(of: ids[0]) }
        #expect(first.map(\.action) == ["requeue"])
        #expect(first.map(\.author) == [Rig.ada])
        #expect(first.map(\.name) == [Broken.id])
        #expect(first.map(\.stateBefore) == [.quarantined])
        #expect(first.map(\.at) == [rig.clock.wall])
        #expect(try rig.store.read { try $0.repairs(of: ids[1]) }.map(\.author.name) == ["bob"])
        #expect(
            try rig.store.read { try $0.repairs() }.map(\.action) == ["invalidate", "discard", "requeue"])
        #expect(try rig.store.read { try $0.repairs(limit: 1) }.map(\.action) == ["invalidate"])
        #expect(
            try rig.store.read { try $0.repairs(before: $0.repairs()[1].number) }.map(\.action) == ["requeue"]
        )
        // Both endings say that a person made them, and which of the two it was.
        #expect(try rig.store.read { try $0.ending(of: ids[1])?.reason } == .discarded)
        #expect(try rig.store.read { try $0.ending(of: waiting)?.reason } == .byHand)
        #expect(try rig.notes() == ["by-hand"])
    }

    @Test("H33 a change by hand that is undone is not stored as made")
    func undone() throws {
        let rig = try Rig()
        defer { rig.runner.close() }
        let id = try rig.call(Broken().durable)
        #expect(throws: Refused.self) {
            try rig.store.step { step in
                try step.repair(id, .discard, by: Rig.ada)
                throw Refused(description: "no")
            }
        }
        #expect(try rig.store.read { try $0.repairs() }.isEmpty)
        #expect(throws: HandlerError.self) {
            try rig.store.step { try $0.repair(id, .runNow, by: Rig.ada) }
        }
        #expect(try rig.store.read { try $0.repairs() }.isEmpty)
    }

    // MARK: Run now

    @Test("H33 a handler that waits for its next attempt is called at once when a person wants it")
    func runNow() throws {
        let rig = try Rig()
        defer { rig.runner.close() }
        let id = try rig.call(Stubborn(until: 2).durable)
        try rig.pass()
        #expect(try rig.store.read { try $0.ending(of: id) } == nil)
        try rig.store.step { try $0.repair(id, .runNow, by: Rig.ada) }
        try rig.pass()
        #expect(try rig.store.read { try $0.ending(of: id)?.outcome } == .result)
        let uncalled = try rig.store.step { try $0.bind(Fine().durable) }
        #expect(throws: HandlerError.self) {
            try rig.store.step { try $0.repair(uncalled, .runNow, by: Rig.ada) }
        }
    }

    // MARK: Timers

    @Test("H33 a periodic timer is paused and resumed, and runs now although it is paused")
    func periodic() throws {
        let rig = try Rig()
        defer { rig.runner.close() }
        let id = try rig.store.step {
            try $0.schedule(Tick().durable, after: .seconds(60), every: .seconds(60))
        }
        try rig.pass(.seconds(60))
        #expect(try rig.notes().count == 1)
        try rig.store.step { try $0.repair(id, .pause, by: Rig.ada) }
        try rig.pass(.seconds(600))
        #expect(try rig.notes().count == 1)
        try rig.store.step { try $0.repair(id, .runNow, by: Rig.ada) }
        try rig.pass()
        #expect(try rig.notes().count == 2)
        try rig.pass(.seconds(600))
        #expect(try rig.notes().count == 2)
        try rig.store.step { try $0.repair(id, .resume, by: Rig.ada) }
        try rig.pass(.seconds(59))
        #expect(try rig.notes().count == 2)
        try rig.pass(.seconds(1))
        #expect(try rig.notes().count == 3)
        try rig.pass(.seconds(60))
        #expect(try rig.notes().count == 4)
    }

    // MARK: Lanes

    @Test("H33 no process starts a handler of a paused lane, and the limits of the program keep it paused")
    func lane() throws {
        let rig = try Rig()
        let neighbor = try Rig(rig.folder, rig.clock)
        defer {
            rig.runner.close()
            neighbor.runner.close()
        }
        let rule = LaneRule("mail", concurrency: 2)
        try rig.store.step { try $0.setLane(rule) }
        func enqueue() throws -> HandlerID<Word> {
            try rig.store.step { try $0.enqueue(Fine().durable, with: Word(), lane: LanePlace("mail")) }
        }
        // It has its place already.
        let placed = try enqueue()
        try rig.store.step { try $0.pauseLane("mail", by: Rig.ada) }
        let waiting = try enqueue()
        try rig.pass(.seconds(5))
        try neighbor.pass()
        let status = try rig.store.read { try $0.laneStatus("mail") }
        #expect(status.isPaused)
        #expect(status.standstill == .paused)
        #expect(status.running == 0)
        #expect(status.waiting == 2)
        try rig.store.step { try $0.setLane(LaneRule("mail")) }
        try rig.store.step { try $0.setLane(rule) }
        #expect(try rig.store.read { try $0.laneStatus("mail") }.isPaused)
        try rig.store.step { try $0.resumeLane("mail", by: Rig.ada) }
        try neighbor.pass()
        for id in [placed, waiting] { #expect(try rig.store.read { try $0.ending(of: id) } != nil) }
        #expect(
            try rig.store.read { try $0.repairs() }.map { "\($0.action) \($0.name)" }
                == ["resume-lane mail", "pause-lane mail"])
    }

    @Test("H33 a lane without limits can be paused, and has no row when it was resumed")
    func unlimitedLane() throws {
        let rig = try Rig()
        defer { rig.runner.close() }
        try rig.store.step { try $0.pauseLane("mail", by: Rig.ada) }
        let ids = try rig.store.step { step in
            try (0..<3).map { _ in
                try step.enqueue(Fine().durable, with: Word(), lane: LanePlace("mail"))
            }
        }
        try rig.pass()
        #expect(try rig.store.read { try $0.laneStatus("mail") }.waiting == 3)
        try rig.store.step { try $0.resumeLane("mail", by: Rig.ada) }
        try rig.pass()
        for id in ids { #expect(try rig.store.read { try $0.ending(of: id) } != nil) }
        #expect(try rig.store.read { try $0.first("SELECT count(*) FROM lane") { $0.integer(0) } } == 0)
    }

    // MARK: Many

    @Test("H33 handlers are found by the start of their name, by an argument as number or text, and in parts")
    func query() throws {
        let rig = try Rig()
        defer { rig.runner.close() }
        let ids = try rig.store.step { step in
            try [JSONValue.integer(1003), .string("1003"), .string("1004"), .bool(true), .string("true")].map
            {
                try step.bind(Fine(order: $0).durable).rawValue
            }
        }
        try rig.call(Broken().durable)
        func found(_ change: (inout HandlerQuery) -> Void, limit: Int = 100) throws -> [Int64] {
            var query = HandlerQuery()
            change(&query)
            var (start, found): (AnyHandlerID?, [Int64]) = (nil, [])
            repeat {
                let page = try rig.store.read {
                    try $0.handlers(matching: query, after: start, limit: limit)
                }
                #expect(page.handlers.count <= limit)
                found += page.handlers.map(\.id.rawValue)
                start = page.next
            } while start != nil
            return found
        }
        #expect(try found { $0.arguments = ["order": "1003"] } == Array(ids[0...1]))
        #expect(try found { $0.arguments = ["order": "true"] } == Array(ids[3...4]))
        #expect(try found { $0.arguments = ["other": "1003"] } == [])
        #expect(try found { $0.name = "shop.*" } == ids)
        #expect(try found({ $0.name = "shop.*" }, limit: 2) == ids)
        #expect(try found({ $0.arguments = ["order": "1003"] }, limit: 1) == Array(ids[0...1]))
        #expect(try found { $0.name = "shop" } == [])
        #expect(try found { $0.name = "*" }.count == 6)
        #expect(try found { $0.state = .quarantined }.count == 1)
        #expect(try found { $0.chain = AnyHandlerID(rawValue: ids[2]) } == [ids[2]])
        rig.clock.advance(by: .seconds(1))
        let now = rig.clock.wall
        #expect(try found { $0.boundBefore = now }.count == 6)
        #expect(try found { $0.boundBefore = now - .seconds(1) } == [])
    }

    @Test("H33 many handlers are changed in steps of 1000, and the others say why not")
    func many() throws {
        let rig = try Rig()
        defer { rig.runner.close() }
        try rig.store.step { step in
            for order in 0..<1001 {
                try step.end(step.bind(Broken(order: order).durable), .result, with: Word())
            }
            try step.bind(Fine().durable)
        }
        var query = HandlerQuery()
        query.name = "mail.*"
        let first = try rig.store.repair(query, .requeue, by: Rig.ada)
        #expect(first.repaired.count == 1000)
        #expect(first.refused.isEmpty)
        #expect(first.next != nil)
        let second = try rig.store.repair(query, .requeue, by: Rig.ada, after: first.next)
        #expect(second.repaired.count == 1)
        #expect(try rig.store.read { try $0.handlers(in: .quarantined) }.isEmpty)
        #expect(try rig.store.read { try $0.repairs(limit: 2000) }.count == 1001)
        // The one that waits for its call has no time.
        query.name = "shop.*"
        let refused = try rig.store.repair(query, .runNow, by: Rig.ada)
        #expect(refused.repaired.isEmpty)
        #expect(refused.refused.map(\.handler.name) == [Fine.id])
        #expect(try rig.store.read { try $0.repairs(limit: 2000) }.count == 1001)
    }
}
