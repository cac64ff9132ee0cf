/// An error in the bytes of a stream, and the extent of the damage.
struct ParserFault: Error {
    enum Reach {
        /// The member of a list with the error, or else the element.
        case member
        /// The first-level element.
        case element
        /// The stream: no boundary can be found after the error.
        case stream
    }

    let error: StreamParserError
    let reach: Reach

    init(_ error: StreamParserError, reach: Reach) {
        (self.error, self.reach) = (error, reach)
    }

    /// Returns a fault that costs as little as possible.
    static func member(_ code: ErrorCode<StreamParserError>, _ message: String) -> ParserFault {
        ParserFault(StreamParserError(code, message), reach: .member)
    }

    static func stream(_ code: ErrorCode<StreamParserError>, _ message: String) -> ParserFault {
        ParserFault(StreamParserError(code, message), reach: .stream)
    }

    /// - Parameter name: The name of the limit in ``ParserLimits``.
    static func exceeded(_ name: String, _ limit: Int, costing reach: Reach = .member) -> ParserFault {
        ParserFault(
            StreamParserError(.limitExceeded, "The peer exceeded the limit \(name) of \(limit)."),
            reach: reach)
    }

    static let noTag = stream(.notWellFormed, "A '<' that starts no tag; write &lt; for the character.")
    static let tagInTag = stream(.notWellFormed, "A '<' inside a tag.")
    static let startTag = member(
        .notWellFormed, "A start tag with a character, a name, a '=' or a value where none may stand.")
    static let slashInTag = stream(.notWellFormed, "A '/' inside a tag.")
    static let quoteInEndTag = member(.notWellFormed, "A quotation mark inside an end tag.")
    static let doctype = stream(.restrictedXML, "Document type declarations are forbidden in XMPP.")
    static let mismatch = stream(.notWellFormed, "An end tag does not match its start tag.")
}
