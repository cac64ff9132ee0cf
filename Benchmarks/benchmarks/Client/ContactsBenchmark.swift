import FoundationEssentials
import Glibc
import Handlers
import TestServers
import XMPPAccount
import XMPPCore
import XMPPModules
import XMPPTestKit

/// How soon a program shows its contacts while another process is frozen inside a step.
///
/// The first list opens the connection that reads; the later ones have it.
struct ContactsBenchmark: Benchmark {
    private static let contacts = 250
    private static let rounds = 21
    private static let later = 20
    /// What a person does not notice, in milliseconds.
    private static let limit = 5.0

    let names = ["client/contacts-first", "client/contacts"]

    func run(in workspace: Workspace) throws -> [Line] {
        var times: (first: [Double], later: [Double]) = ([], [])
        let path = workspace.file("contacts.db")
        try Self.fill(try Self.account(path))
        for _ in 0..<Self.rounds {
            let account = try Self.account(path)
            let program = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
            let writer = try FrozenProcess(program, ["hold", path], saying: "holding")
            defer { writer.kill() }
            times.first.append(try Self.list(account))
            for _ in 0..<Self.later { times.later.append(try Self.list(account)) }
            guard writer.isStopped else { throw BenchmarkError("the writer went on") }
        }
        return zip(names, [times.first, times.later]).map { name, times in
            Line(
                name, unit: "ms", better: .less, ours: times.median, reference: Self.limit,
                referenceName: "limit", goal: 1)
        }
    }

    /// Stays inside a step until standard input ends.
    static func hold(_ path: String) throws {
        try HandlerStore(path: path, registry: HandlerRegistry(), schemas: Account.schemas).step { step in
            try step.execute("UPDATE roster_item SET name = 'unseen'")
            print("holding")
            fflush(nil)
            while readLine() != nil {}
        }
    }

    private static func account(_ path: String) throws -> Account {
        let store = try HandlerStore(path: path, registry: HandlerRegistry(), schemas: Account.schemas)
        var configuration = try AccountConfiguration(
            jid: JID("alice@localhost"), password: "none", server: nil)
        configuration.modules = [RosterModule()]
        return try Account(configuration, store: store)
    }

    private static func fill(_ account: Account) throws {
        try account.store.step { step in
            for number in 0..<contacts {
                try step.execute(
                    """
                    INSERT INTO roster_item(account, jid, name, subscription, ask, approved, groups)
                    VALUES (?, ?, ?, 'both', 0, 0, '["Friends"]')
                    """, account.id, "contact\(number)@localhost", "Contact \(number)")
            }
        }
    }

    /// Milliseconds that a list takes.
    private static func list(_ account: Account) throws -> Double {
        let begin = ServerTime.monotonicNanoseconds
        let items = try account.store.read { try account.roster.items(in: $0) }
        let time = Double(ServerTime.monotonicNanoseconds - begin) / 1_000_000
        guard items.count == contacts, items.allSatisfy({ $0.name != "unseen" }) else {
            throw BenchmarkError("the list holds \(items.count) contacts")
        }
        return time
    }
}
