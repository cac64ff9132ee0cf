import Handlers

/// The state of a store that one answer shows.
struct AnswerContext: ~Copyable {
    let reader: StoreReader
    let values: [String: String]
    let access: DashboardAccess
    let hasWriter: Bool
    let why: Dashboard.WhyReader
    let processState: @Sendable (Int32) -> String
    let counter: RareCount

    /// The row or number in a value of the query.
    func number(_ name: String) throws(DashboardFailure) -> Int64? {
        guard let text = values[name] else { return nil }
        guard let number = Int64(text), number >= 0 else {
            throw DashboardFailure(400, "wrong-value", "'\(name)' is a number, not '\(text)'.")
        }
        return number
    }

    func row(_ name: String) throws(DashboardFailure) -> AnyHandlerID? {
        try number(name).map(AnyHandlerID.init(rawValue:))
    }

    /// How many rows an answer has at most.
    func limit(_ most: Int = 200) throws(DashboardFailure) -> Int {
        Int(max(1, min(try number("limit") ?? 100, Int64(most))))
    }
}

extension Dashboard {
    func answer(
        _ request: DashboardRequest, _ parts: [String], _ access: DashboardAccess
    ) throws -> DashboardResponse {
        let context = context(request.values, access, try reader())
        if parts == ["count"] {
            let (members, now) = try count(context)
            return .answer(members, at: now, known: nil)
        }
        if parts == ["handlers"] {
            let (members, now) = try context.search()
            return .answer(members, at: now, known: request.header("If-None-Match"))
        }
        let (members, now) = try context.reader.read { snapshot in
            (try Self.members(parts, context, snapshot), snapshot.now)
        }
        return .answer(members, at: now, known: request.header("If-None-Match"))
    }

    private static func members(
        _ parts: [String], _ context: borrowing AnswerContext, _ snapshot: borrowing Snapshot
    ) throws -> [String: JSONValue] {
        switch (parts.first, parts.count) {
        case ("summary", 1): return try context.summary(snapshot)
        case ("activity", 1): return try context.activity(snapshot)
        case ("handlers", 2): return try context.handler(rowNumber(parts[1]), snapshot)
        case ("chains", 2): return try context.chain(rowNumber(parts[1]), snapshot)
        case ("timers", 1): return try context.timers(snapshot)
        case ("lanes", 1): return try context.lanes(snapshot)
        case ("lanes", 2): return ["lane": .lane(try snapshot.laneStatus(parts[1]))]
        case ("nodes", 1): return ["rows": .array(try context.nodes(snapshot))]
        case ("accounts", 1): return ["rows": .array(try context.accounts(snapshot))]
        case ("accounts", 2): return try context.account(parts[1], snapshot)
        case ("events", 1): return try context.events(snapshot)
        case ("repairs", 1): return try context.repairs(snapshot)
        default: throw DashboardFailure.notFound
        }
    }

    static func rowNumber(_ text: String) throws(DashboardFailure) -> AnyHandlerID {
        guard let number = Int64(text), number > 0 else { throw .notFound }
        return AnyHandlerID(rawValue: number)
    }
}
