// A client of ours whose stream is measured: it asks, or it listens, and says how long that took.
//
//     stream-client STORE JID PASSWORD PORT CA ping COUNT WINDOW
//     stream-client STORE JID PASSWORD PORT CA listen COUNT
//     stream-client STORE JID PASSWORD PORT CA catch-up COUNT
//     stream-client STORE JID PASSWORD PORT CA idle 0    prints "ready" once it has caught up, and does nothing more
//     stream-client nothing                              the same without an account
//
// Each request is committed with its handler before it is sent, and each ending with what the handler did; each message is
// stored exactly once. Every commit waits for the disk.

import Glibc
import Handlers
import Synchronization
import XMPPAccount
import XMPPCore
import XMPPModules

/// Counts an answer and asks again.
struct Pinged: Handler {
    static let id = "bench.pinged"
    /// How many more of this chain are to be asked.
    var left: Int

    func run(_ call: borrowing Call<IQReply>) throws {
        try call.step.execute("UPDATE tally SET answers = answers + 1 WHERE id = 1")
        guard left > 0 else {
            let chains = try call.step.first(
                "UPDATE tally SET chains = chains - 1 WHERE id = 1 RETURNING chains"
            ) { (row) throws(HandlerError) in row.integer(0) }
            if chains == 0 { call.step.afterCommit { Progress.shared.finish() } }
            return
        }
        try Self.ask(call.account, left: left - 1, in: call.step)
    }

    static func ask(_ account: Account, left: Int, in step: borrowing Step) throws {
        let ping = Element("ping", namespace: "urn:xmpp:ping")
        let iq = IQ(type: .get, to: account.configuration.jid.domainJID, id: StanzaID.random(), payload: ping)
        try account.send(.iq(iq), then: Durable(Pinged(left: left)), in: step)
    }
}

/// Stores a message.
struct Stored: Handler {
    static let id = "bench.stored"

    func run(_ call: borrowing Call<MessageReceived>) throws {
        let body = call.message.body ?? ""
        try call.step.execute(
            "INSERT INTO message(peer, body) VALUES (?, ?)", call.message.from?.description, body)
        let sent = Int64(body.string.prefix { $0 != " " }) ?? 0
        call.step.afterCommit { Progress.shared.note(sent) }
    }
}

/// What came so far; the account's thread tells it, the main program waits.
final class Progress: Sendable {
    static let shared = Progress()

    private struct State {
        var waits: [Int64] = []
        var expected = Int.max
        var waiting: CheckedContinuation<Void, Never>?
    }

    private let state = Mutex(State())

    /// Nanoseconds of the clock that all processes of a machine share.
    static var now: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }

    func expect(_ count: Int) { state.withLock { $0.expected = count } }

    func note(_ sent: Int64) {
        let isDone = state.withLock { state in
            state.waits.append(Self.now - sent)
            return state.waits.count == state.expected
        }
        if isDone { finish() }
    }

    func finish() { state.withLock { $0.waiting.take() }?.resume() }

    func wait(_ begin: () async throws -> Void) async rethrows {
        try await begin()
        await withCheckedContinuation { continuation in state.withLock { $0.waiting = continuation } }
    }

    /// The time in milliseconds that a share of the messages did not exceed.
    func percentile(_ share: Double) -> Double {
        let waits = state.withLock { $0.waits }.sorted()
        guard !waits.isEmpty else { return 0 }
        return Double(waits[min(waits.count - 1, Int(Double(waits.count) * share))]) / 1e6
    }
}

let words = CommandLine.arguments
if words.dropFirst() == ["nothing"] {
    // With this, what runs tasks has started.
    await Task.detached { say("ready") }.value
    await Progress.shared.wait {}
}
guard words.count >= 8, let port = UInt16(words[4]), let count = Int(words[7]) else { exit(2) }
let tables = Schema(
    module: "bench",
    migrations: [
        """
        CREATE TABLE tally(id INTEGER PRIMARY KEY, answers INTEGER NOT NULL, chains INTEGER NOT NULL);
        CREATE TABLE message(row INTEGER PRIMARY KEY, peer TEXT, body TEXT NOT NULL);
        """
    ], handlers: [Pinged.self, Stored.self])
let store = try HandlerStore(path: words[1], registry: HandlerRegistry(), schemas: Account.schemas + [tables])
var configuration = AccountConfiguration(
    jid: try JID(words[2]), password: words[3],
    server: .init(host: "127.0.0.1", port: port, security: .directTLS))
configuration.trust = .file(path: words[5])
switch words[6] {
case "catch-up": configuration.modules = [ArchiveModule(history: nil)]
case "idle": configuration.modules = .standard
default: break
}
let account = try Account(configuration, store: store)

/// At once: a reader waits for it.
func say(_ line: String) {
    let line = line + "\n"
    _ = line.withCString { write(STDOUT_FILENO, $0, line.utf8.count) }
}

func report(_ start: Int64, _ count: Int) {
    let seconds = Double(Progress.now - start) / 1e9
    say(
        "rate \(Double(count) / seconds) p50 \(Progress.shared.percentile(0.5)) p99 \(Progress.shared.percentile(0.99))"
    )
}

switch words[6] {
case "ping":
    guard words.count == 9, let window = Int(words[8]) else { exit(2) }
    try await account.connect()
    try await account.caughtUp()
    let start = Progress.now
    try await Progress.shared.wait {
        try await account.perform { step in
            try step.execute("INSERT INTO tally VALUES (1, 0, ?)", window)
            for _ in 0..<window { try Pinged.ask(account, left: count / window - 1, in: step) }
        }
    }
    report(start, count / window * window)
case "listen":
    Progress.shared.expect(count)
    try await account.listen(as: "bench", Durable(Stored()))
    try await account.connect()
    try await account.caughtUp()
    say("ready")
    let start = Progress.now
    await Progress.shared.wait {}
    report(start, count)
case "catch-up":
    Progress.shared.expect(count)
    try await account.listen(as: "bench", Durable(Stored()))
    let start = Progress.now
    try await Progress.shared.wait { try await account.connect() }
    report(start, count)
case "idle":
    try await account.connect()
    try await account.caughtUp()
    say("ready")
    // Until it is killed.
    await Progress.shared.wait {}
default: exit(2)
}
_exit(0)
