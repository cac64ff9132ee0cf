/// The text of a message for clients that do not support an extension.
///
/// ```swift
/// let text = message.body(understanding: [Namespaces.replies])     // without the quoted lines
/// ```
///
/// Source: XEP-0428 version 0.2.
public struct MessageFallback: Hashable, Sendable {
    /// A part of the text, in code points (XEP-0426 section 2).
    public enum Region: Hashable, Sendable {
        /// A range of the body; nil for all of it.
        case body(Range<Int>?)
        /// A range of the subject; nil for all of it.
        case subject(Range<Int>?)
    }

    /// The maximum number of regions in an element, and of elements in a message.
    package static let maximumCount = 32

    /// The extension's namespace. Nil if the message names none, so that no client supports it.
    public var feature: ForeignText?
    /// The parts of the text. None means all of the body and of the subject.
    public var regions: [Region]

    /// Makes a fallback.
    ///
    /// - Parameters:
    ///   - feature: The extension's namespace.
    ///   - regions: The parts of the text, within it; none means all of the body and of the subject.
    public init(for feature: some TextConvertible, _ regions: [Region] = []) {
        (self.feature, self.regions) = (feature.foreignText, regions)
    }

    /// Reads `<fallback/>`. Regions after `maximumCount` others are left out, so that what they mean is shown.
    ///
    /// - Parameter element: The element.
    /// - Throws: ``ElementValueError`` when a region has a start without an end, an end without a start or in front of
    ///   it, or what is no number.
    package init(_ element: Element) throws(ElementValueError) {
        feature = element["for"]
        regions = []
        for child in element.elements where child.namespace == Namespaces.fallback {
            guard regions.count < Self.maximumCount else { break }
            switch child.name {
            case "body": regions.append(.body(try child.range()))
            case "subject": regions.append(.subject(try child.range()))
            default: break
            }
        }
    }

    /// The fallback as XML, to be added to a message.
    public var element: Element {
        Element(
            "fallback", namespace: Namespaces.fallback, attributes: ["for": feature],
            children: regions.map { region in
                let (name, range) =
                    switch region {
                    case .body(let range): ("body", range)
                    case .subject(let range): ("subject", range)
                    }
                return Element(
                    name, namespace: Namespaces.fallback,
                    attributes: [
                        "start": range.map { String($0.lowerBound) },
                        "end": range.map { String($0.upperBound) },
                    ])
            })
    }
}

extension Element {
    /// A region's start and end; nil without both, which means everything.
    fileprivate func range() throws(ElementValueError) -> Range<Int>? {
        guard self["start"] != nil || self["end"] != nil else { return nil }
        let start = try value(of: "start", as: UInt32.self)
        let end = try value(of: "end", as: UInt32.self)
        guard start <= end else { throw ElementValueError(self, .attribute("end"), self["end"], UInt32.self) }
        return Int(start)..<Int(end)
    }
}

extension Message {
    /// The fallbacks that this message has. Those that break the rules are left out, so that their text is shown.
    public var fallbacks: [MessageFallback] {
        guard type != .error else { return [] }
        return element.children("fallback", Namespaces.fallback).prefix(MessageFallback.maximumCount)
            .compactMap { try? MessageFallback($0) }
    }

    /// Returns the body without the text for clients that do not support the named extensions.
    ///
    /// A region that goes beyond the body means nothing there, and hides nothing.
    ///
    /// - Parameter features: The namespaces of extensions whose content the program shows otherwise, such as
    ///   `Namespaces.replies` when it shows the message that is answered.
    /// - Returns: What remains of ``body``; nil when nothing does.
    ///
    /// Source: XEP-0428 section 2.2.
    public func body(understanding features: [String]) -> ForeignText? {
        guard let body else { return nil }
        var ranges: [Range<Int>] = []
        for fallback in fallbacks where fallback.feature.map({ features.contains($0) }) == true {
            if fallback.regions.isEmpty || fallback.regions.contains(.body(nil)) { return nil }
            for case .body(let range?) in fallback.regions { ranges.append(range) }
        }
        let rest = ranges.isEmpty ? body : body.removing(ranges)
        return rest.isEmpty ? nil : rest
    }
}

extension ForeignText {
    /// The text without some of its code points; a range that ends beyond it removes none.
    func removing(_ ranges: [Range<Int>]) -> ForeignText {
        let count = utf8.count { !UTF8.isContinuation($0) }
        var next = ranges.filter { $0.upperBound <= count }.sorted { $0.lowerBound < $1.lowerBound }[...]
        var kept: [UInt8] = []
        var position = -1
        for byte in utf8 {
            if !UTF8.isContinuation(byte) { position += 1 }
            while let range = next.first, range.upperBound <= position { next.removeFirst() }
            if next.first?.contains(position) != true { kept.append(byte) }
        }
        return ForeignText(decoding: kept)
    }
}
