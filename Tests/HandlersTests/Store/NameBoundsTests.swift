import Handlers
import TestSupport
import TestThreads
import Testing

/// Names that are too long for an index of PostgreSQL are refused before anything is written, on both engines.
@Suite(.serialized, .ownThread, .engines(.sqlite, .postgres)) struct NameBoundsTests {
    private static let longest = String(repeating: "n", count: 512)
    private static let tooLong = longest + "n"

    private struct LongNamed: Handler {
        static let id = NameBoundsTests.longest
        func run(_ call: borrowing Call<TimerFired>) throws {}
    }

    private struct TooLongNamed: Handler {
        static let id = NameBoundsTests.tooLong
        func run(_ call: borrowing Call<TimerFired>) throws {}
    }

    private struct LongEvent: DurableEvent { static let id = NameBoundsTests.longest }
    private struct TooLongEvent: DurableEvent { static let id = NameBoundsTests.tooLong }

    private final class Shop: HandlerEnvironment {
        let scope: HandlerScope
        init(_ name: String) { scope = HandlerScope(rawValue: name) }
    }

    /// The code of the error with which a step ends; nil for one that commits.
    private func code(
        _ store: HandlerStore, _ body: (borrowing Step) throws -> Void
    ) -> ErrorCode<HandlerError>? {
        do {
            try store.step(body)
            return nil
        } catch { return (error as? HandlerError)?.code }
    }

    @Test("S17 names of handlers, events and scopes have 512 bytes at most")
    func names() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let (scope, longScope) = (
                HandlerScope(rawValue: Self.longest), HandlerScope(rawValue: Self.tooLong)
            )
            let second = Duration.seconds(1)
            #expect(
                code(store) { step in
                    _ = try step.bind(LongNamed().durable)
                    _ = try step.bind(LongNamed().durable, timeout: second, in: scope)
                    _ = try step.schedule(LongNamed().durable, after: second, in: scope)
                    try step.post(LongEvent(), in: scope)
                } == nil)
            #expect(code(store) { _ = try $0.bind(TooLongNamed().durable) } == .invalidKey)
            #expect(code(store) { _ = try $0.bind(TooLongNamed().durable, timeout: second) } == .invalidKey)
            #expect(
                code(store) { _ = try $0.bind(LongNamed().durable, timeout: second, in: longScope) }
                    == .invalidKey)
            #expect(
                code(store) { _ = try $0.schedule(LongNamed().durable, after: second, in: longScope) }
                    == .invalidKey)
            #expect(code(store) { try $0.post(TooLongEvent()) } == .invalidKey)
            #expect(code(store) { try $0.post(LongEvent(), in: longScope) } == .invalidKey)
            #expect(try store.step { try $0.first("SELECT count(*) FROM handler") { $0.integer(0) } } == 3)
            let runner = try HandlerRunner(store)
            try runner.attach(Shop(Self.longest))
            let error = #expect(throws: HandlerError.self) { try runner.attach(Shop(Self.tooLong)) }
            #expect(error?.code == .invalidKey)
            try runner.detach(scope)
        }
    }

    @Test("S17 the name of a module's tables has 512 bytes at most")
    func modules() throws {
        func open(_ name: String) throws {
            try withFolder { folder in
                let schema = Schema(
                    module: name, migrations: ["CREATE TABLE long_named(id INTEGER PRIMARY KEY)"])
                _ = try TestEngine.open(
                    folder.file(), registry: HandlerRegistry(), schemas: [schema], time: .system)
            }
        }
        try open(Self.longest)
        let error = #expect(throws: HandlerError.self) { try open(Self.tooLong) }
        #expect(error?.code == .invalidKey)
    }
}
