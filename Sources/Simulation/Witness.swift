import Platform
package import Handlers

/// Records in the store which process commits during which owner's epoch, so that the simulation finds commits of a former owner.
///
/// Only this process's connection has the triggers. They run in the transaction that stores received stanzas or acks. The stored
/// epoch is the current owner's, regardless of the process that commits.
package enum Witness {
    /// The environment variable that makes main and worker install the triggers.
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

    /// Returns the number of processes that committed during another owner's epoch, counted once for each epoch.
    static func staleCommits(in step: borrowing Step) throws(HandlerError) -> Int {
        try step.first(
            """
            SELECT count(*) FROM sim_owner AS wrote WHERE NOT took AND NOT EXISTS
                (SELECT 1 FROM sim_owner WHERE epoch = wrote.epoch AND process = wrote.process AND took)
            """
        ) { Int($0.integer(0)) } ?? 0
    }
}
