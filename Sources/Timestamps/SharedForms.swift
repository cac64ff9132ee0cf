// The forms that public types of several modules share, so that each is written and described once.

/// A raw value that prints as itself.
package protocol PrintedRawValue: RawRepresentable, CustomStringConvertible {}

extension PrintedRawValue {
    public var description: String { "\(rawValue)" }
}

/// A type that is coded as one value of another type.
package protocol CodedAsOneValue: Codable {
    associatedtype CodedValue: Codable

    /// - Throws: Anything, which the decoder reports as corrupted data.
    init(coded: CodedValue) throws
    var coded: CodedValue { get }
}

extension CodedAsOneValue {
    public init(from decoder: any Decoder) throws {
        let coded = try decoder.singleValueContainer().decode(CodedValue.self)
        do {
            try self.init(coded: coded)
        } catch {
            throw DecodingError.dataCorrupted(
                .init(codingPath: decoder.codingPath, debugDescription: "\(error)", underlyingError: error))
        }
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(coded)
    }
}

/// Kind of an error, by a name that stays the same in all versions.
///
/// Open: later versions and other modules may add codes, so a `switch` needs a `default`.
///
/// ```swift
/// extension ErrorCode<HandlerError> { static var closedShop: Self { Self(rawValue: "closed-shop") } }
/// ```
public struct ErrorCode<Failure>: PrintedRawValue, RawRepresentable, Hashable, Sendable, Codable,
    CustomStringConvertible
{
    /// The name, for logs too.
    public let rawValue: String
    /// Makes a code.
    ///
    /// - Parameter rawValue: Its name, the same in all versions.
    public init(rawValue: String) { self.rawValue = rawValue }
}

/// The shape of every error of this library: a code to decide on, a sentence to show, and the error beneath.
///
/// ```swift
/// do {
///     try await account.connect()
/// } catch let error as any CodedError {
///     print("\(error.code): \(error)")
/// }
/// ```
public protocol CodedError: Error, CustomStringConvertible {
    /// Kind of an error, with a stable name.
    associatedtype Code: Hashable, Sendable, CustomStringConvertible

    /// Kind of the error.
    var code: Code { get }
    /// Sentence that says what happened and what to do.
    var message: String { get }
    /// The error beneath; nil when there is none.
    var cause: (any Error)? { get }
}

extension CodedError {
    public var cause: (any Error)? { nil }
}
