// The one type for a point in time, which XMPPCore exports too.
@_exported public import Timestamps

/// A value bound to a statement's parameter or read from a row.
///
/// The five storage classes of SQLite.
public enum SQLValue: Hashable, Sendable {
    /// SQL's NULL.
    case null
    /// An integer of up to 64 bits with a sign.
    case integer(Int64)
    /// A floating-point number. SQLite stores one that is not a number as NULL.
    case real(Double)
    /// A text, as UTF-8.
    case text(String)
    /// Bytes as they are.
    case blob([UInt8])
}

/// A type that can be bound to a statement's parameter.
///
/// Texts, numbers, truth values, bytes, times, ``AnyHandlerID``, and optionals of them are. A type of a program's own:
///
/// ```swift
/// extension Color: SQLConvertible {
///     var sqlValue: SQLValue { .text(name) }
/// }
/// ```
public protocol SQLConvertible {
    /// The value as SQLite stores it.
    var sqlValue: SQLValue { get }
}

extension SQLValue: SQLConvertible {
    public var sqlValue: SQLValue { self }
}
extension SQLConvertible where Self: FixedWidthInteger {
    public var sqlValue: SQLValue { .integer(Int64(self)) }
}
extension Int: SQLConvertible {}
extension Int64: SQLConvertible {}
extension UInt32: SQLConvertible {}
extension Timestamp: SQLConvertible {
    /// Milliseconds since 1970, UTC.
    public var sqlValue: SQLValue { .integer(milliseconds) }
}
extension Bool: SQLConvertible {
    public var sqlValue: SQLValue { .integer(self ? 1 : 0) }
}
extension Double: SQLConvertible {
    public var sqlValue: SQLValue { .real(self) }
}
extension String: SQLConvertible {
    public var sqlValue: SQLValue { .text(self) }
}
extension [UInt8]: SQLConvertible {
    public var sqlValue: SQLValue { .blob(self) }
}
extension Optional: SQLConvertible where Wrapped: SQLConvertible {
    public var sqlValue: SQLValue {
        switch self {
        case .some(let value): value.sqlValue
        case .none: .null
        }
    }
}
extension HandlerID: SQLConvertible {
    public var sqlValue: SQLValue { .integer(rawValue) }
}
