package import Handlers

/// Looking into a store, and changing it behind the back of those who use it.
extension HandlerStore {
    /// The first column of every row.
    package func texts(_ sql: String) throws -> [String] {
        try step { step in try step.all(sql) { (row) throws(HandlerError) in row.text(0) } }
    }

    /// One number; 0 where there is none.
    package func number(_ sql: String) throws -> Int64 {
        try step { step in try step.first(sql) { (row) throws(HandlerError) in row.integer(0) } ?? 0 }
    }

    package func change(_ sql: String) throws { _ = try step { try $0.execute(sql) } }
}
