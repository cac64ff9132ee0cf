// Finding the end of an element that cannot be read.
extension StreamScanner {
    /// An element, or a member of a list in one, whose end is looked for.
    struct Skipping {
        /// Why.
        let reason: StreamParserError
        /// Elements that stay open after it: 1 for a first-level element.
        var depth: Int
        /// The name of the first-level element without its prefix; empty while it is not known.
        var rootName: [UInt8]
        /// Reads the first-level element's start tag where libxml2 has not.
        var reader = StartTagReader()
        /// The name in the end tag that may end the first-level element, and whether more of the tag follows.
        var endName: [UInt8] = []
        var isEndNameComplete = false
        /// Its size in bytes, once its end was found.
        var byteCount = 0
    }

    /// Looks for the end of the element that has started, or of the next one.
    ///
    /// - Parameters:
    ///   - reason: Why it cannot be read.
    ///   - depth: The number of elements that stay open after it.
    ///   - rootName: The name of the first-level element, if libxml2 has read its start tag.
    mutating func startSkipping(_ reason: StreamParserError, to depth: Int, rootName: [UInt8]) {
        skipping = Skipping(reason: reason, depth: depth, rootName: rootName)
    }

    /// Ends the search.
    ///
    /// - Returns: What was found.
    mutating func endSkipping() -> Skipping? {
        defer { skipping = nil }
        return skipping
    }

    /// Skips up to the element's end.
    ///
    /// - Returns: Whether the end was found.
    mutating func skip(_ bytes: UnsafeRawBufferPointer, _ index: inout Int) throws(ParserFault) -> Bool {
        while index < bytes.count {
            skipPlain(bytes, &index)
            guard index < bytes.count else { break }
            try checkSkipped(endingAt: index + 1)
            let isEnd = try skip(bytes[index], at: index)
            index += 1
            if isEnd { return true }
        }
        try checkSkipped(endingAt: index)
        return false
    }

