extension Element {
    /// Reads the standalone form that `serialized(defaultNamespace:)` writes, such as a stanza kept in a database.
    ///
    /// ```swift
    /// let copy = try Element(parsing: element.serialized())      // == element
    /// ```
    ///
    /// - Parameters:
    ///   - text: Exactly one element, without XML declaration; white space around it is allowed.
    ///   - defaultNamespace: The default namespace that was in force where the text stood.
    /// - Throws: `StreamParserError` when the text is not exactly one well-formed element within the limits of a stanza.
    public init(parsing text: String, defaultNamespace: any TextConvertible = "") throws(StreamParserError) {
        try self.init(parsing: text, defaultNamespace: defaultNamespace, limits: .standard)
    }

    /// Reads the standalone form within other limits.
    package init(
        parsing text: String, defaultNamespace: any TextConvertible = "", limits: ParserLimits
    ) throws(StreamParserError) {
        // The text stands in a stream of its own, so that the same rules hold for it as for what a peer sends.
        let parser = try StreamParser(limits: limits)
        var events = try parser.parse(Serializer.streamHeader(to: nil, contentNamespace: defaultNamespace))
        events += try parser.parse(text)
        events += try parser.parse(Serializer.streamEnd)
        for case .refused(let refused) in events { throw refused.reason }
        guard events.count == 3, case .element(let element) = events[1], events[2] == .closed else {
            throw StreamParserError(.badFormat, "The text is not exactly one element.")
        }
        self = element
    }

    /// Reads what ``serialized(defaultNamespace:)`` wrote into a store, whatever its size: written down it may be larger than
    /// it came, because each element says its namespace where the stream had a prefix.
    package init(stored text: String, defaultNamespace: any TextConvertible = "") throws(StreamParserError) {
        var limits = ParserLimits.standard
        let bytes = text.utf8.count
        limits.stanzaBytes = max(limits.stanzaBytes, bytes)
        limits.textBytes = max(limits.textBytes, bytes)
        limits.elements = max(limits.elements, bytes)
        limits.attributes *= 2  // A declaration for each.
        try self.init(parsing: text, defaultNamespace: defaultNamespace, limits: limits)
    }
}
