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
        let encoding = link.reported("server_encoding") ?? "-"
        guard encoding == "UTF8" else {
            throw HandlerError(
                .databaseUnavailable,
                "the database \(name) has the encoding \(encoding), which cannot hold every text; make another one with CREATE DATABASE … ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0. Nothing was changed"
            )
        }
        try check(schema(of: link), isReader)
        let found = try facts(of: link)
        if !(isReader && readsStandbys), found.isStandby || found.isReadOnly {
            throw HandlerError(
                .databaseReadOnly,
                "the server of \(name) is \(found.isStandby ? "a standby, which only reads" : "set to read only"); name all servers and add target_session_attrs=read-write, or connect to the primary. Nothing was changed"
            )
        }
        try check(found)
    }

    // MARK: The schema

    /// The schema of a store, and whether every role may make something in it.
    private struct StoreSchema {
        let name: String
        let isOpenToAll: Bool
    }

    /// Finds the schema of the store, or the first one of the search path, and has the connection look up names nowhere else but in the
    /// server's own catalog, which comes first.
    ///
    /// Until then functions and operators of others could be found, so all are named with their schema, and typed.
    private static let enterSchema = """
        SELECT n.nspname::pg_catalog.text,
            pg_catalog.has_schema_privilege('public'::pg_catalog.name, n.oid, 'CREATE'::pg_catalog.text),
            pg_catalog.set_config('search_path'::pg_catalog.text, pg_catalog.quote_ident(n.nspname::pg_catalog.text)
                OPERATOR(pg_catalog.||) ', pg_temp'::pg_catalog.text, false)
        FROM pg_catalog.pg_namespace AS n
        WHERE n.oid OPERATOR(pg_catalog.=) coalesce(
            (SELECT c.relnamespace FROM pg_catalog.pg_class AS c WHERE c.oid OPERATOR(pg_catalog.=)
                pg_catalog.to_regclass('module_schema'::pg_catalog.text)::pg_catalog.oid),
            (SELECT f.oid FROM pg_catalog.pg_namespace AS f
                WHERE f.nspname OPERATOR(pg_catalog.=) pg_catalog.current_schema()))
        """

    /// - Returns: Nil where the search path names none.
    private func schema(of link: PostgresLink) throws(HandlerError) -> StoreSchema? {
        do throws(PostgresError) {
            try link.send(Self.enterSchema)
            let result = try link.receive(isLast: true)
            guard let result, result.rowCount == 1,
                let row = try? result.row(0, of: "its schema"), case .text(let name) = row[0]
            else { return nil }
            return StoreSchema(name: name, isOpenToAll: row[1] == .integer(1))
        } catch {
            throw error.handlerError(name, doing: "connecting")
        }
    }

    private func check(_ schema: StoreSchema?, _ isReader: Bool) throws(HandlerError) {
        guard let schema else {
            // A reader finds no store.
            if isReader { return }
            throw HandlerError(
                .databaseReadOnly,
                "the role has no schema for tables in \(name) (its search_path names none that there is); make one with CREATE SCHEMA AUTHORIZATION and its name"
            )
        }
        guard !schema.isOpenToAll else {
            let quoted = MovedTable.quoted(schema.name)
            throw HandlerError(
                .databaseUnavailable,
                "every role may make functions in the schema '\(schema.name)' of \(name), which would run with the rights of the store; take that right with REVOKE CREATE ON SCHEMA \(quoted) FROM PUBLIC, and give it to the role that makes the tables with GRANT CREATE ON SCHEMA \(quoted) TO and its name. Nothing was changed"
            )
        }
    }

    // MARK: The server

    /// What a server says of itself.
    private struct Facts {
        let isStandby, isReadOnly, hasStandby, syncs, writesPages: Bool
    }

    /// Makes the settings of the connection, and reads those of the server.
    private func facts(of link: PostgresLink) throws(HandlerError) -> Facts {
        do throws(PostgresError) {
            // What a program or a role may have set otherwise would lose commits.
            if durability != nil { try link.send("SET synchronous_commit = on") }
            // What a step sees would otherwise be older than its wait for the lock of steps.
            try link.send("SET default_transaction_isolation = 'read committed'")
            try link.send("SET lock_timeout = '5s'")
            try link.send("SET idle_in_transaction_session_timeout = '60s'")
            try link.send(
                """
                SELECT pg_catalog.pg_is_in_recovery(),
                    pg_catalog.current_setting('default_transaction_read_only'::text) = 'on'::text,
                    pg_catalog.current_setting('synchronous_standby_names'::text) <> ''::text,
                    pg_catalog.current_setting('fsync'::text) = 'on'::text,
                    pg_catalog.current_setting('full_page_writes'::text) = 'on'::text,
                    \(NodeTable.server), \(NodeTable.clock)
                """)
            let start = ServerClock.monotonic
            let result = try link.receive(isLast: true)
            let row = (try? result?.row(0, of: "its settings")) ?? []
            let truths = row.map { $0 == .integer(1) }
            guard truths.count == 7, case .integer(let server) = row[5], case .integer(let now) = row[6]
            else {
                throw PostgresError(state: "", message: "the server does not say what its settings are")
            }
            link.serverStart = server
            clock.adopt(now, between: start, and: ServerClock.monotonic)
            return Facts(
                isStandby: truths[0], isReadOnly: truths[1], hasStandby: truths[2], syncs: truths[3],
                writesPages: truths[4])
        } catch {
            throw error.handlerError(name, doing: "connecting")
        }
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
}
