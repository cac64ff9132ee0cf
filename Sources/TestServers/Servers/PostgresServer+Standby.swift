import FoundationEssentials
import Platform
import Synchronization
import XMPPCore

extension PostgresServer {
    /// Starts a server and a synchronous standby of it, whose name is `second`.
    ///
    /// - Throws: ``TestServerError`` when one of them cannot be set up.
    package static func startWithStandby() throws(TestServerError) -> (
        server: PostgresServer, standby: PostgresServer
    ) {
        let server = try PostgresServer()
        try server.start()
        return (server, try server.makeStandby(name: "second", synchronous: true))
    }

    /// Makes a standby of this running server and starts it. Returns once it receives the log of this server.
    ///
    /// The standby has the same options, a port and a folder of its own. A replication slot keeps the log for it while it is away.
    ///
    /// - Parameters:
    ///   - name: The name of the standby and its slot, of lower-case letters, digits and underscores.
    ///   - synchronous: Whether this server acknowledges a commit only once the standby has it on disk.
    ///   - dead: A server that was killed, whose port the standby takes over; nil for a new port.
    /// - Throws: ``TestServerError`` when the copy, the start or the replication fails.
    package func makeStandby(
        name: String, synchronous: Bool = false, inPlaceOf dead: PostgresServer? = nil,
        deadline: ContinuousClock.Instant = .now + .seconds(60)
    ) throws(TestServerError) -> PostgresServer {
        let standby = try PostgresServer(
            options: options, standing: Standing(primary: (connection(), name)), port: dead?.reservedPort)
        try installation.run(
            "pg_basebackup",
            [
                "--dbname=\(connection())", "--pgdata=\(standby.dataFolder)", "--wal-method=stream",
                "--checkpoint=fast", "--no-sync", "--create-slot", "--slot=\(name)",
            ], in: standby.folder)
        try installation.write(Data(), to: "\(standby.dataFolder)/standby.signal")
        try standby.start()
        if synchronous {
            let names = standing.withLock { $0.synchronousStandbys }
            try setSynchronousStandbys(names + [name])
        }
        let state = synchronous ? "sync" : "async"
        try wait(
            "The standby \(name) does not replicate", deadline: deadline,
            for:
                "SELECT state || ' ' || sync_state FROM pg_stat_replication WHERE application_name = '\(name)'",
            toBe: "streaming \(state)")
        return standby
    }

    /// Copies the cluster of this running server as a role, as a backup does, and removes the copy.
    ///
    /// - Returns: The files of the copy.
    /// - Throws: ``TestServerError`` `refused` when the role may not.
    package func backUp(as role: String) throws(TestServerError) -> [String] {
        let copy = "\(folder)/backup-\(role)"
        try installation.run(
            "pg_basebackup",
            [
                "--dbname=\(connection()) user=\(role)", "--pgdata=\(copy)", "--wal-method=stream",
                "--checkpoint=fast", "--no-sync",
            ], in: folder)
        defer { try? FileManager.default.removeItem(atPath: copy) }
        return (try? FileManager.default.contentsOfDirectory(atPath: copy)) ?? []
    }

    /// Sets the standbys that must have a commit on disk before this running server acknowledges it.
    ///
    /// - Parameters:
    ///   - names: Their names; none, with an empty list.
    ///   - awaited: How many of them are awaited, from the first that is connected on; nil for all.
    /// - Throws: ``TestServerError`` when the server does not adopt them within 10 s.
    package func setSynchronousStandbys(_ names: [String], awaited: Int? = nil) throws(TestServerError) {
        standing.withLock { ($0.synchronousStandbys, $0.awaited) = (names, awaited) }
        try loadConfiguration()
        // Sessions wait for standbys only once the checkpointer has read the file, too, which it does before a checkpoint.
        try query("CHECKPOINT")
    }

    /// Has this running standby follow another server, which is or becomes the primary and has no log that this one lacks.
    ///
    /// - Parameter name: The name of this standby and of its slot, which is made there.
    /// - Throws: ``TestServerError`` when one of the servers refuses.
    package func follow(_ primary: PostgresServer, as name: String) throws(TestServerError) {
        try primary.query("SELECT pg_create_physical_replication_slot('\(name)', true)")
        standing.withLock { $0.primary = (primary.connection(), name) }
        try loadConfiguration()
    }

    /// How far this standby has received the log, in bytes.
    package var receivedLog: Int {
        get throws(TestServerError) {
            Int(try query("SELECT (coalesce(pg_last_wal_receive_lsn(), '0/0') - '0/0')::bigint")) ?? 0
        }
    }

    /// Writes the configuration, and has the server read it.
    private func loadConfiguration() throws(TestServerError) {
        try writeConfiguration()
        // A session that is opened before the postmaster has read the file has the old value. So the awaited condition is the
        // time of the last reload, seen by a later session.
        let before = try query("SELECT pg_conf_load_time()")
        try query("SELECT pg_reload_conf()")
        try wait(
            "The configuration is not loaded", deadline: .now + .seconds(10),
            for: "SELECT pg_conf_load_time() > '\(before)'", toBe: "t")
    }

    /// Ends the recovery of this standby and returns once it accepts writes.
    /// - Throws: ``TestServerError`` when it is no standby, or does not finish within a minute.
    package func promote() throws(TestServerError) {
        guard try query("SELECT pg_promote(true, 60)") == "t" else {
            throw TestServerError(.wrongState, "The standby was not promoted within a minute.")
        }
        standing.withLock { $0.primary = nil }
    }

    /// Waits until a query has a certain answer, for states that no event reports.
    private func wait(
        _ shortfall: String, deadline: ContinuousClock.Instant, for sql: String, toBe answer: String
    ) throws(TestServerError) {
        while true {
            let found = try query(sql)
            if found == answer { return }
            guard ContinuousClock.now < deadline else {
                throw TestServerError(
                    .startFailed, "\(shortfall) at the deadline: \"\(found)\". The log:\n\(log.suffix(2000))")
            }
            SystemThread.sleep(microseconds: 5000)
        }
    }
}
