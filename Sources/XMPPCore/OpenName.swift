/// A name from a list of a protocol that later versions may extend: a condition of an error, a state, a kind.
///
/// Open: a name that this library does not know is kept as it came, so a `switch` needs a `default`.
///
/// ```swift
/// let isKnown = StanzaError.Condition(rawValue: "gone") == .gone
/// ```
public struct OpenName<List>: Hashable, Sendable, RawRepresentable, CustomStringConvertible {
    /// The name as the protocol writes it.
    public let rawValue: ForeignText
    /// Makes a name.
    ///
    /// - Parameter rawValue: The name as the protocol writes it.
    public init(rawValue: ForeignText) { self.rawValue = rawValue }
    public var description: String { rawValue.string }
}
