import Glibc
import Handlers
import HandlersPostgres
import XMPPAccount
import XMPPCore

/// A machine of the fleet: a process that shares the accounts with the others. Its store is known to its handlers.
enum Machine {
    nonisolated(unsafe) static var store: HandlerStore?
    nonisolated(unsafe) static var host: AccountHost?
    /// Accounts for which each machine also sends while another one has their streams: the first ones of all.
    nonisolated(unsafe) static var outside: [JID: Account] = [:]
    static let outsideCount = 100

    static let schema = Schema(
        module: "fleet",
        migrations: [
            """
            -- No unique keys: what is done twice leaves two rows.
            CREATE TABLE handled(row INTEGER PRIMARY KEY, name TEXT NOT NULL, node INTEGER NOT NULL, at INTEGER NOT NULL);
            CREATE TABLE finished(row INTEGER PRIMARY KEY, name TEXT NOT NULL, node INTEGER NOT NULL, at INTEGER NOT NULL);
            -- The numbers that the store of each machine has had, as it lives on as another node after it was taken for dead.
            CREATE TABLE machine(node INTEGER PRIMARY KEY, name TEXT NOT NULL, at INTEGER NOT NULL);
            """
        ])

    /// Answers a message, and for each fifth one stores a handler that finishes it later, on any machine.
    struct Answer: Handler {
        static let id = "fleet.answer"

        func run(_ call: borrowing Call<MessageReceived>) throws {
            guard let name = call.message.id?.string, let from = call.message.from else { return }
            try call.step.write(
                "INSERT INTO handled(name, node, at) VALUES (?, ?, ?)", name,
                Machine.store?.slotNumber ?? 0, call.step.now)
            _ = try call.account.send(Message(to: from, id: "re-\(name)", body: "done"), in: call.step)
            if name.hasSuffix("0") || name.hasSuffix("5") {
                let finish = Finish(name: name, account: call.account.configuration.jid.description)
                _ = try call.step.schedule(finish.durable, after: .milliseconds(100))
            }
        }
    }

    /// Sends a second answer for some accounts, whichever machine has their streams.
    struct Finish: Handler {
        static let id = "fleet.finish"
        var name: String
        var account: String

        func run(_ call: borrowing Call<TimerFired>) throws {
            try call.step.write(
                "INSERT INTO finished(name, node, at) VALUES (?, ?, ?)", name,
                Machine.store?.slotNumber ?? 0, call.step.now)
            let jid = try JID(account)
            guard let outside = Machine.outside[jid] else { return }
            let peer = try JID("peer@localhost/bot")
            _ = try (Machine.host?.account(jid) ?? outside).send(
                Message(to: peer, id: "fin-\(name)", body: "finished"), in: call.step)
        }
    }

    /// - Parameter arguments: Its name, the connection string, host and port of the XMPP server, the file of its authority, the number
    ///   of accounts.
    static func run(_ arguments: [String]) async throws {
        // Until there is a network.
        print("started")
        fflush(nil)
        _ = readLine()
        let store = try HandlerStore(
            postgres: arguments[1], registry: HandlerRegistry([Answer.self, Finish.self]),
            schemas: Account.coreSchemas + [schema],
            log: HandlerLog { entry in if entry.level >= .warning { complain(entry.message) } })
        Machine.store = store
        let configurations = try (0..<(Int(arguments[5]) ?? 0)).map { number in
            var configuration = AccountConfiguration(
                jid: try JID("u\(number)@localhost"), password: "secret",
                server: .init(host: arguments[2], port: UInt16(arguments[3]) ?? 0, security: .directTLS))
            configuration.trust = .file(path: arguments[4])
            return configuration
        }
        for configuration in configurations.prefix(outsideCount) {
            outside[configuration.jid] = try Account(configuration, store: store)
        }
        let host = try AccountHost()
        Machine.host = host
        let share = host.share(configurations, in: store) { account in
            try await account.listen(as: "fleet", Answer().durable)
        } failed: { jid, error in
            complain("\(jid?.description ?? "the store"): \(error)")
        }
        let failures = Task { for await failure in host.failures { complain("\(failure.error)") } }
        let runner = try HandlerRunner(store)
        try runner.start()
        print("ready")
        fflush(nil)
        // Until the end of the fleet; reading would hold up flushes.
        var known = 0
        while true {
            let node = store.slotNumber
            if node != known {
                do {
                    try store.step { step in
                        try step.write(
                            "INSERT INTO machine(node, name, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                            node,
                            arguments[0], step.now)
                    }
                    known = node
                } catch {
                    complain("\(error)")
                }
            }
            try await Task.sleep(for: .milliseconds(200))
        }
        withExtendedLifetime((share, failures, runner)) {}
    }
}

/// Writes a line to the standard error.
func complain(_ text: String) { _ = (text + "\n").withCString { write(STDERR_FILENO, $0, strlen($0)) } }
