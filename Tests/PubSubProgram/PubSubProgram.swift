// A program that does one long thing with PubSub, to be killed at any moment and started again.
//
//     pubsub-program STORE JID PASSWORD HOST PORT AUTHORITY SERVICE NODE TASK
//
// SERVICE is a PubSub service, or "own" for the account's own nodes. TASK is "configure" to publish an item that requires
// the node to be open, or "pages" to read all items, 50 at a time; "pages-deadly" also kills this process once after each
// page. The task is started once, by whichever process comes first. Prints "done" and ends once it is over.

import Glibc
import Handlers
import PubSub
import XMPPAccount
import XMPPCore
import XMPPModules

/// Notes how publishing ended.
struct Published: Handler {
    static let id = "program.published"
    func run(_ call: borrowing Call<PubSubPublication>) throws {
        let outcome =
            switch call.outcome {
            case .success(let id): "published \(id ?? "-")"
            case .notFound: "not found"
            case .error(let error) where error.condition == .preconditionNotMet: "precondition not met"
            case .error(let error): "error: \(error)"
            case .timedOut: "timed out"
            }
        try call.step.execute("INSERT INTO heard(text) VALUES (?)", outcome)
        try call.step.execute("UPDATE progress SET is_over = 1")
    }
}

/// Notes the items of a page and asks for the next one.
struct Paged: Handler {
    static let id = "program.paged"
    var isDeadly: Bool

    func run(_ call: borrowing Call<PubSubAnswer<PubSubPage>>) throws {
        guard case .success(let page) = call.outcome else {
            try call.step.execute("INSERT INTO heard(text) VALUES (?)", "\(call.outcome)")
            try call.step.execute("UPDATE progress SET is_over = 1")
            return
        }
        for item in page.items {
            try call.step.execute("INSERT INTO heard(text) VALUES (?)", item.id ?? "-")
        }
        if isDeadly { call.step.afterCommit { kill(getpid(), SIGKILL) } }
        if let next = page.next {
            try call.account.send(
                .pubsub(next, at: call.service), then: Paged(isDeadly: isDeadly).durable,
                orElse: Abandoned().durable, in: call.step)
        } else {
            try call.step.execute("UPDATE progress SET is_over = 1")
        }
    }
}

/// Notes that no answer can come any more.
struct Abandoned: Handler {
    static let id = "program.abandoned"
    func run(_ call: borrowing Call<Invalidation>) throws {
        try call.step.execute("INSERT INTO heard(text) VALUES (?)", "abandoned: \(call.reason)")
        try call.step.execute("UPDATE progress SET is_over = 1")
    }
}

@main
enum PubSubProgram {
    static let tables = Schema(
        module: "program",
        migrations: [
            """
            CREATE TABLE heard(row INTEGER PRIMARY KEY, text TEXT NOT NULL);
            CREATE TABLE progress(is_started INTEGER NOT NULL, is_over INTEGER NOT NULL);
            INSERT INTO progress VALUES (0, 0);
            """
        ])

    static func main() async throws {
        let words = CommandLine.arguments
        guard words.count == 10, let port = UInt16(words[5]) else { exit(64) }
        var configuration = AccountConfiguration(
            jid: try JID(words[2]), password: words[3],
            server: .init(host: words[4], port: port, security: .startTLS))
        configuration.trust = .file(path: words[6])
        let store = try HandlerStore(
            path: words[1],
            registry: HandlerRegistry(
                PubSubService.handlers + [Published.self, Paged.self, Abandoned.self]),
            schemas: Account.schemas + [tables])
        let account = try Account(configuration, store: store)
        let service = words[7] == "own" ? nil : try JID(words[7])
        try await account.connect()
        try await start(words[9], on: words[8], at: service, account)
        while try await !isOver(account) { try await Task.sleep(for: .milliseconds(10)) }
        // Written at once: the process may be killed the next moment.
        let line = Array("done\n".utf8)
        _ = write(1, line, line.count)
    }

    private static func start(
        _ task: String, on node: String, at service: JID?, _ account: Account
    ) async throws {
        try await account.perform { step in
            let isStarted = try step.first("SELECT is_started FROM progress") { (row) throws(HandlerError) in
                row.integer(0)
            }
            guard isStarted == 0 else { return }
            try step.execute("UPDATE progress SET is_started = 1")
            let abandoned = try Abandoned().durable
            if task == "configure" {
                let note = Element("note", namespace: "urn:durable-handlers:test", text: "new")
                try account.send(
                    .pubsub(
                        .publish(
                            PubSubItem(id: "new", payload: note), on: node, requiring: [.accessModel(.open)],
                            configuring: true), at: service), then: Published().durable, orElse: abandoned,
                    in: step)
            } else {
                let paged = try Paged(isDeadly: task == "pages-deadly").durable
                try account.send(
                    .pubsub(.page(of: node, limit: 50), at: service), then: paged, orElse: abandoned, in: step
                )
            }
        }
    }

    private static func isOver(_ account: Account) async throws -> Bool {
        try await account.perform { step in
            try step.first("SELECT is_over FROM progress") { (row) throws(HandlerError) in row.integer(0) }
                == 1
        }
    }
}
