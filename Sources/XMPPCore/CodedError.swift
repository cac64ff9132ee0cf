extension CodedError {
    /// The message, on one line and without characters that steer a terminal.
    public var description: String { VisibleText(message).description }

    /// The message, and the cause in parentheses.
    package var messageWithCause: String { cause.map { "\(message) (\($0))" } ?? message }
}

/// An error of the library whose description says more than its message.
package protocol DetailedError: CodedError {
    /// The message with its details, unescaped.
    var details: String { get }
    /// ``CodedError/cause``, of the type that the error stores it in.
    var storedCause: (any Error)? { get }
}

extension DetailedError {
    package var storedCause: (any Error)? { nil }
    public var cause: (any Error)? { storedCause }
    public var description: String { VisibleText(details).description }
}

/// Words of a server, the system or a library about an error, as the cause of an error of this library.
package struct ReportedWords: Error, Hashable, CustomStringConvertible {
    package let description: String

    package init(_ words: String) { description = words }
}
