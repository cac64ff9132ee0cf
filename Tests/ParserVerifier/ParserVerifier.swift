import HandlersTestKit
package import Testing
package import XMPPCore

/// What a parser makes of a stream: its events, and the error that ended it.
package struct ParserOutcome: Equatable {
    package var events: [StreamParser.Event] = []
    package var code: ErrorCode<StreamParserError>?
    package var condition: StreamError.Condition?
    /// In which element the stream ended.
    package var unfinished: Element?

    /// The first-level elements among the events.
    package var elements: [Element] {
        events.compactMap { if case .element(let element) = $0 { element } else { nil } }
    }

    /// What was left out.
    package var refused: [RefusedElement] {
        events.compactMap { if case .refused(let refused) = $0 { refused } else { nil } }
    }
}

/// Drives the parser with the same bytes in every way a network can cut them, and demands one outcome.
package enum ParserVerifier {
    /// Parses whole, byte by byte, in two pieces split at every offset, and in random pieces.
    /// - Parameter pieces: the writes of the peer, as they were recorded; also parsed one by one.
    /// - Returns: the outcome that all ways agreed on.
    @discardableResult
    package static func verify(
        _ pieces: [String], limits: ParserLimits = .standard,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> ParserOutcome {
        try verify(bytes: pieces.map { Array($0.utf8) }, limits: limits, sourceLocation: sourceLocation)
    }

    @discardableResult
    package static func verify(
        bytes pieces: [[UInt8]], limits: ParserLimits = .standard,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> ParserOutcome {
        let glued = pieces.flatMap { $0 }
        let whole = try outcome(of: [glued], limits)
        let asWritten = try outcome(of: pieces, limits)
        #expect(asWritten == whole, "as written", sourceLocation: sourceLocation)
        let bytewise = try outcome(of: glued.map { [$0] }, limits)
        #expect(bytewise == whole, "byte by byte", sourceLocation: sourceLocation)
        for offset in glued.indices {
            let split = try outcome(of: [Array(glued[..<offset]), Array(glued[offset...])], limits)
            #expect(split == whole, "split at \(offset)", sourceLocation: sourceLocation)
            if split != whole { break }
        }
        try verifyRandomPieces(glued, whole, limits, sourceLocation)
        return whole
    }

    /// The same for a stream of a real server, which is too long to be split at every offset: split so is every element
    /// of it, behind the stream's header.
    /// - Parameter reads: what each read gave.
    /// - Returns: the outcome that all ways agreed on.
    @discardableResult
    package static func verifyRecording(
        _ reads: [[UInt8]], sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> ParserOutcome {
        let glued = reads.flatMap { $0 }
        let whole = try outcome(of: [glued])
        #expect(try outcome(of: reads) == whole, "as it was read", sourceLocation: sourceLocation)
        let ends = try ends(of: glued)
        let bytewise = try outcome(of: glued.map { [$0] })
        #expect(bytewise == whole, "byte by byte", sourceLocation: sourceLocation)
        try verifyRandomPieces(glued, whole, .standard, sourceLocation)
        guard let headerEnd = ends.first else { return whole }
        try verify(bytes: [Array(glued[..<headerEnd])], sourceLocation: sourceLocation)
        for (start, end) in zip(ends, ends.dropFirst()) where end - start <= splitBytes {
            try verify(
                bytes: [Array(glued[..<headerEnd]), Array(glued[start..<end])], sourceLocation: sourceLocation
            )
        }
        return whole
    }

    /// The longest element of a recording that is split at every offset.
    private static let splitBytes = 3000

    /// Where in the stream each event was complete.
    private static func ends(of stream: [UInt8]) throws -> [Int] {
        let parser = try StreamParser()
        var ends: [Int] = []
        for (index, byte) in stream.enumerated() {
            ends += try parser.parse([byte]).map { _ in index + 1 }
        }
        return ends
    }

    private static func verifyRandomPieces(
        _ glued: [UInt8], _ whole: ParserOutcome, _ limits: ParserLimits, _ sourceLocation: SourceLocation
    ) throws {
        for seed in 1...20 as ClosedRange<UInt64> {
            var generator = SeededGenerator(seed: seed)
            var rest = glued[...]
            var pieces: [[UInt8]] = []
            while !rest.isEmpty {
                let piece = rest.prefix(Int.random(in: 0...40, using: &generator))
                pieces.append(Array(piece))
                rest = rest.dropFirst(piece.count)
            }
            let random = try outcome(of: pieces, limits)
            #expect(random == whole, "random pieces, seed \(seed)", sourceLocation: sourceLocation)
        }
    }

    /// Parses the pieces one after the other, up to the first error.
    package static func outcome(of pieces: [[UInt8]], _ limits: ParserLimits = .standard) throws
        -> ParserOutcome
    {
        let parser = try StreamParser(limits: limits)
        var outcome = ParserOutcome()
        for piece in pieces {
            do {
                outcome.events += try parser.parse(piece)
            } catch {
                outcome.events += error.events
                outcome.code = error.code
                outcome.condition = error.streamError.condition
                outcome.unfinished = error.element
                return outcome
            }
        }
        return outcome
    }
}

/// The header that the tests' streams start with.
package let testHeader =
    "<?xml version='1.0'?><stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'"
    + " id='s1' from='example.org' to='a@example.org' version='1.0' xml:lang='en'>"
