import HandlerMacrosSupport
package import Handlers
import PubSub
package import XMPPAccount
import XMPPCore
import XMPPModules

/// The application of the world. Its handlers write their effects to tables that the model reads.
///
/// The tables have no unique keys on purpose: a handler that ran twice leaves two rows.
package enum WorldApp {
    static let namespace = "urn:durable-handlers:world:0"

    static let schema = Schema(
        module: "world",
        migrations: [
            """
            CREATE TABLE world_bound(n INTEGER PRIMARY KEY, kind TEXT NOT NULL, stanza TEXT, process TEXT NOT NULL, due INTEGER);
            CREATE TABLE world_ended(row INTEGER PRIMARY KEY, n INTEGER NOT NULL, outcome TEXT NOT NULL, process TEXT NOT NULL);
            CREATE TABLE world_received(row INTEGER PRIMARY KEY, stanza TEXT NOT NULL, process TEXT NOT NULL);
            """
        ])

    /// The process whose code is running.
    static var process: String { WorldTasks.shared.current?.name ?? "" }

    /// Events in memory, which happen even if the transaction is rolled back.
    enum Sight {
        case called(n: Int)
        /// An async handler has started; it has returned or was canceled.
        case started(n: Int, run: Int, inLane: Bool)
        case stopped(n: Int, run: Int)
    }

    /// Reports an event to the model.
    nonisolated(unsafe) static var report: (Sight) -> Void = { _ in }
    /// Lets time pass for the process whose code is running.
    nonisolated(unsafe) static var sleep: (Duration) async throws -> Void = { _ in }
    nonisolated(unsafe) private static var lastRun = 0

    static var handlers: [any DurableHandler.Type] {
        [
            Received.self, Answered.self, Abandoned.self, Relay.self, Acknowledged.self, Remind.self,
            Work.self, Changed.self, Noticed.self, Published.self, Heard.self, Listen.self, Speak.self,
            Met.self, Part.self, Errand.self, Carry.self, CarryPart.self, CarryLater.self, MetLater.self,
            Tick.self, Wait.self,
        ] + PubSubService.handlers
    }

    /// The ids of the handlers that end entries of `world_bound`.
    static let endingHandlers = [
        Answered.id, Acknowledged.id, Relay.id, Remind.id, Work.id, Changed.id, Heard.id, Listen.id,
        Met.id, Errand.id, Carry.id, CarryLater.id, MetLater.id, Tick.id, Wait.id,
    ]

    package static func next(in step: borrowing Step) throws(HandlerError) -> Int {
        try step.first("SELECT coalesce(max(n), 0) + 1 FROM world_bound") { (row) throws(HandlerError) in
            Int(row.integer(0))
        } ?? 1
    }

    package static func bound(
        _ n: Int, _ kind: String, _ stanza: String? = nil, due: Timestamp? = nil, in step: borrowing Step
    ) throws {
        try step.execute(
            "INSERT INTO world_bound(n, kind, stanza, process, due) VALUES (?, ?, ?, ?, ?)", n, kind, stanza,
            process, due)
    }

    package static func ended(_ n: Int, _ outcome: String, in step: borrowing Step) throws {
        try step.execute(
            "INSERT INTO world_ended(n, outcome, process) VALUES (?, ?, ?)", n, outcome, process)
    }

    // MARK: Work

    /// Sends a message to the peer; a handler waits for the server's acknowledgement.
    static func sendMessage(from account: Account, in step: borrowing Step) throws -> Int {
        let n = try next(in: step)
        let message = Message(to: WorldServer.peer, id: "m-\(n)-\(StanzaID.random())", body: String(n))
        try account.send(message, acknowledged: Acknowledged(n: n).durable, in: step)
        try bound(n, "message", "\(message.id ?? "")", in: step)
        return n
    }

    /// Sends a request to the peer, which answers at once, later, with an error, or never. Every other request has a chain of
    /// handlers.
    static func ask(from account: Account, in step: borrowing Step) throws -> Int {
        let n = try next(in: step)
        let want = ["result", "later", "error", "result", "silence"][n % 5]
        let question = Element("question", namespace: namespace, attributes: ["n": String(n), "want": want])
        let iq = IQ(type: .get, to: WorldServer.peer, id: "q-\(n)-\(StanzaID.random())", payload: question)
        let (answered, abandoned) = (try Answered(n: n).durable, try Abandoned(n: n).durable)
        let timeout = Duration.milliseconds(want == "silence" ? 400 : 60_000)
        if n % 2 == 0 {
            let relay = Relay(then: try answered.orElse(abandoned))
            try account.send(.iq(iq), then: relay.durable, timeout: timeout, in: step)
        } else {
            try account.send(.iq(iq), then: answered, orElse: abandoned, timeout: timeout, in: step)
        }
        try bound(n, "question", "\(iq.id)", in: step)
        return n
    }

    enum List { case roster, blocking }

    /// Changes one of the lists at the server.
    static func change(_ list: List, of account: Account, in step: borrowing Step) throws -> Int {
        let n = try next(in: step)
        let jid = try JID(WorldLists.contact(n % 6))
        let change: AccountOperation<IQReply, Void> =
            switch (list, n % 3) {
            case (.roster, 0): .roster.remove(jid)
            case (.roster, _): .roster.set(RosterItem(jid, name: "n-\(n)"))
            case (.blocking, 0): .blocking.unblock([jid])
            case (.blocking, _): .blocking.block([jid])
            }
        try account.send(
            change, then: Changed(n: n).durable, orElse: Abandoned(n: n).durable, timeout: .seconds(60),
            in: step)
        try bound(n, "change", in: step)
        return n
    }

    /// Publishes an item at the account's node.
    static func publish(from account: Account, in step: borrowing Step) throws -> Int {
        let n = try next(in: step)
        let item = PubSubItem(id: "i-\(n)", payload: Element("reading", namespace: namespace))
        try account.send(
            .pubsub(.publish(item, on: WorldServer.node)), then: Published(n: n).durable,
            orElse: Abandoned(n: n).durable, timeout: .seconds(60), in: step)
        try bound(n, "publication", in: step)
        return n
    }

    static func remind(in step: borrowing Step) throws -> Int {
        let n = try next(in: step)
        let delay = Duration.milliseconds(n % 3 == 0 ? 5000 : 20)
        try step.schedule(Remind(n: n).durable, after: delay)
        try bound(n, "timer", due: step.now + delay, in: step)
        return n
    }

    /// Has a handler called by a signal, which is sent before or after the handler is bound, or when others have ended. Or starts a chain
    /// whose signal never comes, so that its limit ends it.
    static func signal(in step: borrowing Step) throws -> Int {
        let n = try next(in: step)
        if n % 7 == 6 {
            try step.withChainLimit(.milliseconds(n % 2 == 0 ? 100 : 3000)) {
                try step.schedule(
                    Wait(n: n).durable.orElse(Abandoned(n: n).durable), after: .milliseconds(20))
            }
            try bound(n, "chain", in: step)
            return n
        }
        if n % 5 == 0 {
            let parts = try [20, 500].map { delay in
                AnyHandlerID(try step.schedule(Part(n: n).durable, after: .milliseconds(delay)))
            }
            try step.join(Met(n: n).durable, when: n % 2 == 0 ? .all : .any, of: parts)
            try bound(n, "join", in: step)
            return n
        }
        if n % 3 == 0 {
            try step.bind(Heard(n: n).durable, key: "k-\(n)", ifTaken: .refuse)
        } else {
            try step.schedule(Listen(n: n).durable, after: .milliseconds(n % 2 == 0 ? 20 : 3000))
        }
        if n % 3 == 1 {
            try step.signal("k-\(n)", n)
        } else {
            try step.schedule(Speak(n: n).durable, after: .milliseconds(25))
        }
        try bound(n, "signal", in: step)
        return n
    }

    static func work(in step: borrowing Step) throws -> Int {
        let n = try next(in: step)
        try step.run(Work(n: n).durable, with: Job(n: n))
        try bound(n, "work", in: step)
        return n
    }

    // MARK: Handlers

    /// Stores a message of the peer. Some messages lead to more work.
    ///
    /// - Parameters:
    ///   - id: The id of the message, followed by a space and a description if the message is wrong.
    ///   - number: The number in the message; nil for none.
    package static func received(
        _ id: String, _ number: Int?, by account: Account, in step: borrowing Step
    ) throws {
        try step.execute("INSERT INTO world_received(stanza, process) VALUES (?, ?)", id, process)
        guard let number else { return }
        if number % 3 == 0 { _ = try remind(in: step) }
        if number % 4 == 0 { _ = try ask(from: account, in: step) }
        if number % 5 == 0 { _ = try work(in: step) }
    }

    /// Called for a message.
    struct Received: Handler {
        static let id = "world.received"
        func run(_ call: borrowing Call<MessageReceived>) throws {
            guard call.message.from?.bare == WorldServer.peer.bare,
                !call.message.element.elements.contains(where: { $0.name == "encrypted" })
            else { return }
            try WorldApp.received(
                call.message.id.map { "\($0)" } ?? "", call.message.body.flatMap { Int("\($0)") },
                by: call.account, in: call.step)
        }
    }

    struct Answered: Handler {
        static let id = "world.answered"
        var n: Int
        func run(_ call: borrowing Call<IQReply>) throws {
            let outcome =
                switch call.outcome {
                case .result(let answer): answer?["forged"] == nil ? "result" : "forged"
                case .error: "error"
                case .timeout: "timeout"
                }
            try WorldApp.ended(n, outcome, in: call.step)
        }
    }

    struct Changed: Handler {
        static let id = "world.changed"
        var n: Int
        func run(_ call: borrowing Call<IQReply>) throws {
            let isRefused = if case .error = call.outcome { true } else { false }
            try WorldApp.ended(n, isRefused ? "refused" : "changed", in: call.step)
        }
    }

    struct Published: Handler {
        static let id = "world.published"
        var n: Int
        func run(_ call: borrowing Call<PubSubPublication>) throws {
            let isRight = if case .success(let id) = call.outcome { id == "i-\(n)" } else { false }
            try WorldApp.ended(n, isRight ? "published" : "refused", in: call.step)
        }
    }

    /// Called for an item of the peer.
    struct Noticed: Handler {
        static let id = "world.noticed"
        func run(_ call: borrowing Call<PubSubEvent>) throws {
            guard case .items(let items) = call.change else { return }
            // A bad item may arrive without its content.
            for item in items where item.id != HostileStanzas.badID {
                try call.step.execute(
                    "INSERT INTO world_received(stanza, process) VALUES (?, ?)",
                    item.id.map { "\($0)" } ?? "",
                    WorldApp.process)
            }
        }
    }

    /// Passes the answer on to the handler that this one holds.
    struct Relay: Handler {
        static let id = "world.relay"
        var then: Durable<IQReply>
        func run(_ call: borrowing Call<IQReply>) throws { try call.step.run(then, with: call.context) }
    }

    struct Abandoned: Handler {
        static let id = "world.abandoned"
        var n: Int
        func run(_ call: borrowing Call<Invalidation>) throws {
            try WorldApp.ended(n, "invalidated", in: call.step)
        }
    }

    package struct Acknowledged: Handler {
        package static let id = "world.acknowledged"
        var n: Int
        package init(n: Int) { self.n = n }
        package func run(_ call: borrowing Call<StanzaAcknowledged>) throws {
            try WorldApp.ended(n, "acknowledged", in: call.step)
        }
    }

    struct TooEarly: Error {}

    /// A timer. Every other one succeeds only at its second call.
    struct Remind: Handler {
        static let id = "world.remind"
        static let retry = RetryPolicy(firstDelay: .milliseconds(5), factor: 1, deaths: .max)
        var n: Int
        func run(_ call: borrowing Call<TimerFired>) throws {
            WorldApp.report(.called(n: n))
            let due = try call.step.first("SELECT due FROM world_bound WHERE n = ?", n) {
                (row) throws(HandlerError) in row.timestamp(0)
            }
            let isEarly = call.attempt == 1 && due.map { call.step.now < $0 } ?? false
            try WorldApp.ended(n, isEarly ? "early" : "fired", in: call.step)
            // This error rolls back everything from this call.
            if n % 2 == 0 && call.attempt == 1 { throw TooEarly() }
        }
    }

    /// Binds the handler of a signal.
    struct Listen: Handler {
        static let id = "world.listen"
        static let retry = RetryPolicy(firstDelay: .milliseconds(5), factor: 1, deaths: .max)
        var n: Int
        func run(_ call: borrowing Call<TimerFired>) throws {
            try call.step.bind(Heard(n: n).durable, key: "k-\(n)", ifTaken: .refuse)
        }
    }

    /// Binds a handler to which nobody sends a signal.
    struct Wait: Handler {
        static let id = "world.wait"
        static let retry = Listen.retry
        var n: Int
        func run(_ call: borrowing Call<TimerFired>) throws {
            try call.step.bind(
                Heard(n: n).durable.orElse(Abandoned(n: n).durable), key: "k-\(n)", ifTaken: .refuse)
        }
    }

    /// Sends a signal.
    struct Speak: Handler {
        static let id = "world.speak"
        static let retry = Listen.retry
        var n: Int
        func run(_ call: borrowing Call<TimerFired>) throws { try call.step.signal("k-\(n)", n) }
    }

    /// Called by a signal. Every other one succeeds only at its second call.
    struct Heard: Handler {
        static let id = "world.heard"
        static let retry = Listen.retry
        var n: Int
        func run(_ call: borrowing Call<SignalReceived<Int>>) throws {
            try WorldApp.ended(n, call.value == n ? "heard" : "forged", in: call.step)
            // This error rolls back everything from this call.
            if n % 2 == 0 && call.attempt == 1 { throw TooEarly() }
        }
    }

    /// One of the handlers of a join.
    struct Part: Handler {
        static let id = "world.part"
        static let retry = Listen.retry
        var n: Int
        func run(_ call: borrowing Call<TimerFired>) throws { try call.setResult(n) }
    }

    /// Called when others have ended.
    struct Met: Handler {
        static let id = "world.met"
        static let retry = Listen.retry
        var n: Int
        func run(_ call: borrowing Call<Joined>) throws {
            let results = try call.children().map { $0.outcome == nil ? nil : try $0.result(as: Int.self) }
            let isRight = results.contains(n) && (n % 2 != 0 || results == [n, n])
            try WorldApp.ended(n, isRight ? "met" : "forged", in: call.step)
            // This error rolls back everything from this call.
            if n % 4 == 0 && call.attempt == 1 { throw TooEarly() }
        }
    }

    struct Job: RestorableContext, Codable { var n: Int }

    /// An async handler. It may run again after the death of its process, and ends once.
    struct Work: AsyncHandler {
        static let id = "world.work"
        static let retry = RetryPolicy(firstDelay: .milliseconds(5), factor: 1, deaths: .max)
        var n: Int
        func run(_ call: AsyncCall<Job>) async throws {
            try await WorldApp.running(n) {
                n % 3 == 0 ? try await WorldApp.sleep(.seconds(2)) : await WorldApp.pause()
            }
            try call.end { step in try WorldApp.ended(n, "worked", in: step) }
        }
    }

    /// Runs the body of an async handler, and reports its start and its end.
    static func running(_ n: Int, inLane: Bool = false, _ body: () async throws -> Void) async rethrows {
        lastRun += 1
        let run = lastRun
        WorldApp.report(.started(n: n, run: run, inLane: inLane))
        defer { WorldApp.report(.stopped(n: n, run: run)) }
        try await withTaskCancellationHandler {
            try await body()
        } onCancel: {
            WorldApp.report(.stopped(n: n, run: run))
        }
    }

    /// Lets other tasks run.
    static func pause() async {
        await withCheckedContinuation { continuation in Task { continuation.resume() } }
    }
}
