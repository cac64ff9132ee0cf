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
///     case .closed: …                      // </stream:stream>
///     }
/// }
/// ```
///
/// The events do not depend on how the bytes were cut. Memory is bounded by `ParserLimits` whatever a peer sends:
/// an element is handed over when it is complete, and nothing of it is kept. White space between stanzas
/// (keep-alives) is dropped. Comments, processing instructions, DTDs and entities other than the five of XML end the
/// stream with `restricted-xml` (RFC 6120 section 11.1).
///
/// One parser reads one stream: make a new one after STARTTLS and after SASL. It is not `Sendable`; its owner calls
/// it from one place.
public final class StreamParser {
    /// What was complete in the bytes that were parsed.
    public enum Event: Hashable, Sendable {
        /// The stream header, with its attributes and without children.
        case opened(Element)
        /// A complete first-level element.
        case element(Element)
        /// The end of the stream.
        case closed
    }

    private var scanner: StreamScanner
    private var context: ParserContext
    private let builder: UnsafeMutablePointer<TreeBuilder>
    /// The start of a tag, or of character data in front of one, that is not complete yet.
    private var pending: [UInt8] = []
    /// The stream header's start tag, for replacing a worn libxml2 parser.
    private var header: [UInt8] = []
    /// Whether libxml2's buffers have grown beyond `largeBytes`.
    private var isSwollen = false
    private var isDead = false

    /// Bytes looked at in one go. Small enough to stay in the processor's cache between scanner and libxml2.
    private static let windowBytes = 16 << 10
    /// A libxml2 parser that had to take more at once keeps buffers of that size and is replaced.
    private static let largeBytes = 128 << 10

    /// Makes a parser for one stream.
    ///
    /// - Parameter limits: What the peer may make it hold.
    /// - Throws: `StreamParserError` with `outOfMemory`.
    public init(limits: ParserLimits = .standard) throws(StreamParserError) {
        let builder = UnsafeMutablePointer<TreeBuilder>.allocate(capacity: 1)
        builder.initialize(to: TreeBuilder())
        do {
            context = try ParserContext(builder: builder)
        } catch {
            builder.deinitialize(count: 1)
            builder.deallocate()
            throw error
        }
        self.builder = builder
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
    public func parse(_ bytes: UnsafeRawBufferPointer) throws(StreamParserError) -> [Event] {
        if isDead {
            throw StreamParserError(.dead, "This stream has failed; make a new parser for a new stream.")
        }
        var start = 0
        while start < bytes.count {
            let end = min(bytes.count, start + Self.windowBytes)
            do {
                try parse(window: UnsafeRawBufferPointer(rebasing: bytes[start..<end]))
            } catch {
                isDead = true
                var error = error
                error.events = takeEvents()
                throw error
            }
            start = end
        }
        return takeEvents()
    }

    /// Parses the next bytes of the stream.
    ///
    /// - Parameter bytes: Any number of bytes, cut anywhere.
    /// - Returns: What became complete, in order.
    /// - Throws: `StreamParserError`, as for a buffer.
    public func parse(_ bytes: [UInt8]) throws(StreamParserError) -> [Event] {
        try withBytes(bytes)
    }

    /// Parses the next characters of the stream.
    ///
    /// - Parameter text: Any number of characters.
    /// - Returns: What became complete, in order.
    /// - Throws: `StreamParserError`, as for a buffer.
    public func parse(_ text: String) throws(StreamParserError) -> [Event] {
        try withBytes(Array(text.utf8))
    }

    private func withBytes(_ bytes: [UInt8]) throws(StreamParserError) -> [Event] {
        // A Result carries the typed error through the untyped rethrow of the closure.
        try bytes.withUnsafeBytes { buffer in
            Result { () throws(StreamParserError) -> [Event] in try parse(buffer) }
        }.get()
    }

    private func takeEvents() -> [Event] {
        let events = builder.pointee.events
        builder.pointee.events = []
        return events
    }

    // MARK: One window

    private func parse(window: UnsafeRawBufferPointer) throws(StreamParserError) {
        let (cut, error) = scanner.scan(window)
        if cut.start > 0 { pending.removeAll(keepingCapacity: true) }
        if let range = cut.header { keepHeader(range, of: window) }
        let fed = try feedComplete(window, cut)
        if let error { throw error }
        if scanner.isDroppable { return pending.removeAll(keepingCapacity: true) }
        pending.append(contentsOf: window[fed...])
    }

    /// Gives libxml2 what is complete. In front of the unfinished stanza a worn parser can be replaced.
    private func feedComplete(
        _ window: UnsafeRawBufferPointer, _ cut: StreamScanner.Cut
    ) throws(StreamParserError) -> Int {
        var start = cut.start
        if cut.boundary > 0 {
            try feed(window[start..<cut.boundary])
            start = cut.boundary
            if isSwollen || context.isWorn { try replaceContext() }
        }
        if cut.complete > start { try feed(window[start..<cut.complete]) }
        return max(start, cut.complete)
    }

    private func feed(_ slice: Slice<UnsafeRawBufferPointer>) throws(StreamParserError) {
        if pending.isEmpty {
            context.parse(UnsafeRawBufferPointer(rebasing: slice))
        } else {
            pending.append(contentsOf: slice)
            isSwollen = isSwollen || pending.count > Self.largeBytes
            pending.withUnsafeBytes { context.parse($0) }
            pending.removeAll(keepingCapacity: pending.count <= Self.windowBytes)
        }
        if let failure = builder.pointee.failure { throw failure }
    }

    // MARK: Replacing libxml2's parser

    private func keepHeader(_ range: Range<Int>, of window: UnsafeRawBufferPointer) {
        let earlier = max(0, -range.lowerBound)
        header = Array(pending.suffix(earlier)) + Array(window[max(0, range.lowerBound)..<range.upperBound])
    }

    /// libxml2 never forgets a name, so a peer could fill its dictionary with ever new ones. Between two stanzas
    /// its whole state is the stream header: a fresh parser that has read the header goes on just as well.
    private func replaceContext() throws(StreamParserError) {
        builder.pointee.forgetNames()
        context = try ParserContext(builder: builder)
        builder.pointee.isReplayingHeader = true
        header.withUnsafeBytes { context.parse($0) }
        builder.pointee.isReplayingHeader = false
        isSwollen = false
        if let failure = builder.pointee.failure { throw failure }
    }
}
