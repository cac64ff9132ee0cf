import FoundationEssentials
package import Handlers
import XMPPAccount

extension StoreContents {
    /// - Parameter limit: The maximum number of shown rows of each list.
    package init(_ reader: StoreReader, limit: Int) throws {
        self = try reader.read { snapshot in
            var contents = try StoreContents(
                snapshot, path: reader.path, processes: Self.processes(reader, snapshot), limit: limit)
            contents.stepLock = try reader.stepLockHolder(in: snapshot).map {
                StepLock(
                    pid: $0.processID, application: $0.application, address: $0.address, waiting: $0.waiters)
            }
            return contents
        }
    }

    /// The processes that have the store open.
    static func processes(
        _ reader: StoreReader, _ snapshot: borrowing Snapshot
    ) throws(HandlerError) -> [Process] {
        try reader.processes(in: snapshot).map {
            Process(
                slot: $0.slot, pid: $0.processID,
                state: $0.life?.rawValue ?? $0.processID.map(ProcessState.of) ?? "unknown",
                handler: $0.handler?.rawValue, application: $0.application, address: $0.address,
                clockAhead: $0.clockAhead)
        }
    }

    private init(
        _ snapshot: borrowing Snapshot, path: String, processes: [Process], limit: Int
    ) throws {
        store = path
        summary = try Self.summary(snapshot)
        self.processes = processes
        accounts = try Self.accounts(snapshot, processes)
        requests = try Self.requests(snapshot, limit)
        timers = try Self.timers(snapshot, limit)
        lanes = try Self.lanes(snapshot, limit)
        outbox = try Self.outbox(snapshot, limit)
        let waits = try WaitReader(snapshot, processes)
        running = try Self.handlers(.running, snapshot, limit, waits)
        parked = try Self.handlers(.parked, snapshot, limit, waits)
        quarantined = try Self.handlers(.quarantined, snapshot, limit, waits)
        handlers = try Self.handlers(nil, snapshot, limit, waits)
        dropped = try snapshot.droppedCalls().map {
            Dropped(
                handler: $0.name, calls: $0.calls, bytes: $0.bytes,
                age: (snapshot.now - $0.lastAt).milliseconds)
        }
        pending = try Self.named(
            "kind = \(Transaction.Kind.once.sql) AND \(Transaction.State.pending.condition)", snapshot)
        standing = try Self.named("kind = \(Transaction.Kind.standing.sql)", snapshot)
        events = try Self.count("event", snapshot)
        namedEvents = try snapshot.all(
            "SELECT name, count(*) FROM event GROUP BY name ORDER BY count(*) DESC, name"
        ) { (row) throws(HandlerError) in NamedEvents(event: row.text(0), count: row.integer(1)) }
        endings = try Self.endings(snapshot)
        lastEndings = try Self.lastEndings(snapshot, limit)
    }

    // MARK: Accounts

    private static func accounts(
        _ snapshot: borrowing Snapshot, _ processes: [Process]
    ) throws(HandlerError) -> [Account] {
        // A store that only uses `Handlers` has no accounts.
        guard try snapshot.hasTable("account") else { return [] }
        let now = snapshot.now.milliseconds
        return try snapshot.all(
            """
            SELECT account.id, jid, coalesce(epoch, 0), owner, number, full_jid, open_number IS NOT NULL,
                resumption_id IS NOT NULL, max, alive_at, received, acknowledged,
                (SELECT count(*) FROM deferred WHERE deferred.account = account.id), bound_count, resumed_count, slot
            FROM account JOIN session ON session.account = account.id
                LEFT JOIN ownership ON ownership.account = account.id ORDER BY jid
            """
        ) { row in
            let slot = row.optionalInteger(15)
            let process = processes.first { Int64($0.slot) == slot }
            return Account(
                jid: row.text(1),
                ownership: Ownership(
                    epoch: row.integer(2), owner: row.optionalText(3), slot: process?.slot, pid: process?.pid,
                    state: process?.state),
                session: Session(
                    number: row.quantity(4), boundAs: row.optionalText(5), hasStream: row.integer(6) != 0,
                    isResumable: row.integer(7) != 0, window: row.optionalQuantity(8).map { $0 * 1000 },
                    age: row.optionalQuantity(9).map { now - $0 }, received: row.integer(10),
                    acknowledged: row.integer(11), deferred: row.integer(12), timesBound: row.quantity(13),
                    timesResumed: row.quantity(14)))
        }
    }

