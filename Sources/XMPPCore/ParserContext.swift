import CXML2

/// The owner of one libxml2 push parser. Its callbacks write into a `TreeBuilder` that outlives it.
///
/// libxml2 hands its own context to every callback, and the context's private field leads to the builder. A
/// callback cannot throw through C frames: it parks its error in the builder and stops the parser, and the code that
/// called `parse` throws the error then. Freeing the context calls nothing back, so the order of that is free.
final class ParserContext {
    private let context: xmlParserCtxtPtr
    private let builder: UnsafeMutablePointer<TreeBuilder>

    /// libxml2 wants one call before threads may use it; a global constant is made once and under a lock.
    private static let isLibraryReady: Bool = {
        xmlInitParser()
        return true
    }()

    init(builder: UnsafeMutablePointer<TreeBuilder>) throws(ParserFault) {
        _ = Self.isLibraryReady
        var handler = Self.handler()
        guard let context = xmlCreatePushParserCtxt(&handler, nil, nil, 0, nil) else {
            throw ParserFault.stream(.outOfMemory, "libxml2 has no memory for a parser.")
        }
        self.context = context
        self.builder = builder
        context.pointee._private = UnsafeMutableRawPointer(builder)
        // NOENT: without it libxml2 leaves "&amp;" in attribute values as "&#38;". There is nothing else to
        // substitute, because the scanner refuses every DTD. HUGE stays off, so libxml2's own limits hold too.
        xmlCtxtUseOptions(context, Int32(XML_PARSE_NOENT.rawValue | XML_PARSE_NONET.rawValue))
        try start()
    }

    /// Forgets everything but the names, after an error. A new parser would cost several times as much.
    ///
    /// The encoding needs no declaration here: the next bytes are a start tag, which libxml2 takes for UTF-8.
    func restart() throws(ParserFault) {
        guard dh_xml_reset_push(context, Self.restartBytes) == 0 else {
            throw ParserFault.stream(.outOfMemory, "libxml2 has no memory for a parser.")
        }
        // Before 2.11 the reset leaves the namespaces of the elements that were open.
        context.pointee.nsNr = 0
    }

    /// Sets the encoding, which libxml2 would otherwise guess from the first four bytes.
    private func start() throws(ParserFault) {
        Self.declaration.withUnsafeBytes { parse($0) }
        if let failure = builder.pointee.failure { throw failure }
    }

    /// The first size of the input buffer after an element that could not be read; libxml2 doubles it as needed. Its own
    /// choice of 8 KiB is most of the cost of a small element that is refused.
    private static let restartBytes: Int32 = 512

    private static let declaration = Array("<?xml version='1.0' encoding='UTF-8'?>".utf8)

    deinit {
        // The context never builds a document, so there is none to free with it.
        xmlFreeParserCtxt(context)
    }

    /// Parses whole tags. Errors are parked in the builder.
    func parse(_ bytes: UnsafeRawBufferPointer) {
        let characters = bytes.assumingMemoryBound(to: CChar.self)
        let status = xmlParseChunk(context, characters.baseAddress, Int32(characters.count), 0)
        if status != 0 || context.pointee.wellFormed == 0 {
            builder.pointee.fail(Self.error(code: Int(context.pointee.errNo)))
        } else if !isIdle {
            builder.pointee.fail(.member(.notWellFormed, "libxml2 found no end to the last tag."))
        }
    }

