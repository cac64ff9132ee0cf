import HandlerMacrosSupport
import Synchronization
import TestSupport
import TestThreads
import Testing

private enum Till {
    @Handler("unknown.paid")
    static func paid(_ call: borrowing Call<Reply>, coin: Int = 1, `init` first: Int? = nil) throws {
        try call.step.execute("INSERT INTO note(text) VALUES (?)", "paid \(coin)")
    }

    @Handler("unknown.counted")
    static func counted(_ call: AsyncCall<TimerFired>, coin: Int) async throws {
        try call.end { try $0.execute("INSERT INTO note(text) VALUES (?)", "counted \(coin)") }
    }
}

/// Its key is not its property's name.
private struct Renaming: Handler {
    static let id = "unknown.renaming"
    var device: Int
    private enum CodingKeys: String, CodingKey { case device = "deviceid" }
    func run(_ call: borrowing Call<Reply>) throws {
        try call.step.execute("INSERT INTO note(text) VALUES (?)", "device \(device)")
    }
}

/// What a registry reported.
private final class Reports: Sendable {
    private let state = Mutex<[String]>([])
    var all: [String] { state.withLock { $0 } }
    func append(_ text: String) { state.withLock { $0.append(text) } }
}

@Suite(.serialized, .ownThread, .engines(.sqlite, .postgres)) struct UnknownArgumentTests {
    private func run(
        _ durable: Durable<Reply>, _ overrides: [String: JSONValue], listens: Bool = true
    ) throws -> (reports: [String], notes: [String], disposition: Disposition) {
        var result: (reports: [String], notes: [String], disposition: Disposition)?
        try withFolder { folder in
            let store = try openStore(
                folder.file(), [Till.Handler_paid.self, Greet.self, Abandon.self, Renaming.self])
            let reports = Reports()
            if listens { store.registry.onUnknownArgument = { reports.append("\($0) \($1)") } }
            let disposition = try store.end(try store.bind(durable), overriding: Record(overrides))
            result = (reports.all, try store.notes(), disposition)
        }
        return try #require(result)
    }

    @Test(
        "H3 call-time arguments that a handler does not have are reported, and ignored, in either form",
        .countsInMemory)
    func reported() throws {
        let paid = try run(Till.paid(), ["coin": .integer(3), "coins": .integer(2), "first": .integer(1)])
        #expect(paid.reports == ["unknown.paid coins", "unknown.paid first"])
        #expect(paid.notes == ["paid 3"])
        #expect(paid.disposition == .ended)
        let greet = try run(
            Greet(name: "Romeo").durable, ["nmae": .string("Juliet"), "punctuation": .string("!")])
        #expect(greet.reports == ["test.greet nmae"])
        #expect(greet.notes == ["Hello, Romeo!"])
    }

    @Test("H3 what a handler has is not reported, nor is anything where nobody asked")
    func notReported() throws {
        #expect(try run(Till.paid(), ["coin": .integer(3), "init": .null]).reports == [])
        #expect(try run(Till.paid(), [:]).reports == [])
        let silent = try run(Till.paid(), ["coins": .integer(3)], listens: false)
        #expect(silent.reports == [])
        #expect(silent.notes == ["paid 1"])
    }

    @Test("H3 unknown arguments of an invalidation and of an async handler are reported too", .countsInMemory)
    func everyCall() async throws {
        try await withFolder { folder in
            let store = try openStore(folder.file(), [Greet.self, Abandon.self, Till.Handler_counted.self])
            let reports = Reports()
            store.registry.onUnknownArgument = { reports.append("\($0) \($1)") }
            let id = try store.bind(Greet(name: "a").durable, orElse: Abandon(name: "b").durable)
            try store.step { try $0.invalidate(id, reason: .logout, overriding: Record(["nmae": .null])) }
            let counted = try store.bind(Till.counted(coin: 1))
            try store.step {
                try $0.end(
                    counted, .result, with: TimerFired(dueAt: Timestamp(milliseconds: 0)),
                    overriding: Record(["coin": .integer(2), "x": .null]))
            }
            let runner = try HandlerRunner(store)
            #expect(try await runner.drain(for: .seconds(100)))
            runner.close()
            #expect(reports.all == ["test.abandon nmae", "unknown.counted x"])
            #expect(try store.notes().last == "counted 2")
        }
    }

    @Test("H3 a handler whose arguments cannot be listed says so where unknown ones are to be reported")
    func unlisted() throws {
        let overrides: [String: JSONValue] = ["deviceid": .integer(2)]
        #expect(try run(Renaming(device: 1).durable, overrides, listens: false).notes == ["device 2"])
        let (reports, notes, disposition) = try run(Renaming(device: 1).durable, overrides)
        #expect(reports == [])
        #expect(notes == [])
        #expect("\(disposition)".contains("storedArguments"))
    }
}
