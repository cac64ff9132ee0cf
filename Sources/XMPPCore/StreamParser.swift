// XMPPCore: what an XMPP stream is made of, as values. No sockets, no clock, no storage, no Foundation.
//
//      bytes ──▶ StreamScanner ──whole tags──▶ libxml2 (SAX2) ──▶ TreeBuilder ──▶ Event
//                limits, UTF-8,                namespaces,        Element           │ .opened(header)
//                what XMPP forbids             well-formedness                      │ .element(Element) ──▶ Stanza
//                                                                                   │ .closed      IQ, Message, Presence
//      bytes ◀── Serializer ◀── Element ◀───────────────────────────────────────────┘
//
// A failure on the way in is a StreamParserError, which knows the StreamError to send; a stanza that is well-formed
// but wrong is a StanzaFormatError, which knows the StanzaError to answer. Addresses are JIDs throughout.

/// Reads one XML stream, in whatever pieces its bytes arrive.
///
/// ```swift
/// let parser = try StreamParser()
/// for event in try parser.parse(bytes) {
///     switch event {
///     case .opened(let header): …          // <stream:stream …>
///     case .element(let element): …        // a complete stanza, features, nonza
///     case .refused(let refused): …        // one that cannot be read; the stream continues after it
///     case .closed: …                      // </stream:stream>
///     }
/// }
/// ```
///
/// The events do not depend on how the bytes were cut. Memory is bounded by `ParserLimits` whatever a peer sends:
/// an element is handed over when it is complete, and nothing of it is kept. White space between stanzas
/// (keep-alives) is dropped.
///
/// A first-level element that cannot be read is left out: one that libxml2 refuses, that is beyond a limit, or that holds
/// broken UTF-8, control characters, comments, processing instructions or entities other than the five of XML (RFC 6120
/// section 11.1). Of the lists with independent members (items of PubSub and of service discovery, contacts,
/// blocked addresses) only the member is. Where the end of the element cannot be found, the stream ends: after
/// `skippedBytes`, with a DTD, with tags that do not match, and with any text between two elements.
///
/// One parser reads one stream: make a new one after STARTTLS and after SASL. It is not `Sendable`; its owner calls
/// it from one place.
public final class StreamParser {
    /// A complete part of the parsed bytes.
    public enum Event: Hashable, Sendable {
        /// The stream header, with its attributes and without children.
        case opened(Element)
        /// A complete first-level element.
        case element(Element)
        /// An unreadable first-level element that was left out.
        ///
        /// Or the member of a list that follows.
        case refused(RefusedElement)
        /// The end of the stream.
        case closed
    }

    private var scanner: StreamScanner
    private var context: ParserContext
    private let builder: UnsafeMutablePointer<TreeBuilder>
    /// The start of a tag, or of character data in front of one, that is not complete yet.
    private var pending: [UInt8] = []
    /// Whether libxml2's buffers have grown beyond `largeBytes`.
    private var isSwollen = false
    /// The start tag of the element that is skipped, if libxml2 has read it, and the list if it is a member of one.
    private var skipped: (root: RefusedElement.Root?, list: Element?) = (nil, nil)
    /// Whether libxml2 has read more than what stays open after the skipped element.
    private var isStale = false
    /// Bytes of start tags that were read again in the current first-level element.
    private var replayedBytes = 0
    /// Tags to read at once: one after an element that could not be read, since another such element may follow and
    /// what was read after it would be scanned once more. It doubles while nothing is wrong.
    private var tagsAtOnce = windowBytes
    private let limits: ParserLimits
    private var isDead = false

    /// Bytes looked at in one go. Small enough to stay in the processor's cache between scanner and libxml2.
    private static let windowBytes = 16 << 10
    /// A libxml2 parser that had to take more at once keeps buffers of that size and is replaced.
    private static let largeBytes = 128 << 10

    /// Makes a parser for one stream.
    ///
    /// - Throws: `StreamParserError` if there is no memory for it.
    public convenience init() throws(StreamParserError) { try self.init(limits: .standard) }

    /// Makes a parser for one stream.
    ///
    /// - Parameter limits: What the peer may make it hold.
    /// - Throws: `StreamParserError` with `outOfMemory`.
    package init(limits: ParserLimits) throws(StreamParserError) {
        let builder = UnsafeMutablePointer<TreeBuilder>.allocate(capacity: 1)
        builder.initialize(to: TreeBuilder(limits: limits))
        do {
            context = try ParserContext(builder: builder)
        } catch {
            builder.deinitialize(count: 1)
            builder.deallocate()
            throw error.error
        }
        self.builder = builder
        self.limits = limits
        scanner = StreamScanner(limits: limits)
    }

    deinit {
        builder.deinitialize(count: 1)
        builder.deallocate()
    }

    // MARK: Parsing

