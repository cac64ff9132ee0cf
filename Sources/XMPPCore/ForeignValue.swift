// The one type for a point in time, which Handlers exports too.
@_exported public import Timestamps

/// A value that XMPP writes as text: a number, a truth value, a time, an address, a word of a list.
///
/// ```swift
/// let code = try status.value(of: "code", as: Int.self)
/// let stamp = try delay.value(of: "stamp", as: Timestamp.self)
/// let isLast = try fin.optionalValue(of: "complete", as: Bool.self) ?? false
/// ```
///
/// Integers, `Bool`, `Timestamp`, ``CalendarDate``, ``JID`` and ``ForeignText`` are such values. An enum whose raw values are
/// strings becomes one by saying so; its raw values must be ASCII of at most 64 bytes:
///
/// ```swift
/// enum Mood: String, CaseIterable, ForeignValue { case merry, sad }
/// ```
///
/// White space around numbers, truth values and times means nothing (XML Schema part 2, section 4.3.6). Elsewhere it is part of
/// the text.
public protocol ForeignValue: Sendable {
    /// A description of valid texts, for errors: `a whole number from 0 to 255`.
    static var expectation: String { get }

    /// Reads a value; nil when the text is none.
    ///
    /// - Parameter text: What a peer wrote.
    init?(foreign text: ForeignText)
}

// MARK: - Numbers and truth values

extension ForeignValue where Self: FixedWidthInteger {
    public static var expectation: String { "a whole number from \(min) to \(max)" }

    /// Reads a sign, which may be missing, and decimal digits (XML Schema part 2, section 3.3.13).
    ///
    /// - Parameter text: What a peer wrote; nil comes of a number that the type does not hold.
    public init?(foreign text: ForeignText) { self.init(text) }
}

extension Int: ForeignValue {}
extension Int8: ForeignValue {}
extension Int16: ForeignValue {}
extension Int32: ForeignValue {}
extension Int64: ForeignValue {}
extension UInt: ForeignValue {}
extension UInt8: ForeignValue {}
extension UInt16: ForeignValue {}
extension UInt32: ForeignValue {}
extension UInt64: ForeignValue {}

extension Bool: ForeignValue {
    public static var expectation: String { "true, false, 1 or 0" }

    /// Reads `true`, `false`, `1` or `0` (XML Schema part 2, section 3.2.2).
    ///
    /// - Parameter text: What a peer wrote.
    public init?(foreign text: ForeignText) {
        switch text.collapsed {
        case "true", "1": self = true
        case "false", "0": self = false
        default: return nil
        }
    }
}

// MARK: - Texts, addresses, times and words

extension ForeignText: ForeignValue {
    public static var expectation: String { "a text" }

    /// Takes any text as it is.
    ///
    /// - Parameter text: What a peer wrote.
    public init?(foreign text: ForeignText) { self = text }

    /// The text without white space at its ends.
    var collapsed: ForeignText {
        let bytes = utf8
        guard let first = bytes.first, let last = bytes.last, Self.isSpace(first) || Self.isSpace(last) else {
            return self
        }
        let inside = bytes.drop(while: Self.isSpace)
        let end = inside.lastIndex { !Self.isSpace($0) }
        return end.map { ForeignText(String(string[inside.startIndex...$0])) } ?? ""
    }

    /// The white space of XML 1.0, section 2.3.
    private static func isSpace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D
    }
}

extension JID: ForeignValue {
    public static var expectation: String { "an address, localpart@domainpart/resourcepart" }

    /// Reads an address; ``JID/init(_:)`` says what is wrong with one.
    ///
    /// - Parameter text: What a peer wrote.
    public init?(foreign text: ForeignText) {
        guard let jid = try? JID(text) else { return nil }
        self = jid
    }
}

extension Timestamp: ForeignValue {
    public static var expectation: String { "a time such as 2025-11-20T22:00:00Z" }

    /// Reads a time (XEP-0082 section 3.2).
    ///
    /// - Parameter text: What a peer wrote.
    public init?(foreign text: ForeignText) {
        self.init(text.collapsed)
    }
}

extension ForeignValue where Self: RawRepresentable, RawValue == String {
    public static var expectation: String { "a \(Self.self)" }

    /// Reads a word of the list, compared byte by byte.
    ///
    /// - Parameter text: What a peer wrote.
    public init?(foreign text: ForeignText) { self.init(text) }
}

extension ForeignValue where Self: RawRepresentable & CaseIterable, RawValue == String {
    public static var expectation: String {
        "one of " + allCases.map(\.rawValue).joined(separator: ", ")
    }
}

extension ChatState: ForeignValue {}
extension IQ.Kind: ForeignValue {}
extension Message.Kind: ForeignValue {}
extension Presence.Kind: ForeignValue {}
extension StanzaError.Kind: ForeignValue {}
extension DataForm.Kind: ForeignValue {}
