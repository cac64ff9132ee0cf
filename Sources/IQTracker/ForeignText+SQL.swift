public import Handlers
public import XMPPCore

extension ForeignText: SQLConvertible {
    /// A text; SQLite compares its bytes.
    public var sqlValue: SQLValue { .text(string) }
}
