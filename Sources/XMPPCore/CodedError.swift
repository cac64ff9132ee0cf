/// The shape of every error of this library: a code to decide on, a sentence to show, and the error beneath.
///
/// ```swift
/// do {
///     try await account.connect()
/// } catch let error as any CodedError {
///     print("\(error.code): \(error)")
/// }
/// ```
///
/// `HandlerError` has the same shape.
public protocol CodedError: Error, CustomStringConvertible {
    /// Kind of an error, with a stable name.
    associatedtype Code: Hashable, Sendable, CustomStringConvertible

    /// Kind of the error.
    var code: Code { get }
    /// What happened and what to do, in one sentence.
    var message: String { get }
    /// The error beneath; nil when there is none.
    var cause: (any Error)? { get }
}

extension CodedError {
    public var cause: (any Error)? { nil }

    /// The message, on one line and without characters that steer a terminal (``VisibleText``).
    public var description: String { VisibleText(message).description }

    /// The message, and the cause in parentheses, in the form of ``description``.
    package var messageWithCause: String {
        VisibleText(cause.map { "\(message) (\($0))" } ?? message).description
    }
}

/// Kind of an error, by a name that stays the same in all versions.
///
/// Open: later versions and other modules may add codes, so a `switch` needs a `default`.
///
/// ```swift
/// extension AccountError.Code { static var closedShop: Self { Self(rawValue: "closed-shop") } }
/// ```
public struct ErrorCode<Failure>: RawRepresentable, Hashable, Sendable, Codable, CustomStringConvertible {
    /// The name, for logs too.
    public let rawValue: String
    /// Makes a code.
    ///
    /// - Parameter rawValue: Its name, the same in all versions.
    public init(rawValue: String) { self.rawValue = rawValue }
    public var description: String { rawValue }
}

/// Words of a server, the system or a library about an error, as the cause of an error of this library.
package struct ReportedWords: Error, Hashable, CustomStringConvertible {
    package let description: String

    package init(_ words: String) { description = words }
}
