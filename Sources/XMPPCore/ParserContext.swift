import CXML2

/// The owner of one libxml2 push parser. Its callbacks write into a `TreeBuilder` that outlives it.
///
/// The builder is lent as a raw pointer, because a C callback has nothing else to find it by; `StreamParser` owns
/// both and frees the builder last.
final class ParserContext {
    private let context: xmlParserCtxtPtr

    /// libxml2 wants one call before threads may use it; a global constant is made once and under a lock.
    private static let isLibraryReady: Bool = {
        xmlInitParser()
        return true
    }()

    init(builder: UnsafeMutablePointer<TreeBuilder>) throws(StreamParserError) {
        _ = Self.isLibraryReady
        var handler = Self.handler()
        guard let context = xmlCreatePushParserCtxt(&handler, builder, nil, 0, nil) else {
            throw StreamParserError(.outOfMemory, "libxml2 has no memory for a parser.")
        }
        self.context = context
        // NOENT: without it libxml2 leaves "&amp;" in attribute values as "&#38;". There is nothing else to
        // substitute, because the scanner refuses every DTD. HUGE stays off, so libxml2's own limits hold too.
        xmlCtxtUseOptions(context, Int32(XML_PARSE_NOENT.rawValue | XML_PARSE_NONET.rawValue))
    }

    deinit {
        // The context never builds a document, so there is none to free with it.
        xmlFreeParserCtxt(context)
    }

    /// Parses whole tags. Errors are parked in the builder.
    func parse(_ bytes: UnsafeRawBufferPointer) {
        let characters = bytes.assumingMemoryBound(to: CChar.self)
        let status = xmlParseChunk(context, characters.baseAddress, Int32(characters.count), 0)
        if status != 0 || context.pointee.wellFormed == 0 {
            Self.builder(context.pointee.userData)?.pointee.fail(Self.error(code: Int(context.pointee.errNo)))
        }
    }

    /// Whether libxml2's dictionary of names has grown so much that the parser should be replaced.
    var isWorn: Bool {
        xmlDictSize(context.pointee.dict) > Self.maximumNames
            || xmlDictGetUsage(context.pointee.dict) > Self.maximumNameBytes
    }

    /// A stream of one extension-rich account uses some hundred names.
    private static let maximumNames = Int32(4096)
    private static let maximumNameBytes = 256 << 10

    // MARK: Callbacks

    private static func builder(_ pointer: UnsafeMutableRawPointer?) -> UnsafeMutablePointer<TreeBuilder>? {
        pointer?.assumingMemoryBound(to: TreeBuilder.self)
    }

    private static func handler() -> xmlSAXHandler {
        var handler = xmlSAXHandler()
        handler.initialized = UInt32(XML_SAX2_MAGIC)
        handler.startElementNs = { pointer, name, _, namespace, _, _, count, _, attributes in
            ParserContext.builder(pointer)?.pointee.start(
                name: name, namespace: namespace, attributes: attributes.map { UnsafePointer($0) },
                count: Int(count))
        }
        handler.endElementNs = { pointer, _, _, _ in ParserContext.builder(pointer)?.pointee.end() }
        handler.characters = ParserContext.text
        // The same function as for other text, else libxml2 tries to tell the two apart.
        handler.ignorableWhitespace = ParserContext.text
        handler.cdataBlock = ParserContext.text
        handler.serror = { pointer, error in
            guard let error, ParserContext.isFailure(error.pointee) else { return }
            ParserContext.builder(pointer)?.pointee.fail(ParserContext.error(code: Int(error.pointee.code)))
        }
        // The scanner lets none of these through; they stay refused here so that one error does not become two.
        handler.internalSubset = { pointer, _, _, _ in ParserContext.restricted(pointer) }
        handler.comment = { pointer, _ in ParserContext.restricted(pointer) }
        handler.processingInstruction = { pointer, _, _ in ParserContext.restricted(pointer) }
        handler.reference = { pointer, _ in ParserContext.restricted(pointer) }
        return handler
    }

    private static let text: charactersSAXFunc = { pointer, bytes, count in
        guard let bytes else { return }
        ParserContext.builder(pointer)?.pointee.append(UnsafeBufferPointer(start: bytes, count: Int(count)))
    }

    private static func restricted(_ pointer: UnsafeMutableRawPointer?) {
        builder(pointer)?.pointee.fail(StreamParserError(.restrictedXML, "The XML is more than XMPP allows."))
    }

    // MARK: Errors

    /// libxml2 also reports namespace names that are no absolute URI; XMPP is full of them.
    private static func isFailure(_ error: xmlError) -> Bool {
        let code = Int(error.code)
        if code == Int(XML_WAR_NS_URI.rawValue) || code == Int(XML_WAR_NS_URI_RELATIVE.rawValue) {
            return false
        }
        return error.level == XML_ERR_ERROR || error.level == XML_ERR_FATAL
    }

    private static func error(code: Int) -> StreamParserError {
        switch UInt32(truncatingIfNeeded: code) {
        case XML_ERR_UNDECLARED_ENTITY.rawValue, XML_WAR_UNDECLARED_ENTITY.rawValue:
            StreamParserError(.restrictedXML, "An entity other than the five of XML is referred to.")
        case XML_ERR_NO_MEMORY.rawValue:
            StreamParserError(.outOfMemory, "libxml2 has no memory left.")
        case XML_ERR_TAG_NAME_MISMATCH.rawValue:
            StreamParserError(.notWellFormed, "An end tag does not match its start tag.")
        case XML_NS_ERR_UNDEFINED_NAMESPACE.rawValue:
            StreamParserError(.notWellFormed, "A namespace prefix is not declared.")
        case XML_ERR_ATTRIBUTE_REDEFINED.rawValue, XML_NS_ERR_ATTRIBUTE_REDEFINED.rawValue:
            StreamParserError(.notWellFormed, "An attribute stands twice in one tag.")
        default:
            StreamParserError(.notWellFormed, "The XML is not well-formed (libxml2 error \(code)).")
        }
    }
}
