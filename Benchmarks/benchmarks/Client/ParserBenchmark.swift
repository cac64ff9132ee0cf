import CFloor
import XMPPCore

/// A stream of chat messages read into elements beside libxml2's own tree builder, and written beside the reading.
struct ParserBenchmark: Benchmark {
    private static let stanzas = 400
    private static let chunk = 64 << 10

    let names = ["client/parse", "client/serialize"]

    func run(in workspace: Workspace) throws -> [Line] {
        let stream = Self.stream()
        let elements = try Self.parse(stream)
        guard elements.count == Self.stanzas, try Self.parseByFloor(stream) == Self.stanzas * 6 + 1 else {
            throw BenchmarkError("the parsers read something else than what was written")
        }
        let parsing = try Rounds(count: Self.stanzas) {
            _ = try Self.parse(stream)
        } reference: {
            _ = try Self.parseByFloor(stream)
        }
        let writing = try Rounds(count: Self.stanzas) {
            Self.serialize(elements)
        } reference: {
            _ = try Self.parse(stream)
        }
        return [
            Line(
                names[0], unit: "stanzas/s", better: .more, ours: parsing.ours, reference: parsing.reference,
                referenceName: "libxml2's tree", goal: 0.6),
            Line(
                names[1], unit: "stanzas/s", better: .more, ours: writing.ours, reference: writing.reference,
                referenceName: "parsing", goal: 1),
        ]
    }

    /// What phones send each other: a body with some marks of extensions.
    private static func stream() -> [UInt8] {
        var bytes = Serializer.streamHeader(to: "alice@example.org", from: "example.org", id: "s")
        for number in 0..<stanzas {
            bytes +=
                ("<message type='chat' to='alice@example.org/phone' from='bob@example.net/desk' id='m\(number)'>"
                + "<body>Message \(number): shall we meet at the station &amp; take the train at nine?</body>"
                + "<request xmlns='urn:xmpp:receipts'/><origin-id xmlns='urn:xmpp:sid:0' id='o\(number)'/>"
                + "<stanza-id xmlns='urn:xmpp:sid:0' by='alice@example.org' id='s\(number)'/>"
                + "<markable xmlns='urn:xmpp:chat-markers:0'/></message>").utf8
        }
        return bytes + Serializer.streamEnd
    }

    static func parse(_ stream: [UInt8]) throws -> [Element] {
        let parser = try StreamParser()
        var elements: [Element] = []
        try stream.withUnsafeBytes { bytes in
            for start in stride(from: 0, to: bytes.count, by: chunk) {
                let piece = UnsafeRawBufferPointer(rebasing: bytes[start..<min(bytes.count, start + chunk)])
                for event in try parser.parse(piece) {
                    if case .element(let element) = event { elements.append(element) }
                }
            }
        }
        return elements
    }

    private static func parseByFloor(_ stream: [UInt8]) throws -> Int {
        let count = stream.withUnsafeBytes {
            floor_parse_tree($0.baseAddress?.assumingMemoryBound(to: CChar.self), Int64($0.count))
        }
        guard count > 0 else { throw BenchmarkError("libxml2 could not read the stream") }
        return Int(count)
    }

    private static func serialize(_ elements: [Element]) {
        let serializer = Serializer()
        var bytes: [UInt8] = []
        for element in elements { serializer.append(element, to: &bytes) }
        precondition(!bytes.isEmpty)
    }
}
