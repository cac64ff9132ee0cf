import Handlers
import Synchronization
import TestSupport

/// Thrown by the handlers of random programs.
struct Thrown: Error, CustomStringConvertible { let description: String }

/// Lets async handlers run at one place of a program, so that it does the same each time.
final class Gate: Sendable {
    private struct State {
        var permits = 0
        var waiting: [CheckedContinuation<Void, Never>] = []
    }
    private let state = Mutex(State())

    /// Lets one pass, who is here or comes next.
    func open() {
        let next = state.withLock { state -> CheckedContinuation<Void, Never>? in
            if !state.waiting.isEmpty { return state.waiting.removeFirst() }
            state.permits += 1
            return nil
        }
        next?.resume()
    }

    func pass() async {
        await withCheckedContinuation { continuation in
            let mayPass = state.withLock { state in
                if state.permits > 0 {
                    state.permits -= 1
                    return true
                }
                state.waiting.append(continuation)
                return false
            }
            if mayPass { continuation.resume() }
        }
    }
}

/// The handlers of random programs.
enum Programmed {
    /// One program runs at a time, on one engine at a time.
    static let gate = Gate()
    // A longer delay would differ, as it follows from the row's id.
    static let retry = RetryPolicy(attempts: 2, firstDelay: .zero, finally: .orElse)

    struct Act: Handler {
        static let id = "diff.act"
        static let retry = Programmed.retry
        var actions: [Action]
        func run(_ call: borrowing Call<TimerFired>) throws {
            try call.step.perform(actions, "act \(call.missed) \(call.attempt)")
        }
    }

    struct ActAsync: AsyncHandler {
        static let id = "diff.act-async"
        static let retry = Programmed.retry
        var actions: [Action]
        var result: String
        func run(_ call: AsyncCall<TimerFired>) async throws {
            await gate.pass()
            try call.end(result: result) { try $0.perform(actions, "async \(call.attempt)") }
        }
    }

    struct Receive: Handler {
        static let id = "diff.receive"
        static let retry = Programmed.retry
        var actions: [Action]
        func run(_ call: borrowing Call<SignalReceived<String>>) throws {
            try call.step.perform(actions, "received \(call.context.value.utf8.count)")
        }
    }

    struct Over: Handler {
        static let id = "diff.over"
        static let retry = Programmed.retry
        var actions: [Action]
        func run(_ call: borrowing Call<Invalidation>) throws {
            try call.step.perform(actions, "over \(call.handler)")
        }
    }

    struct Meet: Handler {
        static let id = "diff.meet"
        static let retry = Programmed.retry
        var actions: [Action]
        func run(_ call: borrowing Call<Joined>) throws {
            let outcomes = try call.children().map { "\($0.outcome?.rawValue ?? -1)" }
            try call.step.perform(actions, "meet \(outcomes.joined(separator: " "))")
        }
    }

    struct Flowing: Workflow {
        static let id = "diff.flowing"
        static let retry = Programmed.retry
        var moments: [Moment]
        func run(_ flow: Flow) async throws -> String {
            for moment in moments {
                switch moment {
                case .step(let actions):
                    do { try await flow.step { try $0.perform(actions, "flow") } } catch let error
                        as HandlerError
                    {
                        if error.code != .operationFailed { throw error }
                    }
                case .sleep(let milliseconds): try await flow.sleep(for: .milliseconds(milliseconds))
                case .compensate(let actions): try await flow.compensate(with: Over(actions: actions).durable)
                case .wait(let key, let milliseconds):
                    _ = try await flow.signal(key, as: String.self, within: .milliseconds(milliseconds))
                case .child(let actions): try await flow.run(Act(actions: actions).durable)
                case .end(let text): return text
                }
            }
            return "over"
        }
    }

    static let all: [any DurableHandler.Type] = [
        Act.self, ActAsync.self, Receive.self, Over.self, Meet.self, Flowing.self,
    ]

    static let schema = Schema(
        module: "diff",
        migrations: [
            """
            CREATE TABLE note(id INTEGER PRIMARY KEY, text TEXT NOT NULL);
            CREATE TABLE own(id INTEGER PRIMARY KEY, i INTEGER, r REAL, t TEXT, b BLOB);
            CREATE TABLE once(id INTEGER PRIMARY KEY);
            CREATE TABLE root(id INTEGER PRIMARY KEY);
            CREATE TABLE leaf(id INTEGER PRIMARY KEY, root INTEGER NOT NULL REFERENCES root(id) DEFERRABLE INITIALLY DEFERRED);
            INSERT INTO once(id) VALUES (1);
            """
        ])
}

extension Step {
    func note(_ text: String) throws { try write("INSERT INTO note(text) VALUES (?)", text) }

    func store(_ value: OwnValue) throws {
        switch value {
        case .integer(let integer): try write("INSERT INTO own(i) VALUES (?)", integer)
        case .real(let real): try write("INSERT INTO own(r) VALUES (?)", real)
        case .text(let text): try write("INSERT INTO own(t) VALUES (?)", text)
        case .blob(let bytes): try write("INSERT INTO own(b) VALUES (?)", bytes)
        case .null: try write("INSERT INTO own(i, r, t, b) VALUES (NULL, NULL, NULL, NULL)")
        }
    }

    func perform(_ actions: [Action], _ name: String) throws {
        try note(name)
        for action in actions {
            switch action {
            case .note(let text): try note(text)
            case .own(let value): try store(value)
            case .fail(let words): throw Thrown(description: words)
            case .clash: try execute("INSERT INTO once(id) VALUES (1)")
            case .dangle: try write("INSERT INTO leaf(root) VALUES (4711)")
            case .signal(let key, let text): _ = try signal(key, text)
            case .invalidate(let key, let reason):
                _ = try invalidate(key: key, reason: InvalidationReason(rawValue: reason))
            case .swallow(let words):
                let failing = try Programmed.Act(actions: [.fail(words)]).durable
                do { try run(failing, with: TimerFired(dueAt: now)) } catch is Thrown {}
            case .schedule(let milliseconds, let actions):
                try schedule(Programmed.Act(actions: actions).durable, after: .milliseconds(milliseconds))
            case .run(let actions):
                try run(Programmed.Act(actions: actions).durable, with: TimerFired(dueAt: now))
            case .bind(let key, let actions):
                try bind(Programmed.Receive(actions: actions).durable, key: key, ifTaken: .keep)
            }
        }
    }
}
