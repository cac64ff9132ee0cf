/// Looks at every byte before libxml2 does: cuts the stream where a tag ends, and refuses what XMPP forbids.
///
/// Why in front of libxml2: its push parser guesses where a token ends (a `>` inside an attribute that arrives in
/// two pieces misleads it), buffers without a limit of ours, and accepts Latin-1 where UTF-8 is broken. After this
/// scan it gets whole tags only, valid UTF-8 only, and nothing beyond `ParserLimits`.
///
/// What is wrong inside a first-level element costs that element: from its last good tag on the scanner only looks for its
/// end (`StreamScanner+Skipping.swift`). Where no end can be found, the stream ends.
///
/// A pure value: bytes in, cut positions or an error out.
struct StreamScanner {
    enum State {
        /// Between tags: character data inside a stanza, white space elsewhere.
        case text
        /// After `<`.
        case open
        /// In a start tag, outside attribute values.
        case startTag
        /// After a `/` in a start tag: only `>` may follow.
        case slash
        /// In an attribute value.
        case quoted
        /// In an end tag.
        case endTag
        /// After `<!`: only `[CDATA[` may follow.
        case bang
        /// In a CDATA section.
        case cdata
        /// After `&` in character data, or in a value.
        case textReference, valueReference
        /// In the XML declaration.
        case declaration
        /// In a comment, in a processing instruction: only while an element is skipped.
        case comment, instruction
    }

    /// The reason why a scan ended.
    enum Stop {
        /// All bytes were scanned.
        case endOfBytes
        /// The element that is open cannot be read, or the stream cannot.
        case fault(ParserFault)
        /// The end of the element that is skipped was found.
        case skipped
    }

    /// The content of a window of bytes.
    struct Cut {
        /// Bytes that were scanned.
        var scanned = 0
        /// Start and end tags that are complete; an empty element has both.
        var tags = 0
        /// Bytes at the front that libxml2 does not get: up to the end of the XML declaration.
        var start = 0
        /// Bytes up to the end of the last complete tag; 0 when none ends here.
        var complete = 0
        /// Bytes up to the last place between two stanzas; 0 when there is none.
        var boundary = 0
    }

    let limits: ParserLimits
    var state = State.text
    private var utf8 = UTF8Check()
    /// Elements that are open, the stream header counted.
    var depth = 0
    var quote: UInt8 = 0
    private var attributes = 0
    private var tag = StartTagSyntax.name
    /// Elements of the first-level element so far, and those whose start tag is complete.
    private var elements = 0
    private var completeElements = 0
    /// Progress inside `<![CDATA[`, or how many bytes of the end of a CDATA section or a comment were seen in a row.
    var matched = 0
    /// Where the current first-level element, the current text or value, and the current child of an element that is 2 or
    /// 3 levels deep started, relative to the window.
    var itemStart = 0
    var runStart = 0
    var childStart = (atDepth3: 0, atDepth4: 0)
    var declaration: [UInt8] = []
    private(set) var isHeaderSeen = false
    private var isClosed = false
    /// Bytes of earlier windows, and whether the `<` just seen is the first byte of the stream.
    private var offset = 0
    private var isOpenFirst = false
    /// The element that is being skipped.
    var skipping: Skipping?

    init(limits: ParserLimits) {
        self.limits = limits
    }

    /// Whether what follows the last complete tag may be dropped: white space, or the XML declaration.
    var isDroppable: Bool { isBetweenStanzas || state == .declaration }

    var isBetweenStanzas: Bool { state == .text && depth <= 1 }

    // MARK: Scanning

    /// Scans one window, up to the first fault or to the end of what is skipped.
    ///
    /// - Parameter tags: Scan no further than that many tags.
    /// - Returns: The cut, also if a fault follows it, and the reason why it ends.
    mutating func scan(_ bytes: UnsafeRawBufferPointer, tags: Int = .max) -> (cut: Cut, stop: Stop) {
        var cut = Cut()
        var stop = Stop.endOfBytes
        var index = 0
        do throws(ParserFault) {
            if skipping != nil {
                if try skip(bytes, &index) { stop = .skipped }
            } else {
                while index < bytes.count, cut.tags < tags { try step(bytes, &index, &cut) }
                if cut.tags < tags { try checkLimits(item: index, run: index) }
            }
        } catch {
            stop = .fault(isInElement ? error : ParserFault(error.error, reach: .stream))
        }
        cut.scanned = index
        move(by: index)
        return (cut, stop)
    }

    /// Makes all positions relative to a window that starts so many bytes later.
    private mutating func move(by bytes: Int) {
        offset += bytes
        itemStart -= bytes
        runStart -= bytes
        childStart.atDepth3 -= bytes
        childStart.atDepth4 -= bytes
    }

    /// Whether an error here belongs to a first-level element that has started.
    var isInElement: Bool {
        guard isHeaderSeen, depth <= 1 else { return isHeaderSeen }
        switch state {
        case .startTag, .slash, .quoted, .valueReference: return depth == 1
        default: return false
        }
    }