    private static func requests(
        _ snapshot: borrowing Snapshot, _ limit: Int
    ) throws(HandlerError) -> Rows<Request> {
        guard try snapshot.hasTable("request"), try snapshot.hasTable("session") else {
            return Rows(count: 0, shown: [])
        }
        let now = snapshot.now.milliseconds
        let shown = try snapshot.all(
            """
            SELECT jid, stanza_id, peer, handler.id, name, bound_at, nullif(deadline, ?) - connected_time,
                request.session
            FROM request JOIN handler ON handler.id = request.handler
                JOIN session ON session.account = request.account JOIN account ON account.id = request.account
            ORDER BY request.handler LIMIT ?
            """, Int64.max, limit
        ) { row in
            Request(
                account: row.text(0), id: row.text(1), peer: row.optionalText(2), row: row.integer(3),
                handler: row.text(4), age: now - row.quantity(5), connectedLeft: row.optionalQuantity(6),
                session: row.optionalInteger(7))
        }
        return Rows(count: try count("request", snapshot), shown: shown)
    }

    private static func lanes(
        _ snapshot: borrowing Snapshot, _ limit: Int
    ) throws(HandlerError) -> Rows<Lane> {
        let lanes = try snapshot.lanes()
        let shown = lanes.prefix(limit).map { lane in
            Lane(
                name: lane.name, concurrency: lane.rule.concurrency,
                rate: lane.rule.rate.map { rate in
                    "\(rate.count) in \(Span.text(rate.period.milliseconds))"
                        + (rate.atOnce == rate.count ? "" : ", \(rate.atOnce) at once")
                },
                running: lane.running, waiting: lane.waiting, away: lane.away,
                why: lane.standstill.map { "\($0)" })
        }
        return Rows(count: Int64(lanes.count), shown: shown)
    }

    private static func outbox(
        _ snapshot: borrowing Snapshot, _ limit: Int
    ) throws(HandlerError) -> Rows<Stanza> {
        guard try snapshot.hasTable("outbox") else { return Rows(count: 0, shown: []) }
        let now = snapshot.now.milliseconds
        let shown = try snapshot.all(
            """
            SELECT jid, seq, outbox.kind, stanza_id, length(xml), created_at, session, name
            FROM outbox JOIN account ON account.id = outbox.account
                LEFT JOIN handler ON handler.id = outbox.handler ORDER BY seq LIMIT ?
            """, limit
        ) { row in
            Stanza(
                account: row.text(0), seq: row.integer(1),
                kind: Outbox.Kind(rawValue: row.integer(2)).map { "\($0)" } ?? "unknown",
                id: row.optionalText(3),
                bytes: row.integer(4), age: now - row.quantity(5), session: row.optionalInteger(6),
                handler: row.optionalText(7))
        }
        return Rows(count: try count("outbox", snapshot), shown: shown)
    }

    // MARK: Handlers

    /// Returns the handlers that a runner waits for, earliest first. Those that count connected time come last.
    private static func timers(
        _ snapshot: borrowing Snapshot, _ limit: Int
    ) throws(HandlerError) -> Rows<Timer> {
        let condition = "due IS NOT NULL OR connected_due IS NOT NULL"
        let now = snapshot.now.milliseconds
        var shown = try snapshot.all(
            """
            SELECT id, name, due, connected_due - coalesce(connected, 0), period, call IS NULL, attempts, reason,
                (SELECT expression FROM calendar WHERE calendar.handler = handler.id),
                (SELECT time_zone FROM calendar WHERE calendar.handler = handler.id)
            FROM handler LEFT JOIN connected_clock ON connected_clock.scope = coalesce(handler.scope, '')
            WHERE \(condition) ORDER BY due IS NULL, due, connected_due, id LIMIT ?
            """, limit
        ) { row in
            let period = row.optionalQuantity(4)
            let attempts = Int(row.quantity(6))
            let kind: Timer.Kind =
                period != nil
                ? .periodic : row.integer(5) != 0 ? .deadline : attempts > 0 ? .retry : .timer
            return Timer(
                row: row.integer(0), handler: row.text(1), arguments: "", kind: kind,
                left: row.optionalQuantity(2).map { $0 - now }, connectedLeft: row.optionalQuantity(3),
                period: row.isNull(8) ? period : nil,
                calendar: row.optionalText(8).map { "'\($0)' in \(row.text(9))" }, attempts: attempts,
                reason: row.optionalText(7))
        }
        for index in shown.indices {
            let status = try snapshot.status(of: AnyHandlerID(rawValue: shown[index].row))
            shown[index].arguments = status?.arguments ?? ""
        }
        return Rows(count: try count("handler WHERE \(condition)", snapshot), shown: shown)
    }

