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
/// Integers, `Bool`, `Timestamp`, ``JID`` and ``/Timestamps/ForeignText`` are such values. An enum whose raw values are
/// strings becomes one by saying so; its raw values must be ASCII of at most 64 bytes:
///
/// ```swift
/// enum Mood: String, CaseIterable, ForeignValue { case merry, sad }
/// ```
///
/// White space around numbers, truth values and times means nothing (XML Schema part 2, section 4.3.6). Elsewhere it is part of
/// the text.
public protocol ForeignValue: Sendable {
    /// Reads a value; nil when the text is none.
    ///
    /// - Parameter text: What a peer wrote.
    init?(foreign text: ForeignText)
}

// MARK: - Numbers and truth values

extension ForeignValue where Self: FixedWidthInteger {
    /// Reads an optional sign and decimal digits (XML Schema part 2, section 3.3.13).
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
    /// Reads an address; ``JID/init(_:)`` says what is wrong with one.
    ///
    /// - Parameter text: What a peer wrote.
    public init?(foreign text: ForeignText) {
        guard let jid = try? JID(received: text) else { return nil }
        self = jid
    }
}

extension Timestamp: ForeignValue {
    /// Reads a time (XEP-0082 section 3.2).
    ///
    /// - Parameter text: What a peer wrote.
    public init?(foreign text: ForeignText) { self.init(text.collapsed) }
}

extension ForeignValue where Self: RawRepresentable, RawValue == String {
    /// Reads a word of the list, compared byte by byte.
    ///
    /// - Parameter text: What a peer wrote.
    public init?(foreign text: ForeignText) { self.init(text) }
}

// MARK: - Values that are written as text

extension RawRepresentable where RawValue == String {
    /// Makes the value that a foreign text names. All raw values are ASCII of at most 64 bytes; another text is not compared.
    package init?(_ text: ForeignText) {
        guard text.utf8.count <= 64, text.utf8.allSatisfy({ $0 < 0x80 }) else { return nil }
        self.init(rawValue: text.string)
    }
}

extension FixedWidthInteger {
    /// Makes the integer of a decimal text; nil if it is not an integer, or outside the range of the type.
    ///
    /// - Parameter text: An optional sign and digits, with white space around them or without.
    package init?(_ text: ForeignText) { self.init(text.collapsed.string) }
}

/// What an error asks for in the place of a value: `a whole number from 0 to 255`.
func expectation(of type: any ForeignValue.Type) -> String {
    switch type {
    case let type as any FixedWidthInteger.Type: wholeNumber(type)
    case is Bool.Type: "true, false, 1 or 0"
    case is ForeignText.Type: "a text"
    case is JID.Type: "an address, localpart@domainpart/resourcepart"
    case is Timestamp.Type: "a time such as 2025-11-20T22:00:00Z"
    case let type as any (RawRepresentable<String> & CaseIterable).Type: "one of \(words(type))"
    default: "a \(type)"
    }
}

private func wholeNumber<Number: FixedWidthInteger>(_: Number.Type) -> String {
    "a whole number from \(Number.min) to \(Number.max)"
}

private func words<Word: RawRepresentable<String> & CaseIterable>(_: Word.Type) -> String {
    Word.allCases.map(\.rawValue).joined(separator: ", ")
}

extension ChatState: ForeignValue {}
extension IQ.Kind: ForeignValue {}
extension Message.Kind: ForeignValue {}
extension Presence.Kind: ForeignValue {}
extension StanzaError.Kind: ForeignValue {}
extension DataForm.Kind: ForeignValue {}
