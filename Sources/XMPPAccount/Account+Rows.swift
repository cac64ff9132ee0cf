import Handlers
import XMPPCore

// The rows of an account, which are made with its first object.
extension Account {
    /// The id and the assigned address of an account of which nothing is to be written: it needs no step, for which machines wait for
    /// each other.
    static func known(
        _ configuration: AccountConfiguration, _ modules: ModuleList, _ places: any OwnerPlaces,
        _ store: HandlerStore
    ) throws -> (Int64, JID?)? {
        try store.peek { snapshot in
            guard try snapshot.hasTable("account"), try snapshot.hasTable("module") else { return nil }
            let account = try snapshot.first(
                """
                SELECT id, copies, (SELECT copies FROM place), (SELECT full_jid FROM session WHERE account = account.id)
                FROM account WHERE jid = ?
                """, configuration.jid.description
            ) { (id: $0.integer(0), isOfThisCopy: $0.integer(1) == $0.integer(2), jid: $0.optionalText(3)) }
            guard let account, account.isOfThisCopy, places.sent(account: account.id, store) == nil,
                try modules.isRecorded(account: account.id, in: snapshot)
            else { return nil }
            return (account.id, account.jid.flatMap { try? JID(received: $0).bare })
        }
    }

    /// The id of an account, which gets its rows when it is new.
    static func findOrMake(_ jid: String, in step: borrowing Step) throws(HandlerError) -> Int64 {
        let known = try step.first("SELECT id FROM account WHERE jid = ?", jid) { $0.integer(0) }
        if let known { return known }
        let id =
            try step.first("INSERT INTO account(jid) VALUES (?) RETURNING id", jid) {
                $0.integer(0)
            } ?? 0
        try SessionTable(account: id).create(in: step)
        return id
    }

    /// A store that was opened without ``schemas`` would fail with a sentence about SQL.
    static func checkTables(in step: borrowing Step) throws {
        guard try ["account", "request", "login", "module"].allSatisfy({ try step.hasTable($0) }) else {
            throw AccountError(
                .invalidConfiguration,
                "the store has no tables for accounts; open it with schemas: Account.schemas")
        }
    }
}
