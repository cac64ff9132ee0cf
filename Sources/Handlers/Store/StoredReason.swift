/// The words in a row that say why a handler failed, waits or was quarantined.
///
/// They may quote anything: what a peer has sent, or what a program throws. Every engine can store them.
///
/// ```swift
/// StoredReason("unknown command 'a\0b'").words  // "unknown command 'a␀b'"
/// ```
struct StoredReason: SQLConvertible {
    /// The maximum number of stored bytes.
    static let longest = 4096

    private(set) var words: String

    init(_ words: String) { self.words = Self.storable(words) }

    init(_ error: any Error) { self.init(plainReason(error)) }

    var sqlValue: SQLValue { .text(words) }

    mutating func add(_ more: String) { words = Self.storable(words + more) }

    /// PostgreSQL has no text with U+0000; its sign takes the character's place.
    private static func storable(_ words: String) -> String {
        // Before anything else: what is quoted may be long.
        let words = words.cut(toBytes: longest)
        guard words.utf8.contains(0) else { return words }
        // Bytes, as what is quoted may be foreign.
        let bytes = words.utf8.flatMap { $0 == 0 ? Array("␀".utf8) : [$0] }
        return String(decoding: bytes, as: UTF8.self).cut(toBytes: longest)
    }
}

extension HandlerError {
    /// A handler cannot end, because a row of another table would lead nowhere without its own.
    static let referredTo = HandlerError(
        .sql,
        "another row refers to this handler, so that it cannot end by itself; end it where that row is deleted, or delete that row"
    )
}
