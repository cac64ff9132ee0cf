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
    /// A floating-point number; one that is not a number is refused.
    case real(Double)
    /// A text, as UTF-8, without U+0000.
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

/// What one engine cannot store, none does: a program shall not learn of it when it changes the engine.
extension SQLValue {
    package static func refusalOfNUL(place: Int, of sql: String) -> HandlerError {
        HandlerError(
            .argumentNotEncodable,
            "value \(place) of '\(sql)' has a character NUL, which no text in a store may have; store it as bytes"
        )
    }

    package static func refusalOfNaN(place: Int, of sql: String) -> HandlerError {
        HandlerError(
            .argumentNotEncodable,
            "value \(place) of '\(sql)' is not a number; store NULL if that is meant")
    }
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
