import XMPPCore

extension Element {
    /// Everything about the element, byte by byte, and no two elements the same. It asks neither the serializer nor
    /// `==` of strings, which takes different bytes for the same.
    var canonical: [UInt8] {
        var bytes: [UInt8] = []
        append(to: &bytes)
        return bytes
    }

    private func append(to bytes: inout [UInt8]) {
        bytes += name.utf8
        bytes.append(0xFF)
        bytes += namespace.utf8
        for attribute in attributes {
            bytes.append(0xFE)
            bytes += attribute.name.utf8
            bytes.append(0xFF)
            if let namespace = attribute.namespace { bytes += namespace.utf8 }
            bytes.append(attribute.namespace == nil ? 0xFD : 0xFF)
            bytes += attribute.value.utf8
        }
        for child in children {
            switch child {
            case .element(let element):
                bytes.append(0xFC)
                element.append(to: &bytes)
            case .text(let text):
                bytes.append(0xFB)
                bytes += text.utf8
            }
        }
        bytes.append(0xFA)
    }

    /// The first-level elements of a stream's content that can be read.
    static func all(in content: [UInt8], of namespace: String = Namespaces.client) throws -> [Element] {
        try StreamOutcome(content: content, of: namespace).elements
    }
}

/// What a parser makes of a stream: its events, and the error that ended it.
struct StreamOutcome {
    private(set) var events: [StreamParser.Event] = []
    var elements: [Element] {
        events.compactMap { if case .element(let element) = $0 { element } else { nil } }
    }
    /// Why the stream ended.
    private var end: StreamParserError?
    /// Events and error as bytes, to be compared.
    var canonical: [[UInt8]] {
        events.map(Self.canonical)
            + (end.map { [Array("\($0.code) \($0.streamError.condition)".utf8)] } ?? [])
    }

    init(_ pieces: [[UInt8]]) throws {
        let parser = try StreamParser()
        for piece in pieces {
            do throws(StreamParserError) {
                events += try parser.parse(piece)
            } catch {
                events += error.events
                end = error
                return
            }
        }
    }

    /// What it makes of a stream's content.
    init(content: [UInt8], of namespace: String = Namespaces.client) throws {
        try self.init([Serializer.streamHeader(to: nil, contentNamespace: namespace), content])
    }

    private static func canonical(_ event: StreamParser.Event) -> [UInt8] {
        switch event {
        case .opened(let header): [0] + header.canonical
        case .element(let element): [1] + element.canonical
        case .refused(let refused): [2] + refused.root.canonical + Array("\(refused)".utf8)
        case .closed: [3]
        }
    }
}
