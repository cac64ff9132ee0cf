import Handlers

/// What a person changes. The server checks the role for each act, whatever the page shows, and the step that changes something stores
/// who did it and why.
extension Dashboard {
    /// The number of handlers from which on a reason is needed.
    static let manyHandlers = 10

    func act(
        _ request: DashboardRequest, _ parts: [String], _ access: DashboardAccess
    ) throws -> DashboardResponse {
        guard let body = AnswerJSON.value(request.body), case .object = body else {
            throw DashboardFailure(400, "no-json", "A change is a JSON object.")
        }
        let answer: JSONValue
        switch (parts.first, parts.count) {
        case ("repairs", 1): answer = try repair(body, access)
        case ("lanes", 2): answer = try changeLane(parts[1], body, access)
        case ("signals", 1): answer = try signal(body, access)
        default: throw DashboardFailure.notFound
        }
        return DashboardResponse(200, AnswerJSON.type, AnswerJSON.bytes(answer))
    }

    /// - Returns: The store, and the author of the change.
    private func permit(
        _ action: DashboardAction, _ body: JSONValue, _ access: DashboardAccess
    ) throws -> (HandlerStore, RepairAuthor) {
        guard let writer, case .operator(let name, let actions) = access, actions.contains(action) else {
            throw DashboardFailure(
                403, "not-allowed", "You may not do this: \(action.rawValue).",
                hint: "The page is read-only unless it is served for operators.")
        }
        let reason = body["because"]?.string.flatMap { $0.isEmpty ? nil : $0 }
        return (try writer(), RepairAuthor(name, because: reason, by: .dashboard))
    }

    // MARK: Handlers

    private func repair(_ body: JSONValue, _ access: DashboardAccess) throws -> JSONValue {
        guard let text = body["action"]?.string, let repair = HandlerRepair(rawValue: text),
            let action = DashboardAction(rawValue: text)
        else { throw DashboardFailure(400, "wrong-value", "'action' names a change of handlers.") }
        let (store, author) = try permit(action, body, access)
        if case .array(let rows)? = body["rows"] { return try change(rows, repair, body, author, store) }
        guard case .object(let filter)? = body["filter"] else {
            throw DashboardFailure(400, "wrong-value", "A change takes 'rows' or a 'filter'.")
        }
        return try change(filter, repair, body, author, store)
    }

    /// Changes chosen rows: all of them in one step, or none.
    private func change(
        _ rows: [JSONValue], _ repair: HandlerRepair, _ body: JSONValue, _ author: RepairAuthor,
        _ store: HandlerStore
    ) throws -> JSONValue {
        let rows = try rows.map { (row) throws(DashboardFailure) in
            guard let text = row.string else {
                throw DashboardFailure(400, "wrong-value", "'rows' holds texts.")
            }
            return try Self.rowNumber(text)
        }
        guard 1...HandlerStore.mostRepaired ~= rows.count else {
            throw DashboardFailure(
                400, "wrong-value", "1 to \(HandlerStore.mostRepaired) rows are changed at once.")
        }
        try check(rows.count, body, author)
        try store.step { step in
            for row in rows {
                if repair.ends { try releasing(row, step) }
                try step.repair(row, repair, by: author)
            }
        }
        return ["repaired": .count(rows.count), "refused": [], "next": .null]
    }

    /// Changes a part of the handlers that meet a filter, at most 1000 in one step.
    private func change(
        _ filter: [String: JSONValue], _ repair: HandlerRepair, _ body: JSONValue, _ author: RepairAuthor,
        _ store: HandlerStore
    ) throws -> JSONValue {
        let context = context(filter.compactMapValues(\.string), .none, try reader())
        guard filter.values.allSatisfy({ $0.string != nil }) else {
            throw DashboardFailure(400, "wrong-value", "The values of 'filter' are texts.")
        }
        let query = try context.query(try context.reader.read { $0.now })
        let after = try body["after"]?.string.map { (text) throws(DashboardFailure) in
            try Self.rowNumber(text)
        }
        if after == nil {
            // Somebody may have changed the store since the person saw the number.
            let counted = try count(query, repair, context.reader)
            try check(counted.count, isComplete: counted.isComplete, body, author)
        }
        let page = try store.repair(query, repair, by: author, after: after) { id, step in
            try releasing(id, step)
        }
        return [
            "repaired": .count(page.repaired.count),
            "refused": .array(
                page.refused.prefix(100).map {
                    [
                        "row": .row($0.handler.id), "handler": .string($0.handler.name),
                        "reason": .string($0.reason),
                    ]
                }),
            "next": .row(page.next),
        ]
    }

    /// - Parameter isComplete: Whether all were counted. Of more than can be counted in time the person saw no exact number either.
    private func check(
        _ count: Int, isComplete: Bool = true, _ body: JSONValue, _ author: RepairAuthor
    ) throws(DashboardFailure) {
        guard let expected = body["expect"]?.integer else {
            throw DashboardFailure(400, "wrong-value", "'expect' is the number of handlers that you saw.")
        }
        guard expected == count || !isComplete else {
            throw DashboardFailure(
                409, "other-count", "There are \(count) handlers now, not \(expected).",
                hint: "Nothing was changed. Look again.")
        }
        guard count <= Self.manyHandlers || author.reason != nil else {
            throw DashboardFailure(
                400, "no-reason", "A change of more than \(Self.manyHandlers) handlers needs a reason.")
        }
    }

    // MARK: Lanes and signals

    private func changeLane(_ name: String, _ body: JSONValue, _ access: DashboardAccess) throws -> JSONValue
    {
        switch body["action"]?.string {
        case "pause":
            let (store, author) = try permit(.pauseLane, body, access)
            try store.step { try $0.pauseLane(name, by: author) }
        case "resume":
            let (store, author) = try permit(.resumeLane, body, access)
            try store.step { try $0.resumeLane(name, by: author) }
        case "limit":
            let (store, author) = try permit(.limitLane, body, access)
            let rule = try Self.rule(name, body)
            try store.step { try $0.setLane(rule, by: author) }
        default: throw DashboardFailure(400, "wrong-value", "'action' is pause, resume or limit.")
        }
        return ["lane": .lane(try reader().read { try $0.laneStatus(name) })]
    }

    private static func rule(_ name: String, _ body: JSONValue) throws(DashboardFailure) -> LaneRule {
        let (count, period) = (try positive("rateCount", body), try positive("rateMilliseconds", body))
        guard (count == nil) == (period == nil) else {
            throw DashboardFailure(400, "wrong-value", "A rate has both a count and a time.")
        }
        let rate = count.flatMap { count in period.map { LaneRate(count, per: .milliseconds($0)) } }
        return LaneRule(name, concurrency: try positive("concurrency", body), rate: rate)
    }

    private static func positive(_ name: String, _ body: JSONValue) throws(DashboardFailure) -> Int? {
        guard let value = body[name], value != .null else { return nil }
        guard let number = value.integer, number > 0 else {
            throw DashboardFailure(400, "wrong-value", "'\(name)' is a whole number from 1, or null.")
        }
        return Int(number)
    }

    private func signal(_ body: JSONValue, _ access: DashboardAccess) throws -> JSONValue {
        guard let key = body["key"]?.string, let value = body["value"] else {
            throw DashboardFailure(400, "wrong-value", "A signal has a 'key' and a 'value'.")
        }
        let (store, author) = try permit(.signal, body, access)
        let disposition = try store.step { try $0.signal(key, value, by: author) }
        return ["key": .string(key), "called": .text(disposition.map { "\($0)" })]
    }
}
