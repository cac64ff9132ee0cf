import HandlerMacrosSupport
import Handlers
import HandlersTestKit
import TestSupport
import TestThreads
import Testing

private struct Receipt: Codable, Equatable {
    var number: Int
    var text = ""
}

/// Sets a result, or fails.
private struct Sell: Handler {
    static let id = "results.sell"
    static let retry = RetryPolicy.never
    var number: Int
    var length = 0
    func run(_ call: borrowing Call<Job>) throws {
        try call.setResult(Receipt(number: 0))
        try call.setResult(Receipt(number: number, text: String(repeating: "x", count: length)))
        if number < 0 { throw Failure() }
    }
}

/// Ends another handler, and then fails or returns what it is told to.
private struct Outer: Handler {
    static let id = "results.outer"
    static let retry = RetryPolicy.never
    var inner: HandlerID<Job>?
    var held: Durable<Job>?
    func run(_ call: borrowing Call<Job>) throws {
        if let inner { try call.step.end(inner, .result, with: call.context) }
        if let held { try call.step.run(held, with: call.context) }
    }
}

private struct SellLater: AsyncHandler {
    static let id = "results.sell-later"
    var number: Int
    func run(_ call: AsyncCall<Job>) async throws {
        try call.end(result: Receipt(number: number)) { try $0.note("sold") }
    }
}

private enum Till {
    @Handler("results.counted")
    static func counted(_ call: borrowing Call<Job>, number: Int) -> Receipt { Receipt(number: number) }

    @Handler("results.counted-later")
    static func countedLater(_ call: AsyncCall<Job>, number: Int) async -> [Int] { [number] }
}

