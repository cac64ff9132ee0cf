import Handlers

/// Reads why handlers have not ended, from one snapshot.
struct WaitReader {
    /// The number of handlers that a sentence names of those for which another one waits.
    private static let namedChildren = 5

    /// The processes that live.
    private let processes: [StoreContents.Process]
    private let tables: Set<String>
    /// The scopes in which a process that lives is connected; `""` is the program as a whole.
    private let scopes: Set<Name>

    init(_ snapshot: borrowing Snapshot, _ processes: [StoreContents.Process]) throws(HandlerError) {
        let processes = processes.filter(\.lives)
        self.processes = processes
        var tables: Set<String> = []
        for table in ["request", "session", "account", "outbox"] where try snapshot.hasTable(table) {
            tables.insert(table)
        }
        self.tables = tables
        let slots = Set(processes.map { Int64($0.slot) })
        scopes = Set(
            try snapshot.all("SELECT scope, slot FROM connected_slot") { ($0.foreignText(0), $0.integer(1)) }
                .filter { slots.contains($0.1) }.map(\.0))
    }

    /// Returns the handler with what the rows say about it.
    func handler(_ status: HandlerStatus, _ snapshot: borrowing Snapshot) throws(HandlerError)
        -> WaitingHandler
    {
        var handler = try row(status, snapshot) ?? WaitingHandler(status: status)
        if status.state == .pending, handler.isCalled, handler.left == nil {
            handler.lane = try lane(status.id, snapshot)
            handler.operation = try operation(status.id, snapshot)
        }
        if status.state == .running, let progress = try snapshot.progress(of: status.id) {
            let age = Span.text((snapshot.now - progress.savedAt).milliseconds)
            handler.progress = "\(progress.note ?? "saved its progress"), \(age) ago"
        }
        if handler.period == 0 { handler.calendar = try calendar(status.id, snapshot) }
        guard status.state == .pending, !handler.isCalled else { return handler }
        handler.join = try join(status.id, snapshot)
        try readRequest(&handler, snapshot)
        if handler.awaited == nil { handler.awaited = try acknowledgement(status.id, snapshot) }
        return handler
    }

    private func row(
        _ status: HandlerStatus, _ snapshot: borrowing Snapshot
    ) throws(HandlerError) -> WaitingHandler? {
        let now = snapshot.now.milliseconds
        return try snapshot.first(
            """
            SELECT handler.scope, lane, connected_due - coalesce(connected, 0), period, call, input IS NOT NULL, lease, due
            FROM handler LEFT JOIN connected_clock ON connected_clock.scope = coalesce(handler.scope, '')
            WHERE id = ?
            """, status.id
        ) { row in
            let scope = row.optionalText(0)
            let lease = row.optionalInteger(6)
            var handler = WaitingHandler(status: status)
            handler.left = row.optionalQuantity(7).map { $0 - now }
            handler.connectedLeft = row.optionalQuantity(2)
            handler.period = row.optionalQuantity(3)
            handler.isCalled = !row.isNull(4)
            // A call that cannot be read is quarantined by the runner that makes it.
            if handler.isCalled {
                handler.invalidation = try? StoredCall(row.blob(4), of: status.id).reason
            }
            handler.hasInput = row.integer(5) != 0
            handler.runner = WaitingHandler.Runner(
                scope: scope, isOfMain: Caller(rawValue: row.integer(1))?.isOfMain ?? false,
                isThere: scopes.contains(scope ?? ""), isStoreOpen: !processes.isEmpty)
            handler.process = processes.first { Int64($0.slot) == lease }?.name
            return handler
        }
    }

    /// The operation of a workflow whose result has not come.
    private func operation(
        _ id: AnyHandlerID, _ snapshot: borrowing Snapshot
    ) throws(HandlerError) -> String? {
        try snapshot.first(
            "SELECT operation, position, waiter FROM journal WHERE handler = ? AND value IS NULL AND error IS NULL LIMIT 1",
            id
        ) { row in
            let waiter = row.optionalInteger(2).map { " (handler \($0))" } ?? ""
            return "'\(row.text(0))' at place \(row.integer(1)) of its journal\(waiter)"
        }
    }

    /// What a called handler waits for in its lane.
    private func lane(
        _ id: AnyHandlerID, _ snapshot: borrowing Snapshot
    ) throws(HandlerError) -> String? {
        try snapshot.first(
            "SELECT lane, state, order_key FROM lane_entry WHERE handler = ? AND state IN (\(LaneState.blocked.sql), \(LaneState.ready.sql))",
            id
        ) { row in
            let (lane, key) = (row.text(0), row.optionalText(2) ?? "")
            if lane.isEmpty { return "for an earlier call of the standing handler \(key)" }
            return row.integer(1) == LaneState.ready.rawValue
                ? "for a place in the lane '\(lane)'"
                : "in the lane '\(lane)' for an earlier handler with the order key '\(key)'"
        }
    }

    private func calendar(
        _ id: AnyHandlerID, _ snapshot: borrowing Snapshot
    ) throws(HandlerError) -> String? {
        try snapshot.first("SELECT expression, time_zone FROM calendar WHERE handler = ?", id) {
            "by '\($0.text(0))' in \($0.text(1))"
        }
    }

    private func join(
        _ id: AnyHandlerID, _ snapshot: borrowing Snapshot
    ) throws(HandlerError) -> WaitingHandler.Join? {
        let join = try snapshot.first("SELECT waiting, needed FROM handler_join WHERE handler = ?", id) {
            WaitingHandler.Join(count: $0.quantity(0), needed: $0.optionalQuantity(1), first: [])
        }
        guard var join else { return nil }
        join.first = try snapshot.all(
            """
            SELECT handler.id, handler.name FROM join_child JOIN handler ON handler.id = join_child.handler
            WHERE parent = ? ORDER BY position LIMIT ?
            """, id, Self.namedChildren
        ) { "\($0.integer(0)) \($0.text(1))" }
        return join
    }

    /// Reads the request whose answer the handler waits for.
    private func readRequest(
        _ handler: inout WaitingHandler, _ snapshot: borrowing Snapshot
    ) throws(HandlerError) {
        guard tables.isSuperset(of: ["request", "session", "account"]) else { return }
        let request = try snapshot.first(
            """
            SELECT stanza_id, coalesce(peer, jid), nullif(deadline, ?) - connected_time
            FROM request JOIN session ON session.account = request.account
                JOIN account ON account.id = request.account
            WHERE handler = ?
            """, Int64.max, handler.status.id
        ) { (id: $0.text(0), peer: $0.text(1), left: $0.optionalQuantity(2)) }
        guard let request else { return }
        handler.awaited = "the answer of \(request.peer) to the request '\(request.id)'"
        handler.connectedLeft = request.left ?? handler.connectedLeft
    }

    private func acknowledgement(
        _ id: AnyHandlerID, _ snapshot: borrowing Snapshot
    ) throws(HandlerError) -> String? {
        guard tables.contains("outbox") else { return nil }
        return try snapshot.first("SELECT stanza_id FROM outbox WHERE handler = ? ORDER BY seq LIMIT 1", id) {
            "the acknowledgement of the stanza '\($0.text(0))'"
        }
    }
}