    /// Skips bytes that cannot end the current token.
    private mutating func skipPlain(_ bytes: UnsafeRawBufferPointer, _ index: inout Int) {
        guard let base = bytes.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return }
        // Not beyond the limit: what is known of the element must not depend on how the bytes are cut.
        let stop = max(index, min(bytes.count, itemStart + limits.skippedBytes))
        var end = index
        switch state {
        case .text where depth > 1:
            while end < stop, base[end] != UInt8(ascii: "<") { end += 1 }
        case .quoted:
            while end < stop, base[end] != quote { end += 1 }
        case .startTag:
            while end < stop, Self.isPlainInTag(base[end]) || base[end] >= 0x80 { end += 1 }
        default: return
        }
        if depth == 1 {
            for byte in UnsafeBufferPointer(start: base + index, count: end - index) {
                skipping?.reader.read(byte)
            }
        }
        index = end
    }

    private mutating func checkSkipped(endingAt end: Int) throws(ParserFault) {
        guard !isBetweenStanzas, let depth = skipping?.depth else { return }
        if end - itemStart > limits.skippedBytes {
            throw ParserFault.exceeded("skippedBytes", limits.skippedBytes, costing: .stream)
        }
        guard depth > 1, end - itemStart > limits.stanzaBytes else { return }
        // What is left of the whole element would be too large as well.
        widen(ParserFault.exceeded("stanzaBytes", limits.stanzaBytes).error)
    }

    /// Skips the first-level element instead of a member of it.
    private mutating func widen(_ reason: StreamParserError) {
        guard let narrow = skipping else { return }
        skipping = Skipping(reason: reason, depth: 1, rootName: narrow.rootName, endName: narrow.endName)
    }

    /// - Returns: Whether the element ends with this byte.
    private mutating func skip(_ byte: UInt8, at index: Int) throws(ParserFault) -> Bool {
        if depth == 1 { skipping?.reader.read(byte) }
        switch state {
        case .text, .textReference, .declaration: if byte == UInt8(ascii: "<") { startTagAt(at: index) }
        case .open: try skipBehindOpen(byte)
        case .startTag: return try skipInStartTag(byte)
        case .slash:
            guard byte == UInt8(ascii: ">") else { throw ParserFault.slashInTag }
            return try endSkipped(at: index)
        case .quoted, .valueReference: if byte == quote { state = .startTag }
        case .endTag: return try skipInEndTag(byte, at: index)
        case .bang: try skipBehindBang(byte)
        case .cdata: inSection(byte, closedBy: UInt8(ascii: "]"))
        case .comment: inSection(byte, closedBy: UInt8(ascii: "-"))
        case .instruction: skipInInstruction(byte)
        }
        return false
    }

    // MARK: Tags

    private mutating func skipBehindOpen(_ byte: UInt8) throws(ParserFault) {
        switch byte {
        case UInt8(ascii: "/"):
            // The end of the stream stands where the next element should.
            if depth == 1 {
                throw ParserFault(skipping?.reason ?? ParserFault.mismatch.error, reach: .stream)
            }
            skipping?.endName = []
            skipping?.isEndNameComplete = false
            state = .endTag
        case UInt8(ascii: "!"): (state, matched) = (.bang, 0)
        case UInt8(ascii: "?"): (state, matched) = (.instruction, 0)
        case UInt8(ascii: ":"), 0x40...: state = .startTag
        default: throw ParserFault.noTag
        }
    }

    private mutating func skipInStartTag(_ byte: UInt8) throws(ParserFault) -> Bool {
        switch byte {
        case UInt8(ascii: ">"):
            depth += 1
            state = .text
        case UInt8(ascii: "/"): state = .slash
        case UInt8(ascii: "\""), UInt8(ascii: "'"): (quote, state) = (byte, .quoted)
        case UInt8(ascii: "<"): throw ParserFault.tagInTag
        default: break
        }
        return false
    }

    private mutating func skipInEndTag(_ byte: UInt8, at index: Int) throws(ParserFault) -> Bool {
        if byte == UInt8(ascii: "<") { throw ParserFault.tagInTag }
        guard byte == UInt8(ascii: ">") else {
            if depth == 2 { keepEndName(byte) }
            return false
        }
        depth -= 1
        return try endSkipped(at: index)
    }

    /// The root's end tag is the only one whose name is compared: a tag that is missing inside must not make the scanner take
    /// the elements that follow for a part of this one.
    private mutating func keepEndName(_ byte: UInt8) {
        guard skipping?.isEndNameComplete == false else { return }
        switch byte {
        case 0...0x20, UInt8(ascii: "/"): skipping?.isEndNameComplete = true
        case UInt8(ascii: ":"): skipping?.endName = []
        default:
            if skipping?.endName.count ?? 0 <= StartTagReader.nameBytes { skipping?.endName.append(byte) }
        }
    }

    private mutating func endSkipped(at index: Int) throws(ParserFault) -> Bool {
        state = .text
        runStart = index + 1
        // The list ends behind what is wrong in it: it was in no member.
        if let skipping, depth < skipping.depth { widen(skipping.reason) }
        guard depth == skipping?.depth else { return skipping == nil }
        if depth == 1 { try checkEndName() }
        let start = depth == 1 ? itemStart : depth == 3 ? childStart.atDepth3 : childStart.atDepth4
        skipping?.byteCount = index + 1 - start
        return true
    }

    private func checkEndName() throws(ParserFault) {
        guard let skipping, !skipping.endName.isEmpty else { return }
        let name = skipping.rootName.isEmpty ? skipping.reader.localName : skipping.rootName
        let isKnown = !name.isEmpty && name.count <= StartTagReader.nameBytes
        if isKnown, skipping.endName != name { throw ParserFault.mismatch }
    }

    // MARK: What is no tag

    private mutating func skipBehindBang(_ byte: UInt8) throws(ParserFault) {
        // Dashes count downwards: a comment starts after the second one.
        if byte == UInt8(ascii: "-"), matched <= 0 {
            matched -= 1
            if matched == -2 { (state, matched) = (.comment, 0) }
            return
        }
        guard matched >= 0, depth > 1, byte == Self.cdataStart[matched] else { throw ParserFault.doctype }
        matched += 1
        if matched == Self.cdataStart.count { (state, matched) = (.cdata, 0) }
    }

    private mutating func skipInInstruction(_ byte: UInt8) {
        if byte == UInt8(ascii: ">"), matched == 1 { state = .text }
        matched = byte == UInt8(ascii: "?") ? 1 : 0
    }
}
