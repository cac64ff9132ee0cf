// What starts with `<!` or `<?`: CDATA sections and the XML declaration.
extension StreamScanner {
    static let cdataStart = Array("[CDATA[".utf8)

    mutating func behindBang(_ byte: UInt8, at index: Int) throws(ParserFault) {
        guard byte == Self.cdataStart[matched] else {
            // A comment has an end; what a document type declaration holds is never looked at.
            let isComment = matched == 0 && byte == UInt8(ascii: "-")
            throw isComment ? ParserFault.member(.restrictedXML, Self.comment) : ParserFault.doctype
        }
        matched += 1
        guard matched == Self.cdataStart.count else { return }
        if depth <= 1 { throw textOutsideStanza() }
        matched = 0
        runStart = index + 1
        state = .cdata
    }

    /// In a CDATA section or a comment, which two of the same bytes and `>` close.
    mutating func inSection(_ byte: UInt8, closedBy end: UInt8) {
        if byte == end {
            matched = min(2, matched + 1)
        } else {
            if byte == UInt8(ascii: ">"), matched == 2 { state = .text }
            matched = 0
        }
    }

    /// The XML declaration may only be the very first thing of a stream (XML 1.0 section 2.8).
    private static let declarationBytes = 256

    mutating func inDeclaration(_ byte: UInt8, at index: Int, _ cut: inout Cut)
        throws(ParserFault)
    {
        let isEnd = byte == UInt8(ascii: ">") && declaration.last == UInt8(ascii: "?")
        declaration.append(byte)
        if declaration.count == 6 {
            guard declaration.starts(with: "<?xml".utf8), byte <= 0x20 else { throw processingInstruction() }
        }
        if declaration.count > Self.declarationBytes {
            throw ParserFault.exceeded("XML declaration bytes", Self.declarationBytes)
        }
        guard isEnd else { return }
        guard declaration.count > 6 else { throw processingInstruction() }
        do { try XMLDeclaration.check(declaration) } catch { throw ParserFault(error, reach: .stream) }
        declaration = []
        state = .text
        cut.start = index + 1
    }
}