    /// Goes back to the end of the last complete tag.
    ///
    /// - Parameter bytes: How far that is.
    mutating func rewind(_ bytes: Int) {
        move(by: -bytes)
        (state, utf8, matched) = (.text, UTF8Check(), 0)
        elements = completeElements
    }

    private mutating func step(
        _ bytes: UnsafeRawBufferPointer, _ index: inout Int, _ cut: inout Cut
    ) throws(ParserFault) {
        if !utf8.isInside { try skipPlain(bytes, &index) }
        guard index < bytes.count else { return }
        // Before the byte is judged, so that the first thing wrong is reported however the bytes were cut.
        try checkLimits(item: index + 1, run: index)
        let byte = bytes[index]
        if byte >= 0x80 || utf8.isInside {
            try checkMultibyte(byte)
        } else {
            if byte < 0x20, byte != 0x09, byte != 0x0A, byte != 0x0D { throw controlCharacter(byte) }
            try consume(byte, at: index, &cut)
        }
        index += 1
    }

    /// The inner loop: most bytes of a stream are plain text, attribute values or names.
    private mutating func skipPlain(_ bytes: UnsafeRawBufferPointer, _ index: inout Int) throws(ParserFault) {
        switch state {
        case .startTag:
            let start = index
            UTF8Check.skip(bytes, &index, while: Self.isPlainInTag)
            guard index > start else { return }
            // As for a byte that arrives alone.
            try checkLimits(item: start + 1, run: start)
            try tag.readName()
        case .endTag:
            UTF8Check.skip(bytes, &index, while: Self.isPlainInTag)
        case .quoted,
            .text where depth > 1:
            let stop = state == .quoted ? quote : UInt8(ascii: "<")
            UTF8Check.skip(bytes, &index) { byte in
                byte >= 0x20 && byte != stop && byte != UInt8(ascii: "<") && byte != UInt8(ascii: "&")
            }
        default: return
        }
    }

    /// Returns whether an ASCII byte other than the dot can be in a name.
    static func isPlainInTag(_ byte: UInt8) -> Bool {
        let isLetter = (byte | 0x20) &- UInt8(ascii: "a") < 26
        let isDigitOrColon = byte &- UInt8(ascii: "0") < 11
        return isLetter || isDigitOrColon || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
    }

    private mutating func consume(_ byte: UInt8, at index: Int, _ cut: inout Cut) throws(ParserFault) {
        switch state {
        case .text: try inText(byte, at: index)
        case .open: try behindOpen(byte, at: index)
        case .startTag: try inStartTag(byte, at: index, &cut)
        case .slash: try behindSlash(byte, at: index, &cut)
        case .quoted: try inValue(byte, at: index)
        case .endTag: try inEndTag(byte, at: index, &cut)
        case .bang: try behindBang(byte, at: index)
        case .cdata: inSection(byte, closedBy: UInt8(ascii: "]"))
        case .textReference: try inReference(byte, then: .text)
        case .valueReference: try inReference(byte, then: .quoted)
        case .declaration: try inDeclaration(byte, at: index, &cut)
        case .comment, .instruction: break
        }
    }

    // MARK: Text

    private mutating func inText(_ byte: UInt8, at index: Int) throws(ParserFault) {
        if byte == UInt8(ascii: "<") {
            startTagAt(at: index)
        } else if depth <= 1, byte > 0x20 {
            throw textOutsideStanza()
        } else if byte == UInt8(ascii: "&") {
            state = .textReference
        }
    }

