/// The greatest sizes of stored texts that others choose, in bytes of UTF-8. docs/internals/bounds.md lists the tables and their rows.
package enum ForeignBounds {
    /// Words for people: a status, a reason, a name. The rest is cut off.
    package static let words = 1024
    /// The subject of a room. The rest is cut off.
    package static let subject = 8192
    /// An id, a password, a version: of no use when it is cut, so a longer one counts as not given.
    package static let token = 1024
    /// An address (RFC 7622 section 3.1: three parts of 1023 bytes each), and one without a resource.
    package static let address = 3071
    package static let bareAddress = 2047
    /// The texts of one key of a table together. An entry of an index of PostgreSQL has 2704 bytes at most, numbers and all; a
    /// statement that needs a longer one fails, and with it the step of the stanza.
    package static let key = 2600
    /// The name of an error's condition, and the text that the program gets with it. The rest is cut off.
    package static let condition = 128
}

extension ForeignBounds {
    /// Returns whether texts together are short enough for one key of a table.
    package static func fitKey(_ texts: any TextConvertible...) -> Bool {
        texts.reduce(0) { $0 + $1.foreignText.utf8.count } <= key
    }
}

extension ForeignText {
    /// The text, unless it is longer than a token may be.
    package var token: ForeignText? { utf8.count > ForeignBounds.token ? nil : self }
}
