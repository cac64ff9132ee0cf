/// Looks at every byte before libxml2 does: cuts the stream where a tag ends, and refuses what XMPP forbids.
///
/// Why in front of libxml2: its push parser guesses where a token ends (a `>` inside an attribute that arrives in
/// two pieces misleads it), buffers without a limit of ours, and accepts Latin-1 where UTF-8 is broken. After this
/// scan it gets whole tags only, valid UTF-8 only, and nothing beyond `ParserLimits`.
///
/// A pure value: bytes in, cut positions or an error out.
struct StreamScanner {
    private enum State {
        /// Between tags: character data inside a stanza, white space elsewhere.
        case text
        /// Behind `<`.
        case open
        /// In a start tag, outside attribute values.
        case startTag
        /// Behind a `/` in a start tag: only `>` may follow.
        case slash
        /// In an attribute value.
        case quoted
        /// In an end tag.
        case endTag
        /// Behind `<!`: only `[CDATA[` may follow.
        case bang
        /// In a CDATA section.
        case cdata
        /// Behind `&` in character data, or in a value.
        case textReference, valueReference
        /// In the XML declaration.
        case declaration
    }

    /// What one window of bytes holds.
    struct Cut {
        /// Bytes at the front that libxml2 does not get: up to the end of the XML declaration.
        var start = 0
        /// Bytes up to the end of the last complete tag; 0 when none ends here.
        var complete = 0
        /// Bytes up to the last place between two stanzas; 0 when there is none.
        var boundary = 0
        /// Bytes up to the end of the stream header when it ends here, with the start of its tag (negative: it
        /// began in an earlier window).
        var header: Range<Int>?
    }

    private let limits: ParserLimits
    private var state = State.text
    private var utf8 = UTF8Check()
    private var depth = 0
    private var quote: UInt8 = 0
    private var attributes = 0
    private var elements = 0
    /// Progress inside `<![CDATA[`, or `]` seen in a row inside a CDATA section.
    private var matched = 0
    /// Where the current first-level element and the current text or value began, relative to the window.
    private var itemStart = 0
    private var runStart = 0
    private var declaration: [UInt8] = []
    private var isHeaderSeen = false
    private var isClosed = false
    /// Bytes of earlier windows, and whether the `<` just seen is the first byte of the stream.
    private var offset = 0
    private var isOpenFirst = false

    init(limits: ParserLimits) {
        self.limits = limits
    }

    /// Whether what follows the last complete tag may be dropped: white space, or the XML declaration.
    var isDroppable: Bool { isBetweenStanzas || state == .declaration }

    private var isBetweenStanzas: Bool { state == .text && depth <= 1 }

    // MARK: Scanning

    /// Scans one window.
    /// - Returns: the cut, also when there is an error behind it, and the error.
    mutating func scan(_ bytes: UnsafeRawBufferPointer) -> (cut: Cut, error: StreamParserError?) {
        var cut = Cut()
        do throws(StreamParserError) {
            var index = 0
            while index < bytes.count { try step(bytes, &index, &cut) }
            if !isBetweenStanzas { try checkStanza(endingAt: bytes.count) }
            if isInRun { try checkRun(endingAt: bytes.count) }
            offset += bytes.count
            itemStart -= bytes.count
            runStart -= bytes.count
            return (cut, nil)
        } catch {
            return (cut, error)
        }
    }

    private mutating func step(
        _ bytes: UnsafeRawBufferPointer, _ index: inout Int, _ cut: inout Cut
    ) throws(StreamParserError) {
        if state == .quoted || (state == .text && depth > 1), !utf8.isInside { skipPlain(bytes, &index) }
        guard index < bytes.count else { return }
        // Before the byte is judged, so that the first thing wrong is reported however the bytes were cut.
        if !isBetweenStanzas { try checkStanza(endingAt: index + 1) }
        if isInRun { try checkRun(endingAt: index) }
        let byte = bytes[index]
        if byte >= 0x80 || utf8.isInside {
            try checkMultibyte(byte)
        } else {
            if byte < 0x20, byte != 0x09, byte != 0x0A, byte != 0x0D { throw controlCharacter(byte) }
            try consume(byte, at: index, &cut)
        }
        index += 1
    }

    /// The inner loop: most bytes of a stream are plain text or attribute values.
    private func skipPlain(_ bytes: UnsafeRawBufferPointer, _ index: inout Int) {
        let stop = state == .quoted ? quote : UInt8(ascii: "<")
        var position = index
        while position < bytes.count {
            let byte = bytes[position]
            if byte == stop || byte == UInt8(ascii: "<") || byte == UInt8(ascii: "&") { break }
            if byte < 0x20 || byte >= 0x80 { break }
            position += 1
        }
        index = position
    }

