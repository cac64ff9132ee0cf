import Handlers
import TestSupport
import TestThreads
import Testing

/// What a callback framework of this kind must do with handlers, case by case, by the names under which these cases
/// are known. Those that need a stream or a process to be killed are tested elsewhere; docs/reference/features.md says where.
@Suite(.serialized, .ownThread, .engines(.sqlite, .postgres)) struct ParityTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let run: @Sendable (Rig) throws -> Void
        init(_ name: String, _ run: @escaping @Sendable (Rig) throws -> Void) {
            testDescription = name
            self.run = run
        }
    }

    /// Has a mandatory argument, an optional one and one that is a handler.
    private struct Letter: Handler {
        static let id = "parity.letter"
        static let aliases = ["parity.note"]
        static let retry = RetryPolicy.never
        var to: String
        var sign: String?
        var then: Durable<Job>?

        func run(_ call: borrowing Call<Job>) throws {
            try call.step.note("\(call.word) \(to) \(sign ?? "-")")
            if let then { try call.step.run(then, with: Job("then")) }
        }
    }

    private static func letter(_ to: String = "Ada", sign: String? = nil) throws -> Durable<Job> {
        try Letter(to: to, sign: sign).durable.orElse(Gone(name: to).durable)
    }

    private static func reason(_ disposition: Disposition) -> String {
        switch disposition {
        case .quarantined(let reason), .parked(let reason): reason
        default: "\(disposition)"
        }
    }

    static let cases: [Case] = [
        Case("bind-precedence") { rig in
            let id = try rig.store.bind(try letter("bound", sign: "b"))
            try rig.end(id, overriding: Record(["to": .string("called")]))
            #expect(try rig.store.notes() == ["go called b"])
        },
        Case("nil-bind-fallback") { rig in
            let unbound = try rig.store.bind(try letter())
            try rig.end(unbound)
            // A value that is given at the call as null is none, unlike one that is not given.
            let bound = try rig.store.bind(try letter(sign: "b"))
            try rig.end(bound, overriding: Record(["sign": .null]))
            #expect(try rig.store.notes() == ["go Ada -", "go Ada -"])
        },
        Case("missing-mandatory") { rig in
            let id = try rig.store.bind(
                Durable<Job>(name: Letter.id, version: 1, arguments: Array("{}".utf8)))
            let said = reason(try rig.end(id))
            #expect(said.contains("'parity.letter'") && said.contains("'to'"))
            #expect(try rig.status(of: id)?.state == .quarantined)
        },
        Case("wrong-type") { rig in
            let id = try rig.store.bind(try letter())
            let said = reason(try rig.end(id, overriding: Record(["to": .integer(7)])))
            #expect(said.contains("'to'") && said.contains("String") && said.contains("7"))
        },
        Case("nested-handler-roundtrip") { rig in
            let inner = try Letter(to: "inner", then: letter("innermost")).durable
            let id = try rig.store.bind(Letter(to: "outer", then: inner).durable)
            try rig.end(id)
            #expect(try rig.store.notes() == ["go outer -", "then inner -", "then innermost -"])
        },
        Case("invalidate-then-call") { rig in
            let id = try rig.store.bind(try letter())
            try rig.invalidate(id, .logout)
            #expect(code { try rig.end(id) } == .noSuchHandler)
            #expect(try rig.store.notes() == ["Ada gone: parity.letter logout"])
        },
        Case("invalidate-twice") { rig in
            let id = try rig.store.bind(try letter())
            try rig.invalidate(id, .logout)
            #expect(code { try rig.invalidate(id, .cancelled) } == .noSuchHandler)
            #expect(try rig.store.keptEnding(of: id)?.reason == .logout)
            #expect(try rig.store.notes().count == 1)
        },
        Case("no-invalidation-handler") { rig in
            let id = try rig.store.bind(Letter(to: "Ada").durable)
            #expect(try rig.invalidate(id, .sessionLost) == .ended)
            #expect(try rig.store.keptEnding(of: id)?.outcome == .invalidated)
            #expect(code { try rig.end(id) } == .noSuchHandler)
        },
        Case("unknown-handler-id") { rig in
            let id = try rig.store.bind(
                Durable<Job>(name: "parity.nobody", version: 1, arguments: Array("{}".utf8)))
            #expect(reason(try rig.end(id, with: Job("kept"))).contains("parity.nobody"))
            #expect(try rig.status(of: id)?.state == .parked)
            #expect(try rig.store.waiting().first?.input == Array("kept".utf8))
        },
        Case("renamed-handler-alias") { rig in
            let id = try rig.store.bind(
                Durable<Job>(name: "parity.note", version: 1, arguments: Array(#"{"to":"old"}"#.utf8)))
            try rig.end(id)
            #expect(try rig.store.notes() == ["go old -"])
        },
    ]

    @Test("H1-H9 parity", arguments: cases)
    func parity(_ parity: Case) throws {
        try withRig([Letter.self, Gone.self]) { rig in try parity.run(rig) }
    }
}
