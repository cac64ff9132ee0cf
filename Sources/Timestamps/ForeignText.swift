private import Platform

/// Text that others have written or named, compared byte by byte.
///
/// ```swift
/// if message.body == "help" { … }          // compares UTF-8 bytes
/// switch element.name {                    // so does this
/// case "ping": …
/// default: …
/// }
/// print(message.body?.string ?? "")        // a String, to show or to keep
/// ```
///
/// Comparing and hashing a `String` normalizes Unicode first. A run of combining marks costs quadratic time there: one
/// `==` of 200 KB of them takes seconds. Names, namespaces, values and text of elements therefore have this type, and so has
/// all that is read from them. Equality, hashing, order and `switch` look at bytes in linear time, as XMPP does
/// (RFC 6120 compares names, namespaces, ids and types octet by octet). Two texts that look alike but are composed
/// differently are not equal. Databases compare texts in the same way, so what a store keeps apart or finds has this type in memory:
/// names of handlers, lanes, scopes and keys, which may come from users, too.
///
/// Use ``string`` for showing, searching and storing; do not compare or hash that ``string``.
public struct ForeignText: Sendable {
    /// The text as a `String`, for showing and storing.
    public let string: String

    /// Makes a text that is compared byte by byte.
    ///
    /// - Parameter string: The text.
    public init(_ string: String) { self.string = string }

    /// Decodes UTF-8; what is broken becomes U+FFFD.
    ///
    /// - Parameter bytes: The bytes.
    package init(decoding bytes: some Collection<UInt8>) { string = String(decoding: bytes, as: UTF8.self) }

    /// The bytes.
    package var utf8: String.UTF8View { string.utf8 }

    /// Whether there are no bytes.
    public var isEmpty: Bool { string.utf8.isEmpty }

    /// Returns whether the bytes start with those of another text.
    ///
    /// - Parameter prefix: The other text.
    /// - Returns: Whether this text starts with it; always for an empty prefix.
    public func hasPrefix(_ prefix: some TextConvertible) -> Bool {
        let prefix = prefix.foreignText
        return utf8.count >= prefix.utf8.count
            && Self.withBytes(string, prefix.string) { all, start in
                Self.order(UnsafeRawBufferPointer(rebasing: all[..<start.count]), start) == 0
            }
    }

    /// Returns whether the bytes end with those of another text.
    ///
    /// - Parameter suffix: The other text.
    /// - Returns: Whether this text ends with it; always for an empty suffix.
    package func hasSuffix(_ suffix: some TextConvertible) -> Bool {
        let suffix = suffix.foreignText
        return utf8.count >= suffix.utf8.count
            && Self.withBytes(string, suffix.string) { all, end in
                Self.order(UnsafeRawBufferPointer(rebasing: all.suffix(end.count)), end) == 0
            }
    }

    /// Returns the first bytes, up to the last character that is whole within a limit.
    ///
    /// - Parameter limit: Bytes, 0 or more.
    /// - Returns: This text when it is within the limit, else its start.
    package func prefix(bytes limit: Int) -> ForeignText {
        if utf8.count <= limit { return self }
        var end = utf8.index(utf8.startIndex, offsetBy: limit)
        while end > utf8.startIndex, UTF8.isContinuation(utf8[end]) { end = utf8.index(before: end) }
        return ForeignText(String(string[..<end]))
    }
}

// MARK: - Comparing

extension ForeignText: Hashable, Comparable {
    /// Returns whether both have the same bytes.
    public static func == (left: ForeignText, right: ForeignText) -> Bool {
        isEqual(left.string, right.string)
    }

    /// Returns whether the bytes of `left` come first, as `memcmp` orders them.
    public static func < (left: ForeignText, right: ForeignText) -> Bool {
        withBytes(left.string, right.string) { left, right in
            let order = order(left, right)
            return order == 0 ? left.count < right.count : order < 0
        }
    }

    /// Hashes the bytes.
    public func hash(into hasher: inout Hasher) {
        var string = string
        string.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        hasher.combine(UInt8(0xFF))  // No text holds that byte: it keeps two texts in a row apart.
    }

    private static func isEqual(_ left: String, _ right: String) -> Bool {
        left.utf8.count == right.utf8.count && withBytes(left, right) { order($0, $1) == 0 }
    }

    private static func withBytes(
        _ left: String, _ right: String, _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) -> Bool
    ) -> Bool {
        var (left, right) = (left, right)
        return left.withUTF8 { left in
            right.withUTF8 { body(UnsafeRawBufferPointer(left), UnsafeRawBufferPointer($0)) }
        }
    }

    /// The order of the bytes that both have.
    private static func order(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Int32 {
        guard let start = left.baseAddress, let other = right.baseAddress else { return 0 }
        return Bytes.order(start, other, count: min(left.count, right.count))
    }
}

// Constants of the program are Strings. Compared with these functions, they are compared byte by byte, too.
extension ForeignText {
    /// Returns whether both have the same bytes.
    package static func == (left: ForeignText, right: String) -> Bool { isEqual(left.string, right) }
    /// Returns whether the bytes differ.
    package static func != (left: ForeignText, right: String) -> Bool { !isEqual(left.string, right) }
    /// Returns whether both have the same bytes, for `switch`.
    package static func ~= (pattern: String, text: ForeignText) -> Bool { isEqual(pattern, text.string) }
}

// MARK: - Making and reading

extension ForeignText: ExpressibleByStringInterpolation {
    /// Makes the text of a literal.
    public init(stringLiteral value: String) { self.init(value) }
}

extension ForeignText: CustomStringConvertible, CustomDebugStringConvertible {
    /// The text.
    public var description: String { string }
    /// The text in quotation marks, with its control characters escaped.
    public var debugDescription: String { string.debugDescription }
}

extension ForeignText: CodedAsOneValue, Codable {
    package init(coded: String) { string = coded }
    package var coded: String { string }
}

/// A type that XMPP text can be made from: a `String` of the program, or a ``ForeignText``.
///
/// ```swift
/// let echo = Message(to: sender, body: message.body)   // a ForeignText
/// let answer = Message(to: sender, body: "Good day")   // a String
/// ```
public protocol TextConvertible: Sendable {
    /// The text.
    var foreignText: ForeignText { get }
}

extension ForeignText: TextConvertible {
    /// Itself.
    public var foreignText: ForeignText { self }
}

extension String: TextConvertible {
    /// The same text, to be compared byte by byte.
    public var foreignText: ForeignText { ForeignText(self) }
}

extension Substring: TextConvertible {
    /// The same text, to be compared byte by byte.
    public var foreignText: ForeignText { ForeignText(String(self)) }
}
