/// The greatest size of names that programs give, in bytes of UTF-8. Keys and lanes have their own, `NameBounds.key` and
/// `Lanes.longestName`.
///
/// An entry of an index of PostgreSQL has 2704 bytes at most, and a statement that needs a longer one fails, which would undo the whole
/// step. No key of a table has more than two of these names. The bounds are those of SQLite, too, so that each store can move.
package enum NameBounds {
    /// The name of a handler, of an event, of a module, of a scope.
    package static let name = 512
    /// The maximum number of bytes of a key, and of an order key.
    package static let key = 512

    /// Throws `invalidKey` for a name that is too long.
    ///
    /// - Parameter what: What it names, with an article.
    package static func check(_ name: String?, of what: StaticString) throws(HandlerError) {
        guard let name, name.utf8.count > Self.name else { return }
        throw HandlerError(
            .invalidKey,
            "the name of \(what) has \(Self.name) bytes at most, and '\(name.prefix(64))…' has \(name.utf8.count); take a shorter one"
        )
    }
}

extension ForeignText {
    /// Whether it has 1 to `longest` bytes of UTF-8, without U+0000.
    func isName(ofBytes longest: Int) -> Bool { 1...longest ~= utf8.count && !utf8.contains(0) }
}
