import Handlers

/// The lock of steps: of all machines, one step at a time has it until its transaction ends.
///
/// It is the lock of a table. An advisory lock costs the same, but has no privileges: any role that may connect could take it, and stop
/// all machines.
enum StepLock {
    /// The table. Its row is the channel on which nodes notify each other: a name that others cannot guess, so that nobody else wakes them.
    static let table = "CREATE TABLE IF NOT EXISTS step_lock(channel TEXT NOT NULL)"

    /// Gives the table its row.
    static let fillTable = """
        INSERT INTO step_lock(channel)
        SELECT pg_catalog.concat('durable_handlers_'::text, pg_catalog.replace(
            pg_catalog.gen_random_uuid()::text, '-'::text, ''::text))
        WHERE NOT EXISTS (SELECT 1 FROM step_lock)
        """

    /// Takes the lock. The mode is the weakest that excludes itself, so it is in nobody's way; it needs the right to change the table.
    ///
    /// What follows sees what the one has committed for which it waits: each statement does, in the isolation level READ COMMITTED.
    static let take = "LOCK TABLE step_lock IN SHARE UPDATE EXCLUSIVE MODE"

    /// Reads the channel.
    static let channel = "SELECT channel FROM step_lock"

    /// The process of the server that holds the lock of steps, with its connection, and how many wait for it. It is a table like others:
    /// somebody with the right to may also lock it in a stronger mode.
    private static let holderQuery = """
        SELECT l.pid, a.application_name, pg_catalog.host(a.client_addr), (
            SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks AS w
            WHERE NOT w.granted AND w.locktype = l.locktype AND w.database = l.database AND w.relation = l.relation)
        FROM pg_catalog.pg_locks AS l LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid
        WHERE l.granted AND l.locktype = 'relation'::text
            AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database())
            AND l.relation = pg_catalog.to_regclass('step_lock'::text)::oid
            AND l.mode <> 'AccessShareLock'::text AND l.mode <> 'RowShareLock'::text
            AND l.mode <> 'RowExclusiveLock'::text
        """

    /// Returns who holds the lock of steps at this moment; nil for nobody, and on a standby.
    static func holder(in snapshot: borrowing Snapshot) throws(HandlerError) -> StepLockHolder? {
        try snapshot.first(holderQuery) { row in
            StepLockHolder(
                processID: Int32(truncatingIfNeeded: row.integer(0)), application: row.optionalText(1),
                address: row.optionalText(2), waiters: Int(row.integer(3)))
        }
    }
}
