import TestThreads
import Testing
import ParserVerifier
import XMPPCore

#if canImport(Glibc)
    import Glibc
#endif

/// Every limit has a name, a test at its edge, and a test that memory stays flat behind it.
@Suite(.ownThread, .serialized) struct StreamParserLimitTests {
    private func limits(_ change: (inout ParserLimits) -> Void) -> ParserLimits {
        var limits = ParserLimits()
        change(&limits)
        return limits
    }

    private func message(of count: Int) -> String {
        "<message>" + String(repeating: "x", count: count - "<message></message>".count) + "</message>"
    }

    /// One element was left out for a limit, and the stream went on.
    private func expectRefusal(
        _ outcome: ParserOutcome, _ comment: Comment? = nil, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        #expect(outcome.code == nil, comment, sourceLocation: sourceLocation)
        let conditions = outcome.refused.map(\.reason.streamError.condition)
        #expect(conditions == [.policyViolation], comment, sourceLocation: sourceLocation)
    }

    @Test("X3 a stanza may have as many bytes as the limit says and not one more")
    func stanzaBytes() throws {
        let limits = limits { $0.stanzaBytes = 200 }
        #expect(
            try ParserVerifier.verify([testHeader, message(of: 200)], limits: limits).elements.count == 1)
        let outcome = try ParserVerifier.verify(
            [testHeader, "<presence/>", message(of: 201), message(of: 200)], limits: limits)
        expectRefusal(outcome)
        #expect(outcome.elements.count == 2)
    }

    @Test("X3 the limit on stanza bytes counts attributes, nesting and CDATA, finished or not")
    func stanzaBytesEverywhere() throws {
        let limits = limits { ($0.stanzaBytes, $0.skippedBytes) = (100, 110) }
        let long = String(repeating: "y", count: 120)
        for stanza in [
            "<message id='\(long)", "<message><\(long)", "<message><![CDATA[\(long)", "<\(long)",
            "<message></\(long)",
            "<message \(long)", String(repeating: "<a>", count: 40),
            "<message>" + String(repeating: "<a/>", count: 40),
        ] {
            let outcome = try ParserVerifier.verify([testHeader, stanza], limits: limits)
            #expect(outcome.condition == .policyViolation, "\(stanza)")
        }
    }

    @Test("X3 elements may nest as deep as the limit says, the header counted")
    func depth() throws {
        let limits = limits { $0.depth = 5 }
        let four = String(repeating: "<a>", count: 4) + String(repeating: "</a>", count: 4)
        #expect(try ParserVerifier.verify([testHeader, four, four], limits: limits).elements.count == 2)
        let five = String(repeating: "<a>", count: 4) + "<a/>"
        expectRefusal(
            try ParserVerifier.verify(
                [testHeader, five + String(repeating: "</a>", count: 4)], limits: limits))
    }

    @Test("X3 a depth of 10 000 is refused at the standard limit")
    func greatDepth() throws {
        let parser = try StreamParser()
        _ = try parser.parse(testHeader)
        let deep = String(repeating: "<a>", count: 10_000) + String(repeating: "</a>", count: 10_000)
        guard case .refused(let refused)? = try parser.parse(deep + "<presence/>").first else {
            Issue.record("10 000 elements inside each other were accepted")
            return
        }
        #expect(refused.reason.code == .limitExceeded)
        #expect(refused.reason.message.contains("depth"))
        #expect(refused.reason.message.contains("64"))
    }

    @Test("X3 an element may have as many attributes as the limit says, declarations counted")
    func attributes() throws {
        let limits = limits { $0.attributes = 4 }
        let stream = "<s:stream xmlns:s='http://etherx.jabber.org/streams'>"
        let outcome = try ParserVerifier.verify(
            [stream, "<a xmlns='u' b='1' c='2' d='3'/><a xmlns='u' b='1' c='2' d='3' e='4'/>"], limits: limits
        )
        #expect(outcome.elements.count == 1)
        expectRefusal(outcome)
    }

    @Test("X3 a stanza may have as many elements as the limit says, itself counted")
    func elements() throws {
        let limits = limits { $0.elements = 3 }
        let outcome = try ParserVerifier.verify(
            [testHeader, "<a><b/><c/></a>", "<a><b><c/></b></a>", "<a><b/><c/><d/></a>"], limits: limits)
        #expect(outcome.elements.count == 2)
        expectRefusal(outcome)
    }

    @Test("X3 text, CDATA and values may be as long as the limit says")
    func textBytes() throws {
        let limits = limits { $0.textBytes = 40 }
        let edge = String(repeating: "x", count: 40)
        let fine = "<a b='\(edge)'>\(edge)<c/>\(edge)</a><a><![CDATA[\(edge.dropFirst(3))]]></a>"
        #expect(try ParserVerifier.verify([testHeader, fine], limits: limits).elements.count == 2)
        for stanza in [
            "<a b='\(edge)x'/>", "<a>\(edge)x</a>", "<a><![CDATA[\(edge)x]]></a>", "<a>\(edge)x<b/></a>",
        ] {
            expectRefusal(try ParserVerifier.verify([testHeader, stanza], limits: limits), "\(stanza)")
        }
    }

    @Test("X3 a stream header may have as many bytes as the limit says")
    func headerBytes() throws {
        let declaration = "<?xml version='1.0'?>".utf8.count
        let size = testHeader.utf8.count - declaration
        #expect(try ParserVerifier.verify([testHeader], limits: limits { $0.headerBytes = size }).code == nil)
        let outcome = try ParserVerifier.verify([testHeader], limits: limits { $0.headerBytes = size - 1 })
        #expect(outcome.condition == .policyViolation)
        let endless = try StreamParser()
        #expect(throws: StreamParserError.self) {
            try endless.parse("<?xml " + String(repeating: " ", count: 1 << 20))
        }
    }

    // MARK: Memory

    /// Feeds pieces until the parser refuses, and returns how many bytes it took.
    private func feed(_ parser: StreamParser, upTo total: Int, _ piece: [UInt8]) -> Int {
        var fed = 0
        while fed < total {
            do { _ = try parser.parse(piece) } catch { return fed }
            fed += piece.count
        }
        return fed
    }

    /// What is not refused for good before: an element that is left out.
    private let skippedBytes = ParserLimits.standard.skippedBytes

    @Test("X19 a header whose namespaces are long as they are written again ends the stream")
    func headerNamespaces() throws {
        // A quotation mark is written as six bytes.
        let header = { (count: Int) -> String in
            testHeader.dropLast() + " xmlns:p='\(String(repeating: "\"", count: count))'>"
        }
        #expect(try ParserVerifier.verify([header(300), "<a:b/><p:c/>"]).elements.map(\.name) == ["c"])
        let outcome = try ParserVerifier.verify([header(400), "<a/>"])
        #expect(outcome.code == .limitExceeded && outcome.events.isEmpty)
    }

    @Test("X3 an attribute of 100 MB ends the stream near the limit on what is skipped")
    func hugeAttribute() throws {
        let growth = try leastGrowth(over: 8 << 20) {
            let before = try residentBytes()
            let parser = try StreamParser()
            _ = try parser.parse(testHeader + "<message id='")
            let fed = feed(parser, upTo: 100_000_000, [UInt8](repeating: 0x78, count: 64 << 10))
            #expect(fed <= skippedBytes)
            return try residentBytes() - before
        }
        #expect(growth <= 8 << 20, "nothing of what is skipped is held")
        let whole = try StreamParser()
        let attribute = [UInt8](repeating: 0x78, count: 100_000_000)
        do {
            _ = try whole.parse(Array((testHeader + "<presence/><message id='").utf8) + attribute)
            Issue.record("100 MB were accepted")
        } catch {
            #expect(error.streamError.condition == .policyViolation)
            #expect(error.events.count == 2)
        }
    }

    @Test("X3 endless text, names, CDATA and declarations end the stream near their limits")
    func endlessTokens() throws {
        let skipped = 2 << 20
        for (start, limit) in [
            ("<message>", skipped), ("<message><", skipped), ("<message ", skipped),
            ("<message><![CDATA[", skipped), ("</", 1 << 20),
        ] {
            let parser = try StreamParser(limits: limits { $0.skippedBytes = skipped })
            _ = try parser.parse(testHeader + start)
            let fed = feed(parser, upTo: 100_000_000, [UInt8](repeating: 0x78, count: 64 << 10))
            #expect(fed <= limit, "\(start)")
        }
    }

    /// What is fed without end behind the header, each 100 MB.
    static let floods: [(name: String, start: String, piece: String)] = [
        ("one attribute", "<message id='", "x"), ("one text", "<message>", "x"), ("one name", "<", "x"),
        ("one end tag", "<message></", "x"), ("one CDATA section", "<message><![CDATA[", "x"),
        ("references", "<message>", "&amp;"), ("elements inside each other", "", "<a>"),
        ("elements beside each other", "<message>", "<a/>"),
        ("namespaces inside each other", "", "<a xmlns:x='urn:x' xmlns='urn:y' y='z'>"),
        ("attributes", "<message ", "a='1' "), ("white space in a tag", "<message ", " "),
        ("texts beside each other", "<message>", "x<a/>"),
    ]

    @Test("X3 a flood of 100 MB ends in policy-violation and costs no more memory than the limits allow")
    func floods() throws {
        for flood in Self.floods {
            let least = try leastGrowth(over: 8 << 20) { try growth(flood.start, flood.piece) }
            #expect(least <= 8 << 20, "\(flood.name)")
        }
    }

    /// Other tests of the same process need memory too: what the parser needs, it needs every time.
    private func leastGrowth(over limit: Int, _ measure: () throws -> Int) throws -> Int {
        var least = Int.max
        for _ in 0..<8 where least > limit { least = min(least, try measure()) }
        return least
    }

    /// Feeds the piece until it is refused.
    /// - Returns: by how much the process had grown then.
    private func growth(_ start: String, _ piece: String) throws -> Int {
        let piece = [UInt8](String(repeating: piece, count: (64 << 10) / piece.utf8.count).utf8)
        let before = try residentBytes()
        let parser = try StreamParser(limits: limits { $0.skippedBytes = 2 << 20 })
        _ = try parser.parse(testHeader + start)
        var fed = 0
        while fed < 100_000_000 {
            do {
                _ = try parser.parse(piece)
            } catch {
                #expect(error.streamError.condition == .policyViolation)
                #expect(fed < 2 << 20)
                return try residentBytes() - before
            }
            fed += piece.count
        }
        Issue.record("100 MB were accepted")
        return .max
    }

    @Test("X3 keep-alives without end cost no memory")
    func keepAlives() throws {
        let parser = try StreamParser()
        _ = try parser.parse(testHeader)
        let blanks = [UInt8](repeating: 0x20, count: 1 << 20)
        let growth = try leastGrowth(over: 8 << 20) {
            let before = try residentBytes()
            for _ in 0..<200_000 { #expect(try parser.parse(" ").isEmpty) }
            for _ in 0..<20 { _ = try parser.parse(blanks) }
            return try residentBytes() - before
        }
        #expect(growth <= 8 << 20)
        #expect(try parser.parse("<presence/>").count == 1)
    }

    @Test("X3 ever new names and namespaces do not grow the parser, and do not end the stream")
    func everNewNames() throws {
        let parser = try StreamParser()
        _ = try parser.parse(testHeader)
        var round = 0
        func meetNames(_ rounds: Int) throws {
            for _ in 0..<rounds {
                let names = (0..<100).map {
                    "<n\(round)x\($0) xmlns='urn:r\(round):\($0)' a\(round)x\($0)='1'/>"
                }
                let events = try parser.parse("<message>" + names.joined() + "</message>")
                guard case .element(let element) = events.first else {
                    Issue.record("no stanza in round \(round)")
                    return
                }
                #expect(element.namespace == Namespaces.client)
                #expect(element.elements.last?["a\(round)x99"] == "1")
                round += 1
            }
        }
        try meetNames(300)
        let growth = try leastGrowth(over: 8 << 20) {
            let before = try residentBytes()
            try meetNames(1200)
            return try residentBytes() - before
        }
        #expect(growth <= 8 << 20)
    }

    @Test("X3 a parser that is replaced inside a read keeps prefixes, open stanzas and the end of the stream")
    func replacementInsideRead() throws {
        let header =
            "<s:stream xmlns:s='http://etherx.jabber.org/streams' xmlns='jabber:client' xmlns:q='urn:q'>"
        var stream = header
        for number in 0..<6000 { stream += "<q:n\(number)><s:m/></q:n\(number)>" }
        stream += "</s:stream>"
        for pieceSize in [100_000, 1000, 37] {
            var pieces: [[UInt8]] = []
            var rest = Array(stream.utf8)[...]
            while !rest.isEmpty {
                pieces.append(Array(rest.prefix(pieceSize)))
                rest = rest.dropFirst(pieceSize)
            }
            let outcome = try ParserVerifier.outcome(of: pieces)
            #expect(outcome.code == nil)
            #expect(outcome.elements.count == 6000)
            #expect(
                outcome.elements.allSatisfy {
                    $0.namespace == "urn:q" && $0.child("m", Namespaces.stream) != nil
                })
            #expect(outcome.events.last == .closed)
            #expect(outcome.events.filter { if case .opened = $0 { true } else { false } }.count == 1)
        }
    }

    @Test("X3 large stanzas do not leave large buffers behind")
    func largeStanzas() throws {
        let parser = try StreamParser()
        _ = try parser.parse(testHeader)
        let large = Array(message(of: 1 << 20).utf8)
        for _ in 0..<3 { #expect(try parser.parse(large).count == 1) }
        let growth = try leastGrowth(over: 16 << 20) { () throws -> Int in
            let before = try residentBytes()
            for _ in 0..<30 { #expect(try parser.parse(large).count == 1) }
            return try residentBytes() - before
        }
        #expect(growth <= 16 << 20)
        #expect(try parser.parse("<presence/></stream:stream>").count == 2)
    }

    /// Resident memory of this process, from the kernel.
    private func residentBytes() throws -> Int {
        let file = try #require(fopen("/proc/self/statm", "r"))
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        try #require(fgets(&line, 256, file) != nil)
        let fields = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            .split(separator: " ")
        return try #require(Int(fields[1])) * sysconf(Int32(_SC_PAGESIZE))
    }
}
