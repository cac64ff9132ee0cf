import Handlers

/// How many handlers a change would meet.
extension Dashboard {
    /// How long one answer counts the handlers that meet a filter.
    private static let countingTime = Duration.seconds(2)

    func context(
        _ values: [String: String], _ access: DashboardAccess, _ reader: StoreReader
    ) -> AnswerContext {
        AnswerContext(
            reader: reader, values: values, access: access, hasWriter: writer != nil, why: why,
            processState: processState, counter: counter)
    }

    // MARK: Counting

    /// Counts the handlers that a change would meet, in many short reads.
    func count(_ context: borrowing AnswerContext) throws -> (members: [String: JSONValue], now: Timestamp) {
        guard let repair = context.values["action"].flatMap(HandlerRepair.init(rawValue:)) else {
            throw DashboardFailure(400, "wrong-value", "'action' names a change of handlers.")
        }
        let now = try context.reader.read { $0.now }
        let counted = try count(context.query(now), repair, context.reader)
        let first = counted.first.map { JSONValue.object(["row": .row($0.id), "handler": .string($0.name)]) }
        return (
            [
                "count": .count(counted.count), "isComplete": .bool(counted.isComplete),
                "first": .array(first),
            ], now
        )
    }

    func count(
        _ query: HandlerQuery, _ repair: HandlerRepair, _ reader: StoreReader
    ) throws -> (count: Int, first: [HandlerStatus], isComplete: Bool) {
        let start = ContinuousClock.now
        var (count, first, next): (Int, [HandlerStatus], AnyHandlerID?) = (0, [], nil)
        repeat {
            let page = try reader.read { try $0.handlers(matching: query, after: next, limit: 1000) }
            let chosen = page.handlers.filter { repair.concerns($0) }
            count += chosen.count
            first += chosen.prefix(5 - first.count)
            next = page.next
        } while next != nil && ContinuousClock.now - start < Self.countingTime
        return (count, first, next == nil)
    }
}
