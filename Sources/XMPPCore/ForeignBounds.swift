/// The greatest sizes of stored texts that others choose, in bytes of UTF-8. docs/internals/bounds.md lists the tables and their rows.
package enum ForeignBounds {
    /// Words for people: a status, a reason, a name. The rest is cut off.
    package static let words = 1024
    /// The subject of a room. The rest is cut off.
    package static let subject = 8192
    /// An id, a password, a version: of no use when it is cut, so a longer one counts as not given.
    package static let token = 1024
    /// The name of an error's condition, and the text that the program gets with it. The rest is cut off.
    package static let condition = 128
}

extension ForeignText {
    /// The text, unless it is longer than a token may be.
    package var token: ForeignText? { utf8.count > ForeignBounds.token ? nil : self }
}
