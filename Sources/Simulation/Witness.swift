import Platform
package import Handlers

/// Writes down in the store which process commits in the time of which owner, so that the simulation can tell a commit of a
/// process that was passed over.
///
/// A trigger that only this process's connection has, in the transaction that stores what arrived or what the server
/// acknowledged. The stored epoch is the owner's, regardless of the process that commits.
package enum Witness {
    /// Asks main and worker to do that.
    static let variable = "PUSHWAKE_WITNESS"

    package static func isWanted() -> Bool { ThisProcess.environment(variable) != nil }

    package static func install(in store: HandlerStore) throws {
        let epoch = "(SELECT max(epoch) FROM main.ownership)"
        try store.step { step in
            try step.execute(
                """
                CREATE TEMP TRIGGER IF NOT EXISTS witness_took AFTER UPDATE OF epoch ON main.ownership BEGIN
                    INSERT OR IGNORE INTO sim_owner(epoch, process, took) VALUES (NEW.epoch, \(ThisProcess.id), 1);
                END
                """)
            try step.execute(
                """
                CREATE TEMP TRIGGER IF NOT EXISTS witness_first AFTER INSERT ON main.ownership BEGIN
                    INSERT OR IGNORE INTO sim_owner(epoch, process, took) VALUES (NEW.epoch, \(ThisProcess.id), 1);
                END
                """)
            try step.execute(
                """
                CREATE TEMP TRIGGER IF NOT EXISTS witness_wrote AFTER UPDATE OF received, acknowledged ON main.session BEGIN
                    INSERT OR IGNORE INTO sim_owner(epoch, process, took) VALUES (\(epoch), \(ThisProcess.id), 0);
                END
                """)
        }
    }

    /// Returns the number of processes that have committed in the time of another owner, counted once for each such time.
    static func staleCommits(in step: borrowing Step) throws(HandlerError) -> Int {
        try step.first(
            """
            SELECT count(*) FROM sim_owner AS wrote WHERE NOT took AND NOT EXISTS
                (SELECT 1 FROM sim_owner WHERE epoch = wrote.epoch AND process = wrote.process AND took)
            """
        ) { (row) throws(HandlerError) in Int(row.integer(0)) } ?? 0
    }
}
