/// The greatest size of names that programs give, in bytes of UTF-8. Keys and lanes have their own, `Transaction.longestKey` and
/// `Lanes.longestName`.
///
/// An entry of an index of PostgreSQL has 2704 bytes at most, and a statement that needs a longer one fails, which would undo the whole
/// step. No key of a table has more than two of these names. The bounds are those of SQLite, too, so that each store can move.
package enum NameBounds {
    /// The name of a handler, of an event, of a module, of a scope.
    package static let name = 512

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
