// What a peer may send, in bytes.
extension StreamScanner {
    /// Whether the bytes now read belong to a run of character data or to a value.
    private var isInRun: Bool {
        switch state {
        case .quoted, .valueReference, .cdata, .textReference: true
        case .text: depth > 1
        default: false
        }
    }

    /// - Parameters:
    ///   - item: The end of what was read of the first-level element.
    ///   - run: The end of what was read of character data, or of a value.
    func checkLimits(item: Int, run: Int) throws(ParserFault) {
        let size = isHeaderSeen ? limits.stanzaBytes : limits.headerBytes
        let isItemTooLarge = !isBetweenStanzas && item - itemStart > size
        // Of two limits the one that is met first, however the bytes were cut.
        if isInRun, run - runStart > limits.textBytes,
            !isItemTooLarge || runStart + limits.textBytes < itemStart + size
        {
            throw ParserFault.exceeded("textBytes", limits.textBytes)
        }
        if isItemTooLarge {
            throw ParserFault.exceeded(isHeaderSeen ? "stanzaBytes" : "headerBytes", size, costing: .element)
        }
    }
}