    /// - Parameter state: The state; nil for all.
    private static func handlers(
        _ state: HandlerStatus.State?, _ snapshot: borrowing Snapshot, _ limit: Int, _ waits: WaitReader
    ) throws(HandlerError) -> Rows<Handler> {
        var filter = HandlerFilter()
        filter.state = state
        return try handlers(filter, snapshot, limit, waits)
    }

    /// Returns the handlers that have not ended and meet a filter, oldest first.
    static func handlers(
        _ filter: HandlerFilter, _ snapshot: borrowing Snapshot, _ limit: Int, _ waits: WaitReader
    ) throws(HandlerError) -> Rows<Handler> {
        let found = try filter.handlers(snapshot, limit: limit)
        let now = snapshot.now.milliseconds
        var shown: [Handler] = []
        for status in found.shown {
            shown.append(Handler(try waits.handler(status, snapshot), now: now))
        }
        return Rows(count: found.count, shown: shown)
    }

    private static func named(
        _ condition: String, _ snapshot: borrowing Snapshot
    ) throws(HandlerError) -> [Named] {
        try snapshot.all(
            "SELECT name, count(*) FROM handler WHERE \(condition) GROUP BY name ORDER BY count(*) DESC, name"
        ) { Named(handler: $0.text(0), count: $0.integer(1)) }
    }

    // MARK: Endings

    private static func endings(_ snapshot: borrowing Snapshot) throws(HandlerError) -> [String: Int64] {
        let counts = try snapshot.all("SELECT outcome, count(*) FROM ending GROUP BY outcome") {
            (outcome($0.integer(0)), $0.integer(1))
        }
        return Dictionary(counts, uniquingKeysWith: +)
    }

    private static func lastEndings(
        _ snapshot: borrowing Snapshot, _ limit: Int
    ) throws(HandlerError) -> [Ending] {
        let now = snapshot.now.milliseconds
        return try snapshot.all(
            """
            SELECT handler, name, outcome, reason, ended_at,
                (SELECT key FROM ending_detail WHERE ending_detail.handler = newest.handler), coalesce(trace, handler),
                (SELECT error FROM ending_detail WHERE ending_detail.handler = newest.handler),
                (SELECT code FROM ending_detail WHERE ending_detail.handler = newest.handler)
            FROM (SELECT * FROM ending ORDER BY ended_at DESC, handler DESC LIMIT ?) AS newest
            ORDER BY ended_at DESC, handler DESC
            """, limit
        ) { Ending($0, now: now) }
    }

    static func outcome(_ stored: Int64) -> String {
        Outcome(rawValue: stored).map { "\($0)" } ?? "unknown"
    }

    private static func count(_ rows: String, _ snapshot: borrowing Snapshot) throws(HandlerError) -> Int64 {
        try snapshot.first("SELECT count(*) FROM \(rows)") { $0.integer(0) } ?? 0
    }
}

extension StoreContents.Process {
    /// Whether it may still do something with the store.
    var lives: Bool { state != StoreProcess.Life.dead.rawValue }
    /// What people call it: a node is known by its number alone.
    var name: String { Self.name(pid: pid, slot: slot) }

    static func name(pid: Int32?, slot: Int) -> String { pid.map { "process \($0)" } ?? "node \(slot)" }
}

extension StoreContents.Handler {
    init(_ handler: WaitingHandler, now: Int64) {
        let status = handler.status
        row = status.id.rawValue
        trace = status.trace.rawValue
        self.handler = status.name
        version = status.version
        state = status.state
        key = status.key
        arguments = status.arguments
        why = handler.why
        age = now - status.boundAt.milliseconds
        runs = status.startedAt.map { now - $0.milliseconds }
        attempts = status.attempts
        deaths = status.deaths
        reason = status.reason
        size = status.size
    }
}

extension StoreContents.Ending {
    /// - Parameter row: A row with handler, name, outcome, reason, end, key, trace, error and its code.
    init(_ row: borrowing Row, now: Int64) {
        self.row = row.integer(0)
        handler = row.text(1)
        outcome = StoreContents.outcome(row.integer(2))
        reason = row.optionalText(3)
        age = now - row.quantity(4)
        key = row.optionalText(5)
        trace = row.integer(6)
        error = row.optionalText(7)
        code = row.optionalText(8)
    }
}
