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
