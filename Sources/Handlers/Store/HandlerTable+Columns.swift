/// Single columns of rows of handlers.
extension HandlerTable {
    func scope(of id: AnyHandlerID) throws(HandlerError) -> HandlerScope? {
        try connection.first("SELECT scope FROM handler WHERE id = ?", [id]) { row in
            row.optionalText(0).map { HandlerScope($0) }
        } ?? nil
    }

    func state(of id: AnyHandlerID) throws(HandlerError) -> State? {
        try connection.first("SELECT state FROM handler WHERE id = ?", [id]) {
            State(rawValue: $0.integer(0))
        } ?? nil
    }

    // MARK: Calls

    /// Has a runner call a bound handler.
    ///
    /// - Parameter input: The stored form of its context.
    func queue(
        _ id: AnyHandlerID, calledWith input: [UInt8], _ caller: Caller, _ scope: HandlerScope?
    ) throws(HandlerError) {
        try connection.write(
            "UPDATE handler SET call = ?, input = ?, due = ?, connected_due = NULL, lane = ? WHERE id = ?",
            [StoredCall(.result).bytes(), input, now, caller.rawValue, id])
        transaction.newDue.add(scope, wall: now)
    }

    /// Sets when a handler is called or expires, by the wall clock.
    func setDue(_ id: AnyHandlerID, _ due: Timestamp?) throws(HandlerError) {
        try connection.write("UPDATE handler SET due = ? WHERE id = ?", [due, id])
    }

    func set(_ caller: Caller, of id: AnyHandlerID) throws(HandlerError) {
        try connection.write("UPDATE handler SET lane = ? WHERE id = ?", [caller.rawValue, id])
    }

    // MARK: Relations

    /// - Returns: Nil when it has ended or never existed.
    func relations(of id: AnyHandlerID) throws(HandlerError) -> Relations? {
        try connection.first("SELECT relations FROM handler WHERE id = ?", [id]) {
            Relations(rawValue: $0.integer(0))
        }
    }

    func add(_ relations: Relations, to id: AnyHandlerID) throws(HandlerError) {
        try connection.write(
            "UPDATE handler SET relations = relations | ? WHERE id = ?", [relations.rawValue, id])
    }

    func remove(_ relations: Relations, from id: AnyHandlerID) throws(HandlerError) {
        try connection.write(
            "UPDATE handler SET relations = relations - (relations & ?) WHERE id = ?",
            [relations.rawValue, id])
    }

    /// Orders the later calls of a standing handler, or orders them no longer.
    func setOrdered(_ isOrdered: Bool, of id: AnyHandlerID) throws(HandlerError) {
        guard let known = try relations(of: id), known.contains(.ordered) != isOrdered else { return }
        try connection.write(
            "UPDATE handler SET relations = ? WHERE id = ?",
            [(isOrdered ? known.union(.ordered) : known.subtracting(.ordered)).rawValue, id])
    }

    /// Says what a program lacks that has parked a handler, for programs that have it.
    func setLack(_ lack: Lack?, of id: AnyHandlerID) throws(HandlerError) {
        try connection.write(
            "UPDATE handler SET lacks = ?, lacks_name = ?, lacks_version = ? WHERE id = ?",
            Lack.values(of: lack) + [id])
        transaction.newDue.isParked = true
    }

    // MARK: Keys

    func give(_ key: String, to id: AnyHandlerID) throws(HandlerError) {
        try connection.write("INSERT INTO handler_key(key, handler) VALUES (?, ?)", [key, id])
    }

    /// Frees the key of a handler.
    ///
    /// - Returns: Nil when another one has taken it.
    func takeKey(of id: AnyHandlerID) throws(HandlerError) -> String? {
        let key = try connection.first("SELECT key FROM handler_key WHERE handler = ?", [id]) { $0.text(0) }
        try connection.write("DELETE FROM handler_key WHERE handler = ?", [id])
        return key
    }
}
