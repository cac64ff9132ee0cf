/// A due row with which a step cannot commit, and nothing after it.
struct FailedRow: Error {
    /// A step is tried so often before the row is quarantined: what failed may have passed.
    private static let mostTries = 3

    let handler: AnyHandlerID
    let reason: StoredReason
    /// After how many tries it is quarantined.
    let mostTries: Int

    /// One that cannot end, because its ending cannot be stored.
    init(_ handler: AnyHandlerID, _ error: any Error) {
        self.handler = handler
        reason = StoredReason("it can neither end nor be tried again: \(plainReason(error))")
        mostTries = Self.mostTries
    }

    /// One without which a row of another table leads nowhere.
    init(dangling handler: AnyHandlerID) {
        self.handler = handler
        reason = StoredReason(HandlerError.referredTo)
        mostTries = 1
    }
}

/// Rows that are passed over until the store is opened again: they fail each step, and cannot even be quarantined.
struct PassedRows {
    /// Beyond it their scopes wait, as they do for a store that fails.
    private static let most = 1000

    private var rows: Set<AnyHandlerID> = []

    /// - Returns: False when there are too many, or it is passed over already.
    mutating func pass(_ handler: AnyHandlerID) -> Bool {
        rows.count < Self.most && rows.insert(handler).inserted
    }

    /// A statement about due rows, without these.
    func excluded(_ sql: String) -> String {
        if rows.isEmpty { return sql }
        let list = rows.map(\.rawValue).sorted().map(String.init).joined(separator: ", ")
        return sql.replacing("ORDER BY", with: "AND id NOT IN (\(list)) ORDER BY")
    }
}