    private mutating func consume(_ byte: UInt8, at index: Int, _ cut: inout Cut) throws(StreamParserError) {
        switch state {
        case .text: try inText(byte, at: index)
        case .open: try behindOpen(byte, at: index)
        case .startTag: try inStartTag(byte, at: index, &cut)
        case .slash: try behindSlash(byte, at: index, &cut)
        case .quoted: try inValue(byte, at: index)
        case .endTag: try inEndTag(byte, at: index, &cut)
        case .bang: try behindBang(byte, at: index)
        case .cdata: inCDATA(byte)
        case .textReference: try inReference(byte, then: .text)
        case .valueReference: try inReference(byte, then: .quoted)
        case .declaration: try inDeclaration(byte, at: index, &cut)
        }
    }

    // MARK: Text

    private mutating func inText(_ byte: UInt8, at index: Int) throws(StreamParserError) {
        if byte == UInt8(ascii: "<") {
            if depth <= 1 { beginItem(at: index) }
            isOpenFirst = offset + index == 0
            state = .open
        } else if depth <= 1, byte > 0x20 {
            throw textOutsideStanza()
        } else if byte == UInt8(ascii: "&") {
            state = .textReference
        }
    }

    /// libxml2's push parser waits for a `;` however far it is, so that this must be settled here. What the name
    /// means is left to libxml2.
    private mutating func inReference(_ byte: UInt8, then next: State) throws(StreamParserError) {
        switch byte {
        case UInt8(ascii: ";"): state = next
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "#"),
            UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: "."),
            UInt8(ascii: ":"):
            break
        default:
            throw StreamParserError(.notWellFormed, "A '&' that begins no reference; write &amp; instead.")
        }
    }

    private mutating func beginItem(at index: Int) {
        itemStart = index
        elements = 0
    }

    private func textOutsideStanza() -> StreamParserError {
        depth == 1
            ? StreamParserError(
                .badFormat, "Character data between stanzas; only white space may stand there.")
            : StreamParserError(.notWellFormed, "Character data outside the stream's root element.")
    }

    // MARK: Markup

    private mutating func behindOpen(_ byte: UInt8, at index: Int) throws(StreamParserError) {
        switch byte {
        case UInt8(ascii: "/"):
            if depth == 0 { throw StreamParserError(.notWellFormed, "An end tag without a start tag.") }
            state = .endTag
        case UInt8(ascii: "!"):
            state = .bang
            matched = 0
        case UInt8(ascii: "?"):
            guard isOpenFirst else { throw processingInstruction() }
            state = .declaration
            declaration = Array("<?".utf8)
        default:
            try beginStartTag(byte)
        }
    }

    private mutating func beginStartTag(_ byte: UInt8) throws(StreamParserError) {
        if isClosed {
            throw StreamParserError(.notWellFormed, "A second root element behind the end of the stream.")
        }
        if byte <= 0x3F, byte != UInt8(ascii: ":") {
            throw StreamParserError(.notWellFormed, "A '<' that begins no tag; write &lt; for the character.")
        }
        if depth + 1 > limits.depth { throw exceeded("depth", limits.depth) }
        elements += 1
        if depth > 0, elements > limits.elements { throw exceeded("elements", limits.elements) }
        attributes = 0
        state = .startTag
    }

    private mutating func inStartTag(_ byte: UInt8, at index: Int, _ cut: inout Cut) throws(StreamParserError)
    {
        switch byte {
        case UInt8(ascii: ">"):
            depth += 1
            try endTag(at: index, &cut)
        case UInt8(ascii: "/"):
            state = .slash
        case UInt8(ascii: "\""), UInt8(ascii: "'"):
            attributes += 1
            if attributes > limits.attributes { throw exceeded("attributes", limits.attributes) }
            quote = byte
            runStart = index + 1
            state = .quoted
        case UInt8(ascii: "<"):
            throw StreamParserError(.notWellFormed, "A '<' inside a tag.")
        default:
            break
        }
    }

    private mutating func behindSlash(_ byte: UInt8, at index: Int, _ cut: inout Cut)
        throws(StreamParserError)
    {
        guard byte == UInt8(ascii: ">") else {
            throw StreamParserError(.notWellFormed, "A '/' inside a tag.")
        }
        if depth == 0 { isClosed = true }
        try endTag(at: index, &cut)
    }

    private mutating func inValue(_ byte: UInt8, at index: Int) throws(StreamParserError) {
        if byte == quote {
            state = .startTag
        } else if byte == UInt8(ascii: "<") {
            throw StreamParserError(.notWellFormed, "A '<' inside an attribute value; write &lt; instead.")
        } else if byte == UInt8(ascii: "&") {
            state = .valueReference
        }
    }

    private mutating func inEndTag(_ byte: UInt8, at index: Int, _ cut: inout Cut) throws(StreamParserError) {
        if byte == UInt8(ascii: "<") { throw StreamParserError(.notWellFormed, "A '<' inside a tag.") }
        guard byte == UInt8(ascii: ">") else { return }
        depth -= 1
        if depth == 0 { isClosed = true }
        try endTag(at: index, &cut)
    }

    private mutating func endTag(at index: Int, _ cut: inout Cut) throws(StreamParserError) {
        state = .text
        runStart = index + 1
        let end = index + 1
        if !isHeaderSeen { cut.header = itemStart..<end }
        isHeaderSeen = true
        cut.complete = end
        if depth <= 1 { cut.boundary = end }
    }

    // MARK: CDATA and the XML declaration

    private static let cdataStart = Array("[CDATA[".utf8)

    private mutating func behindBang(_ byte: UInt8, at index: Int) throws(StreamParserError) {
        guard byte == Self.cdataStart[matched] else {
            throw StreamParserError(
                .restrictedXML, "Comments and document type declarations are forbidden in XMPP.")
        }
        matched += 1
        guard matched == Self.cdataStart.count else { return }
        if depth <= 1 { throw textOutsideStanza() }
        matched = 0
        runStart = index + 1
        state = .cdata
    }

    private mutating func inCDATA(_ byte: UInt8) {
        if byte == UInt8(ascii: "]") {
            matched = min(2, matched + 1)
        } else {
            if byte == UInt8(ascii: ">"), matched == 2 { state = .text }
            matched = 0
        }
    }

    /// The XML declaration may only be the very first thing of a stream (XML 1.0 section 2.8).
    private static let declarationBytes = 256

    private mutating func inDeclaration(_ byte: UInt8, at index: Int, _ cut: inout Cut)
        throws(StreamParserError)
    {
        let isEnd = byte == UInt8(ascii: ">") && declaration.last == UInt8(ascii: "?")
        declaration.append(byte)
        if declaration.count == 6 {
            guard declaration.starts(with: "<?xml".utf8), byte <= 0x20 else { throw processingInstruction() }
        }
        if declaration.count > Self.declarationBytes {
            throw exceeded("XML declaration bytes", Self.declarationBytes)
        }
        guard isEnd else { return }
        guard declaration.count > 6 else { throw processingInstruction() }
        try XMLDeclaration.check(declaration)
        declaration = []
        state = .text
        cut.start = index + 1
    }

    // MARK: Checks

    /// Whether the bytes now read belong to a run of character data or to a value.
    private var isInRun: Bool {
        switch state {
        case .quoted, .valueReference, .cdata, .textReference: true
        case .text: depth > 1
        default: false
        }
    }

    private func checkRun(endingAt end: Int) throws(StreamParserError) {
        if end - runStart > limits.textBytes { throw exceeded("textBytes", limits.textBytes) }
    }

    private func checkStanza(endingAt end: Int) throws(StreamParserError) {
        let limit = isHeaderSeen ? limits.stanzaBytes : limits.headerBytes
        if end - itemStart > limit { throw exceeded(isHeaderSeen ? "stanzaBytes" : "headerBytes", limit) }
    }

    private mutating func checkMultibyte(_ byte: UInt8) throws(StreamParserError) {
        guard utf8.accept(byte) else {
            throw StreamParserError(
                .unsupportedEncoding, "The stream is no valid UTF-8; XMPP has no other encoding.")
        }
        switch state {
        case .text where depth <= 1: throw textOutsideStanza()
        case .open: try beginStartTag(byte)
        case .slash: throw StreamParserError(.notWellFormed, "A '/' inside a tag.")
        case .bang:
            throw StreamParserError(.restrictedXML, "Document type declarations are forbidden in XMPP.")
        case .cdata: matched = 0
        case .declaration:
            throw StreamParserError(.notWellFormed, "The XML declaration holds more than ASCII.")
        default: break
        }
    }

    private func controlCharacter(_ byte: UInt8) -> StreamParserError {
        // A NUL among the first bytes is UTF-16 or UTF-32 text, not a broken character.
        if byte == 0, !isHeaderSeen {
            return StreamParserError(
                .unsupportedEncoding, "The stream is not UTF-8; XMPP has no other encoding.")
        }
        return StreamParserError(.notWellFormed, "The control character \(byte) cannot stand in XML 1.0.")
    }

    private func processingInstruction() -> StreamParserError {
        StreamParserError(.restrictedXML, "Processing instructions are forbidden in XMPP.")
    }

    private func exceeded(_ name: String, _ limit: Int) -> StreamParserError {
        StreamParserError(.limitExceeded, "The peer exceeded the limit \(name) of \(limit).")
    }
}
