/// The prepared statements of one connection, found by their text.
///
/// Every step looks up half a dozen. A dictionary would read the whole text for its hash and once more to compare;
/// here a few bytes choose the bucket, and one comparison of bytes follows.
struct StatementCache {
    private static let bucketCount = 128
    private static let sampledBytes = 8

    private var buckets = [[Statement]](repeating: [], count: bucketCount)
    /// The number of statements.
    private(set) var count = 0

    func statement(_ sql: String) -> Statement? {
        // By bytes: literals may differ in their Unicode forms only.
        let text = Name(sql)
        for statement in buckets[Self.bucket(sql)] where text == statement.sql { return statement }
        return nil
    }

    mutating func insert(_ statement: Statement) {
        buckets[Self.bucket(statement.sql)].append(statement)
        count += 1
    }

    mutating func removeAll() { self = StatementCache() }

    private static func bucket(_ sql: String) -> Int {
        var sql = sql
        return sql.withUTF8 { bytes in
            var hash = bytes.count
            for index in stride(from: 0, to: bytes.count, by: bytes.count / sampledBytes + 1) {
                hash = hash &* 31 &+ Int(bytes[index])
            }
            return hash & (bucketCount - 1)
        }
    }
}
