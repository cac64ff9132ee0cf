/// Changes of many handlers by hand.
extension HandlerStore {
    /// The result of a step that changed handlers by hand.
    public struct RepairedPage: Sendable {
        /// The handlers that were changed, as they were before.
        public var repaired: [HandlerStatus] = []
        /// The handlers that could not be changed, with the reasons; nothing was changed about these.
        public var refused: [(handler: HandlerStatus, reason: String)] = []
        /// The row after which to go on; nil when all handlers were looked at.
        public var next: AnyHandlerID?
    }

    /// The maximum number of handlers that one step changes.
    public static let mostRepaired = 1000

    /// Changes handlers that meet a query, at most 1000 of them in one step, and stores who did it and why.
    ///
    /// A process that dies between two steps has done whole ones; the same call goes on with what is left.
    ///
    /// ```swift
    /// var query = HandlerQuery()
    /// query.name = "mail.send"
    /// var start: AnyHandlerID?
    /// repeat {
    ///     start = try store.repair(query, .requeue, by: RepairAuthor("ada"), after: start).next
    /// } while start != nil
    /// ```
    ///
    /// - Parameters:
    ///   - query: The conditions. With ``HandlerRepair/requeue`` only parked and quarantined handlers meet it.
    ///   - repair: What to do with each.
    ///   - author: Who does it, and why.
    ///   - start: The row after which to start; nil for the oldest.
    /// - Returns: What was done, and where to go on.
    /// - Throws: ``HandlerError`` when the store fails; then nothing of this step was done.
    public func repair(
        _ query: HandlerQuery, _ repair: HandlerRepair, by author: RepairAuthor,
        after start: AnyHandlerID? = nil
    ) throws -> RepairedPage {
        try self.repair(query, repair, by: author, after: start) { _, _ in }
    }

    /// - Parameter releasing: Removes what modules keep for a handler that is about to end.
    package func repair(
        _ query: HandlerQuery, _ repair: HandlerRepair, by author: RepairAuthor, after start: AnyHandlerID?,
        releasing: (AnyHandlerID, borrowing Step) throws -> Void
    ) throws -> RepairedPage {
        let page = try read {
            try $0.handlers(matching: query, after: start, limit: Self.mostRepaired)
        }
        let chosen = page.handlers.filter { repair.concerns($0) }
        var result = RepairedPage(next: page.next)
        if chosen.isEmpty { return result }
        try step { step in
            // The step may run a second time.
            (result.repaired, result.refused) = ([], [])
            for handler in chosen {
                do {
                    try step.undoingOnError {
                        if repair.ends { try releasing(handler.id, step) }
                        try step.repair(handler.id, repair, by: author)
                    }
                    result.repaired.append(handler)
                } catch {
                    guard step.isUsable else { throw error }
                    result.refused.append((handler, plainReason(error)))
                }
            }
        }
        return result
    }
}

extension HandlerRepair {
    /// Whether the handler has ended afterwards.
    package var ends: Bool { self == .invalidate || self == .discard }

    /// Whether it is meant for handlers in this state.
    package func concerns(_ handler: HandlerStatus) -> Bool {
        switch self {
        case .requeue: handler.state == .parked || handler.state == .quarantined
        case .runNow: handler.state == .pending
        case .pause, .resume: handler.isStanding
        case .invalidate, .discard: true
        }
    }
}
