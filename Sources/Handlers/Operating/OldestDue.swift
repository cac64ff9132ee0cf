extension ReadableStore where Self: ~Copyable {
    /// Returns the earliest time at which a runner calls or expires a handler by the wall clock; in the past for one that is overdue.
    ///
    /// - Returns: The time; nil when no handler has one.
    /// - Throws: ``HandlerError`` with the codes of the store.
    /// - Complexity: In the number of scopes that have such handlers.
    package func oldestDue() throws(HandlerError) -> Timestamp? {
        let callers = Caller.allCases.map(\.rawValue)
        var times: [Timestamp] =
            try first(
                DueRows.selectNextDueOfProgram, callers[0], callers[1], callers[2], callers[3]
            ) { (row) -> [Timestamp] in
                var times: [Timestamp] = []
                for column in 0..<4 { if let due = row.optionalTimestamp(column) { times.append(due) } }
                return times
            } ?? []
        var last: (scope: String, caller: Int64) = ("", -1)
        while let next = try first(
            DueRows.nextWaiting, last.scope, last.caller,
            read: { (scope: $0.text(0), caller: $0.integer(1), due: $0.timestamp(2)) })
        {
            times.append(next.due)
            last = (next.scope, next.caller)
        }
        return times.min()
    }
}