    /// Parses the next bytes of the stream.
    ///
    /// - Parameter bytes: Any number of bytes, cut anywhere.
    /// - Returns: What became complete, in order.
    /// - Throws: `StreamParserError`, with the events that were complete in front of the error and the stream error
    ///   to send. The parser is dead then: every further call throws `dead`.
    package func parse(_ bytes: UnsafeRawBufferPointer) throws(StreamParserError) -> [Event] {
        if isDead {
            throw StreamParserError(.dead, "This stream has failed; make a new parser for a new stream.")
        }
        var rest = bytes
        while !rest.isEmpty {
            let window = UnsafeRawBufferPointer(rebasing: rest.prefix(Self.windowBytes))
            do throws(ParserFault) {
                let used = try scanner.skipping == nil ? read(window) : skip(window)
                rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(used))
            } catch {
                isDead = true
                var reason = error.error
                reason.element = unfinished
                reason.events = removeEvents()
                throw reason
            }
        }
        return removeEvents()
    }

    /// Parses the next bytes of the stream.
    ///
    /// - Parameter bytes: Any number of bytes, cut anywhere.
    /// - Returns: What became complete, in order.
    /// - Throws: `StreamParserError`, as for a buffer.
    public func parse(_ bytes: [UInt8]) throws(StreamParserError) -> [Event] { try withBytes(bytes) }

    /// Parses the next characters of the stream.
    ///
    /// - Parameter text: Any number of characters.
    /// - Returns: What became complete, in order.
    /// - Throws: `StreamParserError`, as for a buffer.
    package func parse(_ text: String) throws(StreamParserError) -> [Event] {
        try withBytes(Array(text.utf8))
    }

    private func withBytes(_ bytes: [UInt8]) throws(StreamParserError) -> [Event] {
        // A Result carries the typed error through the untyped rethrow of the closure.
        try bytes.withUnsafeBytes { buffer in
            Result { () throws(StreamParserError) -> [Event] in try parse(buffer) }
        }.get()
    }

    /// Whether nothing is open or unfinished after the last event, so that the next bytes start a first-level element.
    package var isBetweenElements: Bool {
        !isDead && scanner.isBetweenStanzas && scanner.depth == 1 && scanner.skipping == nil
            && pending.isEmpty
    }

    private func removeEvents() -> [Event] {
        let events = builder.pointee.events
        builder.pointee.events = []
        return events
    }

    // MARK: One window

    /// - Returns: The number of bytes used: fewer after ``tagsAtOnce`` tags, and if an element cannot be read.
    private func read(_ window: UnsafeRawBufferPointer) throws(ParserFault) -> Int {
        let before = scanner
        let (cut, stop) = scanner.scan(window, tags: tagsAtOnce)
        if cut.start > 0 { pending.removeAll(keepingCapacity: true) }
        builder.pointee.tags = 0
        let fed = try feedComplete(window, cut)
        if let fault = builder.pointee.failure {
            return try meet(fault, in: window, cut.scanned, behind: builder.pointee.tags, from: before)
        }
        if case .fault(let fault) = stop {
            return try meet(fault, in: window, cut.scanned, behind: cut.tags, from: before)
        }
        tagsAtOnce = min(2 * tagsAtOnce, Self.windowBytes)
        if scanner.isDroppable {
            pending.removeAll(keepingCapacity: true)
        } else {
            pending.append(contentsOf: window[fed..<cut.scanned])
        }
        return cut.scanned
    }

    /// Gives libxml2 what is complete, up to what it refuses. In front of the unfinished stanza a worn parser can be replaced.
    private func feedComplete(
        _ window: UnsafeRawBufferPointer, _ cut: StreamScanner.Cut
    ) throws(ParserFault) -> Int {
        var start = cut.start
        if cut.boundary > 0 {
            guard feed(window[start..<cut.boundary]) else { return start }
            start = cut.boundary
            replayedBytes = 0
            if isSwollen || context.isWorn { try replaceContext() }
        }
        if cut.complete > start { _ = feed(window[start..<cut.complete]) }
        return max(start, cut.complete)
    }

    /// - Returns: False when libxml2 refused it; what was pending in front of it then still is.
    private func feed(_ slice: Slice<UnsafeRawBufferPointer>) -> Bool {
        let earlier = pending.count
        if earlier == 0 {
            context.parse(UnsafeRawBufferPointer(rebasing: slice))
        } else {
            pending.append(contentsOf: slice)
            isSwollen = isSwollen || pending.count > Self.largeBytes
            pending.withUnsafeBytes { context.parse($0) }
        }
        guard builder.pointee.failure == nil else {
            pending.removeSubrange(earlier...)
            return false
        }
        if earlier > 0 { pending.removeAll(keepingCapacity: pending.count <= Self.windowBytes) }
        return true
    }

    // MARK: Elements that cannot be read

    /// Skips what cannot be read, or ends the stream.
    ///
    /// The error is somewhere after the last good tag. Skipping starts there, so that it does not
    /// matter how the bytes were cut.
    ///
    /// - Parameters:
    ///   - scanned: How much of the window was looked at.
    ///   - tags: How many tags of it are good.
    ///   - before: The scanner in front of the window.
    /// - Returns: The bytes of those tags.
    private func meet(
        _ fault: ParserFault, in window: UnsafeRawBufferPointer, _ scanned: Int, behind tags: Int,
        from before: StreamScanner
    ) throws(ParserFault) -> Int {
        scanner = before
        var used = 0
        if tags > 0 {
            used = scanner.scan(window, tags: tags).cut.scanned
            pending.removeAll(keepingCapacity: true)
        }
        tagsAtOnce = 1
        scanner.rewind(pending.count)
        guard scanner.depth > 0 else { throw fault }
        let isScannersOwn = builder.pointee.failure == nil
        start(skipping: fault)
        let unread = pending
        pending = []
        if fault.reach == .stream {
            // Only to learn in which element the stream ends.
            if isScannersOwn {
                _ = unread.withUnsafeBytes { scanner.scan($0) }
                _ = scanner.scan(UnsafeRawBufferPointer(rebasing: window[used..<max(used, scanned)]))
            }
            throw fault
        }
        _ = try unread.withUnsafeBytes { bytes in
            Result { () throws(ParserFault) in try skip(bytes) }
        }.get()
        return used
    }

    /// Drops what was read of the element, or of the member of a list in it, that cannot be read.
    private func start(skipping fault: ParserFault) {
        let open = builder.pointee.open
        skipped = (open.first.map { RefusedElement.Root(of: $0) }, nil)
        if fault.reach == .member, let list = builder.pointee.list {
            start(skippingIn: list, open)
        } else {
            isStale = isStale || builder.pointee.failure != nil || !open.isEmpty
            builder.pointee.drop(from: 0)
        }
        scanner.startSkipping(
            fault.error, to: builder.pointee.open.count + 1,
            rootName: open.first.map { Array($0.name.utf8) } ?? [])
    }

    /// - Parameter list: Which of the open elements holds the member.
    private func start(skippingIn list: Int, _ open: [Element]) {
        isStale = isStale || builder.pointee.failure != nil || open.count > list + 1
        builder.pointee.drop(from: list + 1)
        if isStale { replayedBytes += builder.pointee.replay().count }
        guard replayedBytes <= limits.replayedBytes else { return builder.pointee.drop(from: 0) }
        skipped.list = open[list]
        skipped.list?.children = []
    }

    /// - Returns: How many bytes were used: fewer where the element ends.
    private func skip(_ window: UnsafeRawBufferPointer) throws(ParserFault) -> Int {
        let (cut, stop) = scanner.scan(window)
        switch stop {
        case .endOfBytes: break
        case .fault(let fault): throw fault
        case .skipped: try endSkipping()
        }
        return cut.scanned
    }

    private func endSkipping() throws(ParserFault) {
        let root = refusedRoot
        guard let found = scanner.endSkipping() else { return }
        if found.depth == 1 {
            // Also where only a member of it was to be skipped at first.
            isStale = isStale || !builder.pointee.open.isEmpty
            builder.pointee.drop(from: 0)
            (skipped.list, replayedBytes) = (nil, 0)
        }
        builder.pointee.events.append(
            .refused(
                RefusedElement(
                    root: root, list: skipped.list, byteCount: found.byteCount, reason: found.reason)))
        if isStale { try replaceContext() }
    }

    /// The first-level element that is being skipped.
    private var refusedRoot: RefusedElement.Root {
        skipped.root
            ?? scanner.skipping?.reader.root { builder.pointee.openTags.namespace(inheritedWith: $0) }
            ?? RefusedElement.Root(Element("", namespace: ""), unreadable: [])
    }

    /// The first-level element in which the stream has ended.
    private var unfinished: Element? {
        guard scanner.depth > 0, scanner.skipping != nil else { return nil }
        let element = refusedRoot.element
        return element.name.isEmpty ? nil : element
    }

    // MARK: Replacing libxml2's parser

    /// libxml2 never forgets a name, so a peer could fill its dictionary with ever new ones, and it stops for good at what it
    /// refuses. All that a fresh parser needs to go on are the start tags of the elements that are open.
    private func replaceContext() throws(ParserFault) {
        let replay = builder.pointee.replay()
        builder.pointee.prepareForRestart()
        if isSwollen || context.isWorn {
            builder.pointee.forgetNames()
            context = try ParserContext(builder: builder)
        } else {
            try context.restart()
        }
        builder.pointee.isReplaying = true
        replay.withUnsafeBytes { context.parse($0) }
        builder.pointee.isReplaying = false
        (isSwollen, isStale) = (false, false)
        if let fault = builder.pointee.failure { throw ParserFault(fault.error, reach: .stream) }
    }
}
