import HandlersTestKit
import TestSupport
import TestThreads
import Testing

@testable import Handlers

/// A word in its two forms: as keyboards write it, and as file names of Apple systems hold it. A String finds them equal.
private enum Form {
    static let composed = "caf\u{e9}"
    static let decomposed = "cafe\u{301}"
    static let both = [composed, decomposed]
}

/// Writes the form of the scope in whose environment it runs.
private struct Here: Handler {
    static let id = "names.here"
    func run(_ call: borrowing Call<TimerFired>) throws {
        let scope = call.environment?.scope
        try call.step.note(scope.map { "\($0.rawValue.utf8.count)" } ?? "none")
    }
}

/// Has one of the forms as its name, and writes how long that is.
private struct Named<Word: FormOfWord>: Handler {
    static var id: String { "names.\(Word.form)" }
    func run(_ call: borrowing Call<Job>) throws { try call.step.note("\(Self.id.utf8.count)") }
}

private protocol FormOfWord: Sendable { static var form: String { get } }
private enum Composed: FormOfWord { static let form = Form.composed }
private enum Decomposed: FormOfWord { static let form = Form.decomposed }

/// Names that differ in their bytes are different names, in memory as in SQL.
@Suite(.serialized, .ownThread, .timeLimit(.minutes(2)), .engines(.sqlite, .postgres)) struct NameTests {
    private func enqueue(_ step: borrowing Step, _ lane: String, _ number: Int) throws {
        try step.enqueue(
            Write<Job>(text: "\(lane.utf8.count) \(number)").durable, with: Job(), lane: LanePlace(lane))
    }

    @Test(
        "H27 lanes whose names look alike are two lanes: none takes a place of the other",
        arguments: [1, 3], [true, false])
    func lanes(concurrency: Int, inOneStep: Bool) throws {
        try withRig([Write<Job>.self]) { rig in
            try rig.store.step { step in
                for lane in Form.both { try step.setLane(LaneRule(lane, concurrency: concurrency)) }
                guard inOneStep else { return }
                for number in 1...4 { for lane in Form.both { try enqueue(step, lane, number) } }
            }
            if !inOneStep {
                for number in 1...4 {
                    for lane in Form.both { try rig.store.step { try enqueue($0, lane, number) } }
                }
            }
            try rig.runner.runDue()
            #expect(
                try rig.store.notes().sorted() == [
                    "5 1", "5 2", "5 3", "5 4", "6 1", "6 2", "6 3", "6 4",
                ])
            #expect(try rig.store.texts("SELECT CAST(running AS TEXT) FROM lane") == ["0", "0"])
            let lanes = try rig.store.read { try $0.lanes() }
            #expect(lanes.map(\.name.utf8.count) == [6, 5], "in the order of SQL")
            #expect(lanes.allSatisfy { $0.rule.concurrency == concurrency && $0.standstill == nil })
        }
    }

    @Test("H27 places and rules of lanes are equal only with the same bytes")
    func laneValues() {
        let (one, other) = (Form.composed, Form.decomposed)
        #expect(LaneRule(one) != LaneRule(other))
        #expect(LanePlace(one) != LanePlace(other))
        #expect(LanePlace("mail", orderedBy: one) != LanePlace("mail", orderedBy: other))
        #expect(LanePlace(one, orderedBy: other) == LanePlace(one, orderedBy: other))
        #expect(Set(Form.both.map { HandlerScope($0) }).count == 2)
        #expect(HandlerScope(one) != HandlerScope(other))
        #expect(HandlerScope(one) == HandlerScope(rawValue: one))
    }

    @Test("H27 handlers with order keys that look alike do not wait for each other")
    func orderKeys() throws {
        try withRig([Write<Job>.self]) { rig in
            try rig.store.step { step in
                for key in Form.both {
                    try step.enqueue(
                        Write<Job>(text: "\(key.utf8.count)").durable, with: Job(),
                        lane: LanePlace("mail", orderedBy: key))
                }
                #expect(try step.laneStatus("mail").waiting == 0)
            }
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["5", "6"])
        }
    }

    @Test("H15 a timer runs in the environment of its own scope, not of one that looks alike")
    func scopes() throws {
        try withRig([Here.self]) { rig in
            let workshops = Form.both.map { Workshop($0) }
            for workshop in workshops { try rig.runner.attach(workshop) }
            try rig.store.step { step in
                for workshop in workshops {
                    try step.schedule(Here().durable, after: .seconds(1), in: workshop.scope)
                }
            }
            rig.clock.advance(by: .seconds(1))
            try rig.runner.runDue()
            #expect(try rig.store.notes().sorted() == ["5", "6"])
        }
    }

    @Test("H15 a started runner calls the timers of both scopes, each when it is due")
    func startedRunner() async throws {
        try await withFolder { folder in
            let rig = try Rig(folder.file(), [Here.self])
            defer { rig.runner.close() }
            let workshops = Form.both.map { Workshop($0) }
            for workshop in workshops { try rig.runner.attach(workshop) }
            try rig.runner.start()
            let ids = try rig.store.step { step in
                try zip([20, 10], workshops).map { seconds, workshop in
                    try step.schedule(Here().durable, after: .seconds(seconds), in: workshop.scope)
                }
            }
            for (id, notes) in [(ids[1], ["6"]), (ids[0], ["6", "5"])] {
                rig.clock.advance(by: .seconds(10))
                _ = try await rig.store.ending(of: id)
                #expect(try rig.store.notes() == notes)
            }
        }
    }

    @Test("H1 two handlers whose ids look alike are in one registry, and each row calls its own")
    func handlers() throws {
        try withRig([Named<Composed>.self, Named<Decomposed>.self]) { rig in
            #expect(rig.store.registry.names.map(\.utf8.count) == [12, 11])
            let ids = try rig.store.step { step in
                [try step.bind(Named<Composed>().durable), try step.bind(Named<Decomposed>().durable)]
            }
            for id in ids { try rig.end(id) }
            #expect(try rig.store.notes() == ["11", "12"])
            #expect(try Named<Composed>().durable != Named<Decomposed>().durable)
        }
    }

    @Test("H24 keys that look alike are two keys")
    func keys() throws {
        try withRig([Here.self]) { rig in
            let ids = try rig.store.step { step in
                try Form.both.map { try step.schedule(Here().durable, key: $0, after: .seconds(60)) }
            }
            #expect(ids[0] != ids[1])
            for (key, id) in zip(Form.both, ids) {
                #expect(try rig.store.read { try $0.status(ofKey: key) }?.id == AnyHandlerID(id))
            }
        }
    }

    @Test("H18 statements whose literals look alike are two statements")
    func statements() throws {
        try withRig([]) { rig in
            let values = [Form.composed + Form.decomposed, Form.decomposed + Form.composed]
            // Of as many lengths, so that some of the pairs meet wherever prepared statements are looked for.
            for length in 0..<64 {
                let space = String(repeating: " ", count: length)
                try rig.store.step { step in
                    for value in values {
                        try step.execute("INSERT INTO note(text) VALUES (\(space)'\(value)')")
                    }
                }
            }
            let notes = try rig.store.notes().map { Array($0.utf8) }
            #expect(notes == (0..<64).flatMap { _ in values.map { Array($0.utf8) } })
        }
    }

    @Test("S7 two modules whose names look alike have their own versions")
    func schemas() throws {
        try withFolder { folder in
            let path = folder.file()
            let schemas = zip(["one", "other"], Form.both).map { table, module in
                Schema(module: module, migrations: ["CREATE TABLE \(table)_note(text TEXT NOT NULL)"])
            }
            let store = try TestEngine.open(
                path, registry: HandlerRegistry(), schemas: schemas, time: VirtualClock().timeSource)
            #expect(store.modules.isSuperset(of: Form.both.map { Name($0) }))
            #expect(
                try store.texts("SELECT module FROM module_schema ORDER BY module")
                    .filter { $0.utf8.first == UInt8(ascii: "c") }.map(\.utf8.count) == [6, 5])
        }
    }
}
