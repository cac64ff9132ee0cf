import CSQLite
import CPlatform
import Glibc
import Handlers
import Omemo
import PubSub
import XMPPAccount
import XMPPCore
import XMPPModules

/// Opens a store over and over, each time with one column altered, as bits that rotted or somebody's hand leave it.
///
///     omemo-device altered STORE PORT AUTHORITY
///
/// Each line of the input is an SQL script and how far to go: `open` ends after a step, `connect` (to a closed port, where PORT
/// is 0) goes on to the stream. Answers `begin` before each and `end …` after it, so that the reader knows what it died of.
struct AlteredStore {
    private let path: String
    private let template: [UInt8]
    private let port: UInt16
    private let authority: String?

    /// - Parameter authority: The authority of the server; nil where none listens.
    init(path: String, port: UInt16, authority: String?) throws {
        self.authority = authority
        self.path = path
        self.port = port
        Self.run("UPDATE place SET inode = \(dh_file_birth(path))", on: path)
        try Self.leaveTimers(in: path)
        guard let file = fopen(path, "r") else { throw Missing() }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 1 << 16)
        while case let count = fread(&part, 1, part.count, file), count > 0 { bytes += part[..<count] }
        template = bytes
    }

    struct Missing: Error {}

    /// Rows that are due at each visit.
    private static func leaveTimers(in path: String) throws {
        let store = try openStore(path)
        try store.step { step in
            _ = try step.schedule(Woken().durable, after: .zero)
            _ = try step.schedule(Woken().durable, after: .zero, every: .milliseconds(10))
            _ = try step.bind(Woken().durable, timeout: .zero)
        }
    }

    private static func openStore(_ path: String) throws -> HandlerStore {
        try HandlerStore(
            path: path, registry: HandlerRegistry([Heard.self, Sent.self, Woken.self]),
            schemas: Account.schemas + PubSubEvents.schemas + OmemoService.schemas + [OmemoDevice.tables],
            synchronous: .normal)
    }

    func run() async {
        while let line = readLine() {
            guard let space = line.firstIndex(of: " ") else { continue }
            OmemoDevice.say("begin")
            restore()
            Self.run(String(line[line.index(after: space)...]), on: path)
            let outcome = await visit(connects: line.hasPrefix("connect"))
            OmemoDevice.say("end \(outcome)")
        }
    }

    /// Another file each time, as the store of the visit before may still be closing; it is no copy to itself.
    private func restore() {
        for suffix in ["", "-wal", "-shm", "-processes", "-signal", "-owners", "-owner-0.sock"] {
            unlink(path + suffix)
        }
        // A store that is not the altered one shows nothing: the reader must see that this process is gone.
        guard let file = fopen(path, "w"),
            template.withUnsafeBytes({ fwrite($0.baseAddress, 1, $0.count, file) }) == template.count,
            fclose(file) == 0
        else { fatalError("\(path) cannot be written: error \(errno)") }
        Self.run("UPDATE place SET inode = \(dh_file_birth(path))", on: path)
    }

    private static func run(_ sql: String, on path: String) {
        var database: OpaquePointer?
        sqlite3_open(path, &database)
        sqlite3_exec(database, "PRAGMA ignore_check_constraints = ON", nil, nil, nil)
        sqlite3_exec(database, sql, nil, nil, nil)
        sqlite3_close(database)
    }

    private func visit(connects: Bool) async -> String {
        do {
            let store = try Self.openStore(path)
            var configuration = AccountConfiguration(
                jid: try JID("romeo@localhost"), password: "a password of its own",
                server: .init(host: "127.0.0.1", port: port, security: .directTLS))
            configuration.connectTimeout = .seconds(5)
            configuration.trust = authority.map { .file(path: $0) } ?? .system
            configuration.modules = .standard + [PubSubEvents(), OmemoModule()]
            let account = try Account(configuration, store: store)
            let outcome = await use(account, connects: connects)
            await account.close()
            return outcome
        } catch {
            return "refused: \(VisibleText("\(error)"))"
        }
    }

    private func use(_ account: Account, connects: Bool) async -> String {
        do {
            try await account.perform { step in
                _ = try step.schedule(Woken().durable, after: .milliseconds(1))
            }
            guard connects else { return "opened" }
            // Timers, retries and deadlines of rows that no account needs.
            _ = try await HandlerRunner(account.store).drain(for: .milliseconds(250))
            try await account.connect()
            // What is sent and what arrives: the message comes back from the server.
            try await account.send(Message(to: account.configuration.jid, body: "to myself"))
            try await account.caughtUp()
            return "connected"
        } catch {
            return "failed: \(VisibleText("\(error)"))"
        }
    }
}
