// Many accounts of ours in one process, and what they cost.
//
//     account-host FOLDER PORT CA COUNT one|many
//
// The accounts are u0, u1 and so on at localhost, in one file or in one for each. Lines on standard input:
//
//     connect     connects all, and says `connected` when each has a stream
//     again       says `connected` when each has a stream again, after they broke
//     expect N    says `stored LATENCY` when N more messages are stored: the 99th percentile in microseconds, without those of u0
//     timers N    lets a timer of each of the first N accounts fire at once, and says `fired` when all have
//     cost        says `cost THREADS DESCRIPTORS MEMORY TIME`: kilobytes, and milliseconds of the processor
//
// What it says ends with the monotonic clock in nanoseconds. A message has the clock of its sender as its text.

import FoundationEssentials
import Glibc
import Handlers
import Synchronization
import XMPPAccount
import XMPPCore
import XMPPModules

@Sendable func monotonic() -> Int64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
}

@Sendable func say(_ words: String) {
    let line = Array("\(words) \(monotonic())\n".utf8)
    _ = write(STDOUT_FILENO, line, line.count)
}

/// Counts to a number, and says so.
final class Counter: Sendable {
    private let state = Mutex((left: 0, word: "", latencies: [Int64]()))

    func expect(_ count: Int, _ word: String) { state.withLock { $0 = (count, word, []) } }

    func count(latency: Int64? = nil) {
        let done = state.withLock { state -> (String, [Int64])? in
            state.left -= 1
            if let latency { state.latencies.append(latency) }
            return state.left == 0 ? (state.word, state.latencies) : nil
        }
        guard let (word, latencies) = done else { return }
        let sorted = latencies.sorted()
        say(sorted.isEmpty ? word : "\(word) \(sorted[sorted.count * 99 / 100] / 1000)")
    }
}

let streams = Counter()
let messages = Counter()
let timers = Counter()

struct Store: Handler {
    static let id = "host.store"
    func run(_ call: borrowing Call<MessageReceived>) throws {
        let text = call.message.body?.string ?? ""
        try call.step.execute("INSERT INTO message(account, text) VALUES (?, ?)", call.account.id, text)
        let isFirst = call.account.configuration.jid.local?.string == "u0"
        call.step.afterCommit {
            messages.count(latency: isFirst ? nil : Int64(text).map { monotonic() - $0 })
        }
    }
}

struct Fire: Handler {
    static let id = "host.fire"
    func run(_ call: borrowing Call<TimerFired>) throws { call.step.afterCommit { timers.count() } }
}

let words = CommandLine.arguments
guard words.count == 6, let port = UInt16(words[2]), let count = Int(words[4]) else { exit(2) }
let schema = Schema(
    module: "host",
    migrations: [
        "CREATE TABLE message(row INTEGER PRIMARY KEY, account INTEGER NOT NULL, text TEXT NOT NULL)"
    ])
func openStore(_ name: String) throws -> HandlerStore {
    try HandlerStore(
        path: "\(words[1])/\(name).db", registry: HandlerRegistry([Store.self, Fire.self]),
        schemas: Account.schemas + [schema], synchronous: .full)
}
let host = try AccountHost()
let shared = words[5] == "one" ? try openStore("all") : nil
var accounts: [Account] = []
for number in 0..<count {
    var configuration = AccountConfiguration(
        jid: try JID("u\(number)@localhost"), password: "secret",
        server: .init(host: "127.0.0.1", port: port, security: .directTLS))
    configuration.trust = .file(path: words[3])
    configuration.onMilestone = { if [.bound, .resumed].contains($0) { streams.count() } }
    let account = try host.add(configuration, store: try shared ?? openStore("u\(number)"))
    accounts.append(account)
}
for account in accounts { try await account.listen(as: "host", Store().durable) }
say("ready")
while let line = readLine() {
    let parts = line.split(separator: " ")
    switch parts.first {
    case "connect":
        streams.expect(count, "connected")
        for account in accounts { host.connect(account) }
    case "again": streams.expect(count, "connected")
    case "expect": messages.expect(Int(parts[1]) ?? 0, "stored")
    case "timers":
        let first = accounts.prefix(Int(parts[1]) ?? 0)
        timers.expect(first.count, "fired")
        if let shared {
            try shared.step { step in
                for account in first {
                    _ = try step.schedule(Fire().durable, after: .zero, in: account.scope)
                }
            }
        } else {
            for account in first {
                try account.store.step {
                    _ = try $0.schedule(Fire().durable, after: .zero, in: account.scope)
                }
            }
        }
    default: say("cost \(Cost())")
    }
}
_exit(0)

/// What the process costs.
struct Cost: CustomStringConvertible {
    var description: String {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        let time = [usage.ru_utime, usage.ru_stime].reduce(0) {
            $0 + $1.tv_sec * 1000 + Int($1.tv_usec) / 1000
        }
        let pages =
            (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ")
            .dropFirst()
            .first.flatMap { Int($0) } ?? 0
        return "\(entries("task")) \(entries("fd")) \(pages * 4) \(time)"
    }

    private func entries(_ folder: String) -> Int {
        (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/" + folder))?.count ?? 0
    }
}
