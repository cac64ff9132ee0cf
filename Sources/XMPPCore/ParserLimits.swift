/// The limits of what `StreamParser` holds in memory for a peer. What is beyond one of these inside a first-level element is left out:
/// the member of a list, or else the whole element (`ParserFault.reach`). The stream itself ends with `policy-violation` beyond `headerBytes`,
/// `headerNamespaceBytes` and `skippedBytes`. With the defaults, the worst stanza found (1 MiB of ever new attribute names)
/// costs 12 MiB while it is read, 1 MiB of text 5 MiB.
///
/// ```swift
/// var limits = ParserLimits()
/// limits.stanzaBytes = 256 << 10
/// let parser = try StreamParser(limits: limits)
/// ```
///
/// Source: RFC 6120 section 4.9.3.14 and 13.12 (a stanza of 10 000 bytes must be accepted).
package struct ParserLimits: Hashable, Sendable {
    /// Bytes of one first-level element, markup included. Default 1 MiB, at least 10 000.
    package var stanzaBytes = 1 << 20
    /// Bytes of the stream header. Default 16 KiB.
    package var headerBytes = 16 << 10
    /// Bytes of the prefixes and namespaces that the stream header declares, as they are written again after each element that
    /// libxml2 refuses. Default 2 KiB.
    package var headerNamespaceBytes = 2 << 10
    /// Elements inside each other, the stream header counted. Default 64.
    package var depth = 64
    /// Attributes of one element, namespace declarations counted. Default 64.
    package var attributes = 64
    /// Elements in one first-level element, itself counted. Default 32 768.
    package var elements = 32 << 10
    /// Bytes of one run of character data or of one attribute value, as escaped on the wire. Default 1 MiB.
    package var textBytes = 1 << 20
    /// Bytes of an element that is left out, markup included, while its end is looked for. Nothing of it is held. Default
    /// 16 MiB.
    package var skippedBytes = 16 << 20
    /// Bytes of start tags of one first-level element that are read once more after members of its lists that were left
    /// out. Beyond it the element is left out as a whole. Default 4 MiB.
    package var replayedBytes = 4 << 20

    /// The defaults.
    package static let standard = ParserLimits()

    /// Limits with the defaults, to be changed one by one.
    package init() {}
}
