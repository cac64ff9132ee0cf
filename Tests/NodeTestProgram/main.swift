// A program with a store on PostgreSQL, for tests that stop it and kill it.
//
//     NodeTestProgram CONNECTION hold      stays in a step that writes a note, until a line comes, and says in which run it was stored
//     NodeTestProgram CONNECTION wait      runs an async handler that says when it begins and when it is canceled
//     NodeTestProgram CONNECTION deadly    calls a handler that kills the process, which the first one stores
//     NodeTestProgram CONNECTION count     counts in steps, which wait for a standby, until the end of the standard input; says how long one
//                                          took, and fails when a number is missing or there twice
//     NodeTestProgram CONNECTION account JID PASSWORD PORT AUTHORITY
//                                          keeps an account connected, and says when it is given up
//     NodeTestProgram CONNECTION share COUNT PASSWORD PORT AUTHORITY
//                                          shares the accounts u0, u1, …

import Foundation
import Glibc
import Handlers
import HandlersPostgres
import Synchronization
import XMPPAccount
import XMPPCore

/// Not by print: flushing would wait for the thread that reads the standard input.
func say(_ word: String) { _ = (word + "\n").withCString { write(STDOUT_FILENO, $0, strlen($0)) } }

/// Waits until it is canceled.
struct Wait: AsyncHandler {
    static let id = "node.wait"

    func run(_ call: AsyncCall<TimerFired>) async throws {
        say("begun")
        while !Task.isCancelled { try? await Task.sleep(for: .milliseconds(5)) }
        say("canceled")
    }
}

/// Kills its process.
struct Kills: Handler {
    static let id = "node.kills"
    static let retry = RetryPolicy(deaths: 2)

    func run(_ call: borrowing Call<TimerFired>) throws {
        kill(getpid(), SIGKILL)
        while true { pause() }
    }
}

/// Notes every message.
struct Received: Handler {
    static let id = "test.received"

    func run(_ call: borrowing Call<MessageReceived>) throws {
        try call.step.write(
            "INSERT INTO note(what, name, value) VALUES ('message', ?, ?)", call.message.id ?? "-",
            call.message.body ?? "")
    }
}

/// Keeps an account connected until the end of the standard input.
func keepAccount(_ store: HandlerStore, _ arguments: [String]) async throws {
    var configuration = AccountConfiguration(
        jid: try JID(arguments[0]), password: arguments[1],
        server: .init(host: "127.0.0.1", port: UInt16(arguments[2]) ?? 0, security: .directTLS))
    configuration.trust = .file(path: arguments[3])
    let account = try Account(configuration, store: store)
    let events = Task {
        for await event in account.events { if case .stopped = event { say("stopped") } }
    }
    try await account.connect()
    say("connected")
    while readLine() != nil {}
    await account.close()
    events.cancel()
}

/// Shares the accounts u0, u1, … until the end of the standard input.
func shareAccounts(_ store: HandlerStore, _ arguments: [String]) async throws {
    let configurations = try (0..<(Int(arguments[0]) ?? 0)).map { number in
        var configuration = AccountConfiguration(
            jid: try JID("u\(number)@localhost"), password: arguments[1],
            server: .init(host: "127.0.0.1", port: UInt16(arguments[2]) ?? 0, security: .directTLS))
        configuration.trust = .file(path: arguments[3])
        return configuration
    }
    let host = try AccountHost()
    let share = host.share(configurations, in: store) { _ in
    } failed: { jid, error in
        say("\(jid?.description ?? "the store"): \(error)")
    }
    while readLine() != nil {}
    await share.close()
    await host.close()
}

/// Counts in steps until the end of the standard input.
func count(_ connection: String) throws -> Bool {
    let schema = Schema(module: "count", migrations: ["CREATE TABLE counted(n INTEGER NOT NULL)"])
    let store = try HandlerStore(postgres: connection, registry: HandlerRegistry(), schemas: [schema])
    let isOver = Atomic<Bool>(false)
    let input = Thread {
        while readLine() != nil {}
        isOver.store(true, ordering: .relaxed)
    }
    input.start()
    say("counting")
    var (number, longest) = (0, Duration.zero)
    while !isOver.load(ordering: .relaxed) {
        number += 1
        let start = ContinuousClock.now
        try store.step { try $0.write("INSERT INTO counted VALUES (?)", number) }
        longest = max(longest, start.duration(to: .now))
        usleep(5000)
    }
    let isWhole = try store.read { snapshot in
        try snapshot.all("SELECT n FROM counted ORDER BY n") { Int($0.integer(0)) } == Array(1...number)
    }
    say(
        "\(number) steps, the longest took \(longest); \(isWhole ? "each is stored once" : "NOT each is stored once")"
    )
    return isWhole
}

let arguments = CommandLine.arguments
if arguments.count == 3, arguments[2] == "count" { exit(try count(arguments[1]) ? 0 : 1) }
guard arguments.count >= 3 else {
    fatalError("usage: NodeTestProgram CONNECTION hold|wait|deadly|count|account|share ARGUMENTS")
}
let store = try HandlerStore(
    postgres: arguments[1], registry: HandlerRegistry([Wait.self, Kills.self, Received.self]),
    schemas: ["account", "share"].contains(arguments[2]) ? Account.coreSchemas : [], durability: .onPrimary)
switch arguments[2] {
case "hold":
    // Touched by the thread of the step alone.
    nonisolated(unsafe) var runs = 0
    try store.step { step in
        runs += 1
        try step.execute("INSERT INTO note(text) VALUES ('held')")
        if runs > 1 { return }
        say("inside")
        _ = readLine()
    }
    say("stored in run \(runs)")
case "wait":
    let runner = try HandlerRunner(store)
    try runner.start()
    try store.step { _ = try $0.schedule(Wait().durable, after: .zero) }
    while readLine() != nil {}
    runner.close()
case "deadly":
    try store.step { step in
        let isThere = try step.first("SELECT 1 FROM handler") { _ in true } ?? false
        if !isThere { _ = try step.schedule(Kills().durable, after: .zero) }
    }
    let runner = try HandlerRunner(store)
    try runner.runDue()
    runner.close()
case "share": try await shareAccounts(store, Array(arguments.dropFirst(3)))
default: try await keepAccount(store, Array(arguments.dropFirst(3)))
}