@Suite(.serialized, .ownThread, .timeLimit(.minutes(2)), .engines(.sqlite, .postgres)) struct ResultTests {
    private static let handlers: [any DurableHandler.Type] = [
        Sell.self, Outer.self, SellLater.self, Say.self, Gone.self, Till.Handler_counted.self,
        Till.Handler_countedLater.self,
    ]

    @Test("H25 what a function with @Handler returns is its result, also of one that is async")
    func returned() async throws {
        try await withFolder { folder in
            let rig = try Rig(folder.file(), Self.handlers)
            defer { rig.runner.close() }
            let (now, later) = try rig.store.step { step in
                let ids = (
                    try step.bind(Till.counted(number: 17)), try step.bind(Till.countedLater(number: 18))
                )
                try step.end(ids.0, .result, with: Job())
                try step.end(ids.1, .result, with: Job())
                return ids
            }
            try rig.runner.runDue()
            #expect(try await rig.store.value(of: now) == Receipt(number: 17))
            #expect(try await rig.store.value(of: later) == [18])
        }
    }

    @Test("H25 a result is kept with the ending, and read as its type")
    func kept() throws {
        try withRig(Self.handlers) { rig in
            let id = try rig.store.bind(Sell(number: 17).durable)
            try rig.end(id)
            let ending = try #require(try rig.store.keptEnding(of: id))
            #expect(try ending.result(as: Receipt.self) == Receipt(number: 17))
            #expect(code { try ending.result(as: [String].self) } == .wrongArgument)

            let plain = try rig.store.bind(Say(name: "s").durable)
            try rig.invalidate(plain)
            let none = error { try rig.store.keptEnding(of: plain)?.result(as: Int.self) }
            #expect(
                none?.code == .noResult && none?.message.contains("(cancelled)") == true, "\(none as Any)")
        }
    }

    @Test("H25 a result is undone with its handler, and belongs to the row whose handler set it")
    func whose() throws {
        try withRig(Self.handlers) { rig in
            let failing = try rig.store.bind(Sell(number: -1).durable)
            try rig.end(failing)
            try rig.invalidate(failing)
            #expect(throws: CallError(.failed, Failure().description)) {
                try rig.store.keptEnding(of: failing)?.result(as: Receipt.self)
            }

            let inner = try rig.store.bind(Sell(number: 1).durable)
            let outer = try rig.store.bind(Outer(inner: inner).durable)
            try rig.end(outer)
            #expect(try rig.store.keptEnding(of: inner)?.result() == Receipt(number: 1))
            #expect(code { try rig.store.keptEnding(of: outer)?.result(as: Receipt.self) } == .noResult)

            let holder = try rig.store.bind(Outer(held: Sell(number: 2).durable).durable)
            try rig.end(holder)
            #expect(try rig.store.keptEnding(of: holder)?.result() == Receipt(number: 2))
        }
    }

    @Test("H25 a result that is too large fails its handler, with what to do")
    func tooLarge() throws {
        try withRig(Self.handlers) { rig in
            let id = try rig.store.bind(Sell(number: 1, length: 64 << 10).durable)
            guard case .quarantined(let reason) = try rig.end(id) else { return #expect(Bool(false)) }
            #expect(reason.contains("at most 65536") && reason.contains("return its key"), "\(reason)")
        }
    }

    @Test("H25 a waiter for an ending gets it at once, when it comes, and from another process")
    func waiting() async throws {
        try await withFolder { folder in
            let store = try openStore(folder.file(), Self.handlers, time: .system)
            let other = try openStore(folder.file(), Self.handlers, time: .system)
            let ids = try store.step { step in
                try (0..<3).map { try step.bind(Sell(number: $0).durable) }
            }
            try store.step { _ = try $0.end(ids[0], .result, with: Job()) }
            #expect(try await store.value(of: ids[0]) == Receipt(number: 0))

            async let here: Receipt = store.value(of: ids[1])
            async let again = store.ending(of: ids[1])
            async let elsewhere: Receipt = store.value(of: ids[2])
            // Until all of them wait.
            while try store.integer("SELECT count(*) FROM handler WHERE relations = 1") != 2 {
                try await Task.sleep(for: .milliseconds(1))
            }
            try store.step { _ = try $0.end(ids[1], .result, with: Job()) }
            #expect(try await here == Receipt(number: 1))
            #expect(try await again.outcome == .result)
            // As another process does.
            try other.step { _ = try $0.end(ids[2], .result, with: Job()) }
            #expect(try await elsewhere == Receipt(number: 2))

            await #expect(throws: HandlerError.self) {
                _ = try await store.ending(of: AnyHandlerID(rawValue: 4711))
            }
        }
    }

    @Test("H25 an async handler's result commits with its effects, also when somebody waits since it runs")
    func asyncResult() async throws {
        try await withFolder { folder in
            let store = try openStore(folder.file(), Self.handlers, time: .system)
            let runner = try HandlerRunner(store)
            defer { runner.close() }
            let id = try store.step { step in
                let id = try step.bind(SellLater(number: 5).durable)
                try step.end(id, .result, with: Job())
                return id
            }
            async let receipt: Receipt = store.value(of: id)
            while try store.integer("SELECT count(*) FROM handler WHERE relations = 1") != 1 {
                try await Task.sleep(for: .milliseconds(1))
            }
            try runner.start()
            #expect(try await receipt == Receipt(number: 5))
            #expect(try store.notes() == ["sold"])
            #expect(try await runner.drain(for: .seconds(60)))
        }
    }

    @Test("H25 a waiter can be canceled, and one whose handler is undone waits on")
    func canceled() async throws {
        try await withFolder { folder in
            let store = try openStore(folder.file(), Self.handlers, time: .system)
            let id = try store.bind(Sell(number: 1).durable)
            let task = Task { try await store.ending(of: id) }
            while try store.integer("SELECT count(*) FROM handler WHERE relations = 1") != 1 {
                try await Task.sleep(for: .milliseconds(1))
            }
            _ = try? store.step { step in
                try step.end(id, .result, with: Job())
                throw Failure()
            }
            task.cancel()
            await #expect(throws: CancellationError.self) { _ = try await task.value }
            try store.step { _ = try $0.end(id, .result, with: Job()) }
            #expect(try await store.value(of: id) == Receipt(number: 1))
        }
    }
}
