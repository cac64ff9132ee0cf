import Handlers

extension PostgresSettings {
    /// Prepares a new connection, and refuses a server that does not keep what it is to promise.
    func prepare(_ link: PostgresLink, isReader: Bool) throws(HandlerError) {
        guard link.serverVersion >= Self.oldestVersion else {
            throw HandlerError(
                .databaseUnavailable,
                "the server of \(name) has version \(link.serverVersion / 10_000), and a store needs 14 or newer; update it, nothing was changed"
            )
        }
        let found: Facts
        do throws(PostgresError) {
            // What a program or a role may have set otherwise would lose commits.
            if durability != nil { try link.send("SET synchronous_commit = on") }
            // What a step sees would otherwise be older than its wait for the lock of steps.
            try link.send("SET default_transaction_isolation = 'read committed'")
            try link.send("SET lock_timeout = '5s'")
            try link.send("SET idle_in_transaction_session_timeout = '60s'")
            try link.send(
                """
                SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only') = 'on',
                    current_setting('synchronous_standby_names') <> '', current_setting('fsync') = 'on',
                    current_setting('full_page_writes') = 'on', \(NodeTable.server)
                """)
            let result = try link.receive(isLast: true)
            let row = (try? result?.row(0, of: "its settings")) ?? []
            let truths = row.map { $0 == .integer(1) }
            guard truths.count == 6, case .integer(let start) = row[5] else {
                throw PostgresError(state: "", message: "the server does not say what its settings are")
            }
            link.serverStart = start
            found = Facts(
                isStandby: truths[0], isReadOnly: truths[1], hasStandby: truths[2], syncs: truths[3],
                writesPages: truths[4])
        } catch {
            throw error.handlerError(name, doing: "connecting")
        }
        if !(isReader && readsStandbys), found.isStandby || found.isReadOnly {
            throw HandlerError(
                .databaseReadOnly,
                "the server of \(name) is \(found.isStandby ? "a standby, which only reads" : "set to read only"); name all servers and add target_session_attrs=read-write, or connect to the primary. Nothing was changed"
            )
        }
        try check(found)
    }

    private func check(_ found: Facts) throws(HandlerError) {
        guard let durability else { return }
        guard found.syncs, found.writesPages else {
            throw HandlerError(
                .databaseUnavailable,
                "the server of \(name) does not sync its commits (\(found.syncs ? "full_page_writes" : "fsync") is off), so a loss of power takes them; set it to on. Nothing was changed"
            )
        }
        guard durability == .onPrimary || found.hasStandby else {
            throw HandlerError(
                .databaseUnavailable,
                "the server of \(name) has no synchronous standby (synchronous_standby_names is empty), so commits die with its machine; set one up, or open the store with durability: .onPrimary if that is meant. Nothing was changed"
            )
        }
    }

    /// What a server says of itself.
    private struct Facts {
        let isStandby, isReadOnly, hasStandby, syncs, writesPages: Bool
    }
}
