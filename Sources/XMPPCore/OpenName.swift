/// A name from a list of a protocol that later versions may extend: a condition of an error, a state, a kind.
///
/// Open: a name that this library does not know is kept as it came, so a `switch` needs a `default`.
///
/// ```swift
/// let isGone = StanzaError(.itemNotFound).condition == OpenName<StanzaError>(rawValue: "gone")
/// ```
public struct OpenName<List>: PrintedRawValue, Hashable, Sendable, RawRepresentable,
    CustomStringConvertible
{
    /// The name as the protocol writes it.
    public let rawValue: ForeignText
    /// Makes a name.
    ///
    /// - Parameter rawValue: The name as the protocol writes it.
    public init(rawValue: ForeignText) { self.rawValue = rawValue }
}
