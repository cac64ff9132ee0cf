extension HandlerStore {
    /// Returns the names of stored handlers for which this program has no definition, sorted.
    ///
    /// Their rows are kept and parked when their turn comes; a program that starts with such names usually lacks a
    /// registration or is older than the store.
    ///
    /// ```swift
    /// let unknown = try store.verify()
    /// guard unknown.isEmpty else { throw StartError("handlers without definition: \(unknown)") }
    /// ```
    ///
    /// - Returns: The names; empty when every stored handler can be called.
    /// - Throws: ``HandlerError`` when the store fails.
    /// - Complexity: In the number of stored handlers; for a program's start, not for a worker's.
    public func verify() throws -> [String] {
        try read { snapshot in
            try snapshot.all("SELECT DISTINCT name FROM handler ORDER BY name") { $0.foreignText(0) }
        }.filter { !registry.knows($0) }.map(\.string)
    }
}