    /// Whether libxml2 has used all it was given. What it holds back would be beyond the scanner's limits.
    private var isIdle: Bool {
        guard let input = context.pointee.input else { return true }
        return input.pointee.cur == input.pointee.end
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

    /// Lends the builder to a callback, and stops the parser when an error was parked.
    @inline(__always)
    private static func withBuilder(
        _ pointer: UnsafeMutableRawPointer?, _ body: (inout TreeBuilder) -> Void
    ) {
        guard let context = pointer?.assumingMemoryBound(to: xmlParserCtxt.self) else { return }
        guard let builder = context.pointee._private?.assumingMemoryBound(to: TreeBuilder.self) else {
            return
        }
        if builder.pointee.failure == nil { body(&builder.pointee) }
        if builder.pointee.failure != nil { xmlStopParser(context) }
    }

    private static func handler() -> xmlSAXHandler {
        var handler = xmlSAXHandler()
        handler.initialized = UInt32(XML_SAX2_MAGIC)
        handler.startElementNs = {
            pointer, name, prefix, namespace, declarationCount, declarations, count, _, attributes in
            ParserContext.withBuilder(pointer) {
                $0.start(
                    TreeBuilder.OpenTag(name: name, prefix: prefix, declarationCount: Int(declarationCount)),
                    declarations: declarations.map { UnsafePointer($0) }, namespace: namespace,
                    attributes: attributes.map { UnsafePointer($0) }, count: Int(count))
            }
        }
        handler.endElementNs = { pointer, _, _, _ in ParserContext.withBuilder(pointer) { $0.end() } }
        handler.characters = ParserContext.text
        // The same function as for other text, else libxml2 tries to tell the two apart.
        handler.ignorableWhitespace = ParserContext.text
        handler.cdataBlock = ParserContext.text
        handler.serror = ParserContext.report
        // The scanner lets none of these through. They stay refused here: two locks, should one ever be opened.
        handler.internalSubset = { pointer, _, _, _ in ParserContext.restricted(pointer) }
        handler.comment = { pointer, _ in ParserContext.restricted(pointer) }
        handler.processingInstruction = { pointer, _, _ in ParserContext.restricted(pointer) }
        handler.reference = { pointer, _ in ParserContext.restricted(pointer) }
        return handler
    }

    private static let text: charactersSAXFunc = { pointer, bytes, count in
        guard let bytes else { return }
        ParserContext.withBuilder(pointer) { $0.append(UnsafeBufferPointer(start: bytes, count: Int(count))) }
    }

    /// Parks only: libxml2 reports in the middle of its work on a tag and must not lose its buffer there. It stops
    /// by itself at errors of well-formedness, and at the next callback after errors of namespaces.
    private static let report: xmlStructuredErrorFunc = { pointer, error in
        guard let error, ParserContext.isFailure(error.pointee) else { return }
        guard let context = pointer?.assumingMemoryBound(to: xmlParserCtxt.self) else { return }
        guard let builder = context.pointee._private?.assumingMemoryBound(to: TreeBuilder.self) else {
            return
        }
        builder.pointee.fail(ParserContext.error(code: Int(error.pointee.code)))
    }

    private static func restricted(_ pointer: UnsafeMutableRawPointer?) {
        withBuilder(pointer) { $0.fail(.member(.restrictedXML, "The XML is more than XMPP allows.")) }
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

    private static func error(code: Int) -> ParserFault {
        switch UInt32(truncatingIfNeeded: code) {
        case XML_ERR_UNDECLARED_ENTITY.rawValue, XML_WAR_UNDECLARED_ENTITY.rawValue:
            .member(.restrictedXML, "An entity other than the five of XML is referred to.")
        case XML_ERR_NO_MEMORY.rawValue:
            .stream(.outOfMemory, "libxml2 has no memory left.")
        // Which tags belong together cannot be told any more.
        case XML_ERR_TAG_NAME_MISMATCH.rawValue: .mismatch
        case XML_NS_ERR_UNDEFINED_NAMESPACE.rawValue:
            .member(.notWellFormed, "A namespace prefix is not declared.")
        case XML_ERR_ATTRIBUTE_REDEFINED.rawValue, XML_NS_ERR_ATTRIBUTE_REDEFINED.rawValue:
            .member(.notWellFormed, "An attribute stands twice in one tag.")
        default:
            .member(.notWellFormed, "The XML is not well-formed (libxml2 error \(code)).")
        }
    }
}
