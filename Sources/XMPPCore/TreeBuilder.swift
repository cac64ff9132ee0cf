/// Builds elements from what libxml2 reports, without a tree of libxml2's in between.
struct TreeBuilder {
    /// Complete events, in order, until the parser takes them.
    var events: [StreamParser.Event] = []
    /// The fault that is parked while libxml2's frames are on the stack.
    private(set) var failure: ParserFault?
    /// Whether start tags that were read before are being read again into a fresh libxml2 parser.
    var isReplaying = false
    /// Start and end tags that were read, those that are read again not counted.
    var tags = 0

    private var names = NameCache()
    /// The elements that are open below the stream header, outermost first.
    private(set) var open: [Element] = []
    /// The source of the stream header and of the outermost elements.
    private(set) var openTags = OpenTags()
    private var isRootOpen = false
    private let limits: ParserLimits
    private var text: [UInt8] = []
    /// The largest text buffer that is kept from one stanza to the next.
    private static let keptTextBytes = 16 << 10

    init(limits: ParserLimits) { self.limits = limits }

    /// Forgets the fault and the start tags of a libxml2 parser that is about to start again.
    mutating func prepareForRestart() {
        openTags.forgetPointers()
        failure = nil
    }

    /// Forgets the names of a libxml2 parser that is about to be freed with its dictionary.
    mutating func forgetNames() { names.removeAll() }

    /// Parks the first fault.
    mutating func fail(_ fault: @autoclosure () -> ParserFault) {
        if failure == nil { failure = fault() }
    }

    // MARK: Elements

    mutating func start(
        _ tag: OpenTag, declarations: UnsafePointer<UnsafePointer<UInt8>?>?, namespace: UnsafePointer<UInt8>?,
        attributes: UnsafePointer<UnsafePointer<UInt8>?>?, count: Int
    ) {
        if isReplaying { return openTags.append(tag, declarations) }
        tags += 1
        flushText()
        let element = Element(
            name: names.string(tag.name), namespace: names.string(namespace),
            attributes: read(attributes, count), children: [])
        if open.count < MemberList.depth { openTags.append(tag, declarations) }
        if isRootOpen { open.append(element) } else { openStream(element) }
    }

    private mutating func openStream(_ header: Element) {
        isRootOpen = true
        if header.namespace != Namespaces.stream {
            return fail(
                .stream(.invalidNamespace, "The root element is not in the namespace \(Namespaces.stream)."))
        }
        if header.name != "stream" {
            return fail(.stream(.badFormat, "The root element is not a stream header."))
        }
        let limit = limits.headerNamespaceBytes
        if openTags.replay().count > limit {
            return fail(.exceeded("headerNamespaceBytes", limit, costing: .stream))
        }
        events.append(.opened(header))
    }

    mutating func end() {
        tags += 1
        flushText()
        guard let element = open.popLast() else { return events.append(.closed) }
        if open.count < MemberList.depth { openTags.removeLast() }
        if open.isEmpty {
            events.append(.element(element))
            if text.capacity > Self.keptTextBytes { text = [] }
        } else {
            open[open.count - 1].children.append(.element(element))
        }
    }

    /// libxml2 gives five pointers per attribute: name, prefix, namespace, start and end of the value.
    private mutating func read(_ attributes: UnsafePointer<UnsafePointer<UInt8>?>?, _ count: Int) -> [Element
        .Attribute]
    {
        guard let attributes, count > 0 else { return [] }
        var list: [Element.Attribute] = []
        list.reserveCapacity(count)
        for index in 0..<count {
            let fields = attributes + 5 * index
            let namespace = fields[2].map { names.string($0) }
            let value = Self.string(from: fields[3], to: fields[4])
            list.append(
                Element.Attribute(rawName: names.string(fields[0]), namespace: namespace, value: value))
        }
        return list
    }

    private static func string(from start: UnsafePointer<UInt8>?, to end: UnsafePointer<UInt8>?)
        -> ForeignText
    {
        guard let start, let end else { return "" }
        return ForeignText(decoding: UnsafeBufferPointer(start: start, count: end - start))
    }

    // MARK: Text

    /// libxml2 cuts character data at entities and buffer ends; it is joined until the next tag.
    mutating func append(_ bytes: UnsafeBufferPointer<UInt8>) {
        if open.isEmpty || isReplaying { return }
        text.append(contentsOf: bytes)
    }

    private mutating func flushText() {
        if text.isEmpty { return }
        open[open.count - 1].children.append(.text(ForeignText(decoding: text)))
        text.removeAll(keepingCapacity: true)
    }

    // MARK: Elements that are left out

    /// The list of members in which the parser is: its place among the open elements.
    var list: Int? { MemberList.index(in: open) }

    /// The start tags of the open elements, to be read again into a fresh libxml2 parser.
    mutating func replay() -> [UInt8] { openTags.replay() }

    /// Drops the open elements from that place on, and character data in front of what could not be read.
    mutating func drop(from index: Int) {
        open.removeSubrange(index...)
        openTags.keep(1 + min(open.count, MemberList.depth))
        text = []
    }
}