    /// Decides here whether a reference is well-formed: libxml2's push parser waits for a `;`, however far away it is. libxml2 then
    /// resolves the name.
    private mutating func inReference(_ byte: UInt8, then next: State) throws(ParserFault) {
        switch byte {
        case UInt8(ascii: ";"): state = next
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "#"),
            UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: "."),
            UInt8(ascii: ":"):
            break
        default:
            throw ParserFault.member(.notWellFormed, "A '&' that starts no reference; write &amp; instead.")
        }
    }

    mutating func startTagAt(at index: Int) {
        switch depth {
        case 0, 1: (itemStart, elements, completeElements) = (index, 0, 0)
        case 3: childStart.atDepth3 = index
        case 4: childStart.atDepth4 = index
        default: break
        }
        isOpenFirst = offset + index == 0
        state = .open
    }

    func textOutsideStanza() -> ParserFault {
        depth == 1
            ? .stream(.badFormat, "Character data between stanzas; only white space may stand there.")
            : .stream(.notWellFormed, "Character data outside the stream's root element.")
    }

    // MARK: Markup

    private mutating func behindOpen(_ byte: UInt8, at index: Int) throws(ParserFault) {
        switch byte {
        case UInt8(ascii: "/"):
            if depth == 0 { throw ParserFault.stream(.notWellFormed, "An end tag without a start tag.") }
            state = .endTag
        case UInt8(ascii: "!"):
            state = .bang
            matched = 0
        case UInt8(ascii: "?"):
            guard isOpenFirst else { throw processingInstruction() }
            state = .declaration
            declaration = Array("<?".utf8)
        default:
            try readStartTagByte(byte)
        }
    }

    private mutating func readStartTagByte(_ byte: UInt8) throws(ParserFault) {
        if isClosed {
            throw ParserFault.stream(.notWellFormed, "A second root element after the end of the stream.")
        }
        if byte <= 0x3F, byte != UInt8(ascii: ":") { throw ParserFault.noTag }
        if depth + 1 > limits.depth { throw ParserFault.exceeded("depth", limits.depth) }
        elements += 1
        if depth > 0, elements > limits.elements {
            throw ParserFault.exceeded("elements", limits.elements, costing: .element)
        }
        attributes = 0
        (state, tag) = (.startTag, .name)
        if byte < 0x80, !Self.isPlainInTag(byte) { throw ParserFault.startTag }
    }

    private mutating func inStartTag(_ byte: UInt8, at index: Int, _ cut: inout Cut) throws(ParserFault) {
        switch byte {
        case UInt8(ascii: ">"):
            try tag.end()
            depth += 1
            endTag(at: index, &cut)
        case UInt8(ascii: "/"):
            try tag.end()
            state = .slash
        case UInt8(ascii: "\""), UInt8(ascii: "'"):
            attributes += 1
            if attributes > limits.attributes { throw ParserFault.exceeded("attributes", limits.attributes) }
            try tag.readValue()
            quote = byte
            runStart = index + 1
            state = .quoted
        case UInt8(ascii: "<"):
            throw ParserFault.tagInTag
        case UInt8(ascii: "="): try tag.readEquals()
        case 0x09, 0x0A, 0x0D, 0x20: tag.readSpace()
        case UInt8(ascii: "."): try tag.readName()
        default: throw ParserFault.startTag
        }
    }

    private mutating func behindSlash(_ byte: UInt8, at index: Int, _ cut: inout Cut)
        throws(ParserFault)
    {
        guard byte == UInt8(ascii: ">") else { throw ParserFault.slashInTag }
        if depth == 0 { isClosed = true }
        cut.tags += 1
        endTag(at: index, &cut)
    }

    private mutating func inValue(_ byte: UInt8, at index: Int) throws(ParserFault) {
        if byte == quote {
            state = .startTag
        } else if byte == UInt8(ascii: "<") {
            throw ParserFault.member(.notWellFormed, "A '<' inside an attribute value; write &lt; instead.")
        } else if byte == UInt8(ascii: "&") {
            state = .valueReference
        }
    }

    private mutating func inEndTag(_ byte: UInt8, at index: Int, _ cut: inout Cut) throws(ParserFault) {
        if byte == UInt8(ascii: "<") { throw ParserFault.tagInTag }
        // libxml2 would look for the other one, however far it is, so that the way the bytes are cut would matter.
        if byte == UInt8(ascii: "'") || byte == UInt8(ascii: "\"") { throw ParserFault.quoteInEndTag }
        guard byte == UInt8(ascii: ">") else { return }
        depth -= 1
        if depth == 0 { isClosed = true }
        endTag(at: index, &cut)
    }

    private mutating func endTag(at index: Int, _ cut: inout Cut) {
        state = .text
        let end = index + 1
        runStart = end
        completeElements = elements
        cut.tags += 1
        isHeaderSeen = true
        cut.complete = end
        if depth <= 1 { cut.boundary = end }
    }

    // MARK: Checks

    private mutating func checkMultibyte(_ byte: UInt8) throws(ParserFault) {
        guard utf8.accept(byte) else {
            // Where a name starts, so does an element.
            if state == .open { state = .startTag }
            throw ParserFault.member(
                .unsupportedEncoding, "The stream is no valid UTF-8; XMPP has no other encoding.")
        }
        switch state {
        case .text where depth <= 1: throw textOutsideStanza()
        case .open: try readStartTagByte(byte)
        case .startTag: try tag.readName()
        case .slash: throw ParserFault.slashInTag
        case .bang:
            throw ParserFault.doctype
        case .cdata: matched = 0
        case .declaration:
            throw ParserFault.stream(.notWellFormed, "The XML declaration holds more than ASCII.")
        default: break
        }
    }

    private func controlCharacter(_ byte: UInt8) -> ParserFault {
        // A NUL among the first bytes is UTF-16 or UTF-32 text, not a broken character.
        if byte == 0, !isHeaderSeen {
            return .stream(.unsupportedEncoding, "The stream is not UTF-8; XMPP has no other encoding.")
        }
        return .member(.notWellFormed, "The control character \(byte) cannot stand in XML 1.0.")
    }

    static let comment = "Comments are forbidden in XMPP."

    func processingInstruction() -> ParserFault {
        .member(.restrictedXML, "Processing instructions are forbidden in XMPP.")
    }
}
