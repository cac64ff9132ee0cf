/// An error in the text of a JID.
///
/// ```swift
/// do throws(JIDError) {
///     let jid = try JID(input)
/// } catch {
///     print(error)  // what is wrong, with which part, and what to do
/// }
/// ```
public struct JIDError: DetailedError, CodedError, Hashable {
    /// The part of a JID that is wrong.
    package enum Part: String, Hashable, Sendable {
        /// The part before the `@`.
        case localpart
        /// The server, room service or other host.
        case domainpart
        /// After the first `/`.
        case resourcepart
    }

    /// The kind of error.
    public let code: ErrorCode<JIDError>
    /// The part with the error.
    package let part: Part
    /// The text of that part, cut to 64 bytes.
    package let text: ForeignText
    /// A sentence that says what to do.
    public let message: String

    init(_ code: Code, _ part: Part, _ text: some StringProtocol, _ message: String) {
        self.code = code
        self.part = part
        self.text = ForeignText(String(text)).prefix(bytes: 64)
        self.message = message
    }

    /// The message, with the text it is about.
    package var details: String { "\(message) (\(part.rawValue) '\(text)')" }
}

// MARK: - Codes

extension ErrorCode where Failure == JIDError {
    /// The part is there but holds nothing (`@d`, `a@b/`, an empty string).
    package static var empty: Self { Self(rawValue: "empty") }
    /// The part is longer than 1023 octets of UTF-8.
    package static var tooLong: Self { Self(rawValue: "tooLong") }
    /// The part holds a character that its profile forbids.
    package static var forbiddenCharacter: Self { Self(rawValue: "forbiddenCharacter") }
    /// The part holds letters that run to the left in a way in which it could be taken for another.
    package static var mixedDirection: Self { Self(rawValue: "mixedDirection") }
    /// The domain has an empty label, one that is longer than 63 octets in DNS, one with a hyphen or a combining mark
    /// where none may be, or one that starts with `xn--` and is not what it should be.
    package static var invalidLabel: Self { Self(rawValue: "invalidLabel") }
    /// The domain is in brackets but no IPv6 address.
    package static var invalidAddress: Self { Self(rawValue: "invalidAddress") }
    /// The domain ends in a port; a JID names an entity, not an endpoint.
    package static var port: Self { Self(rawValue: "port") }
}
