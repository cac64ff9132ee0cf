import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing

private enum Suit: String, Codable, Sendable { case hearts, spades }

private enum Shape: Codable, Equatable, Sendable {
    case nothing
    case circle(radius: Double)
    case named(String, UInt8)
    indirect case pair(Shape, Shape)
}

private struct Contact: Codable, Equatable, Sendable {
    var name: String
    var address: URL?
    var born: Date
    var tags: Set<String>
    var scores: [String: [Int?]]
    var shape: Shape
}

/// Holds a handler as an argument and calls nothing: the inner one is bound again.
private struct Chain: Handler {
    static let id = "test.chain"
    var then: Durable<Reply>
    var orElse: Durable<Invalidation>? = nil

    func run(_ call: borrowing Call<Reply>) throws { try call.step.bind(then.orElse(orElse)) }
}

@Suite(.serialized, .ownThread, .countsInMemory, .engines(.sqlite, .postgres)) struct RoundTripTests {
    /// Binds `value`, reopens the file as another process would, ends the handler, and returns what it was given:
    /// once from the row as it is, once with a call-time argument merged in, once as an argument of an argument.
    private func roundTrips<V: Codable & Sendable>(_ value: V) throws -> [V] {
        var values: [V] = []
        try withFolder { folder in
            let handlers: [any Handler.Type] = [Holding<V>.self, Holding<Durable<Sink<V>>>.self]
            let durable = try Holding(value: value).durable
            let ids = try {
                let store = try openStore(folder.file(), handlers)
                return try store.step { step in
                    (
                        try step.bind(durable), try step.bind(durable),
                        try step.bind(Holding(value: durable).durable)
                    )
                }
            }()
            let store = try openStore(folder.file(), handlers)
            let sink = Sink<V>()
            let outer = Sink<Durable<Sink<V>>>()
            try store.step { step in
                try #require(try step.end(ids.0, .result, with: sink) == .ended)
                try #require(
                    try step.end(ids.1, .result, with: sink, overriding: Record(["extra": .null])) == .ended)
                try #require(try step.end(ids.2, .result, with: outer) == .ended)
                let inner = try step.bind(try #require(outer.values.first))
                try #require(try step.end(inner, .result, with: sink) == .ended)
            }
            values = sink.values
        }
        return values
    }

    private func expectRoundTrip<V: Codable & Sendable & Equatable>(
        _ value: V, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let values = try roundTrips(value)
        #expect(values == [value, value, value], sourceLocation: sourceLocation)
    }

    @Test("H5 integers keep their full range, signed and unsigned", .timeLimit(.minutes(3)))
    func integers() throws {
        for value in [Int.min, -1, 0, 1, 1 << 53 + 1, Int.max] { try expectRoundTrip(value) }
        for value in [UInt64.min, UInt64(Int64.max) + 1, .max] { try expectRoundTrip(value) }
        try expectRoundTrip([Int8.min, .max])
        try expectRoundTrip([UInt32.max])
    }

    @Test("H5 truth values stay truth values, also beside the numbers 0 and 1")
    func truth() throws {
        try expectRoundTrip([true, false])
        try expectRoundTrip([0, 1])
    }

    @Test(
        "H5 floating-point numbers come back bit for bit",
        arguments: [
            0, 1, -1, 0.1, 1.0 / 3, 1e15, 1e16, 1e18, 9.3e18, 1e19, 1e23, -1e300, .pi, .leastNonzeroMagnitude,
            .greatestFiniteMagnitude, Double(1 << 53) + 2,
        ] as [Double])
    func doubles(_ value: Double) throws {
        #expect(try roundTrips(value).map(\.bitPattern) == Array(repeating: value.bitPattern, count: 3))
    }

    @Test("H5 minus zero keeps its sign")
    func minusZero() throws {
        #expect(try roundTrips(-0.0).map(\.sign) == [.minus, .minus, .minus])
    }

    @Test("H5 decimals and integers wider than 64 bits keep every digit")
    func wide() throws {
        try expectRoundTrip(try #require(Decimal(string: "12345678901234567890123456789.0123456789")))
        try expectRoundTrip(try #require(Decimal(string: "0.1")))
        try expectRoundTrip(Int128.min)
        try expectRoundTrip(UInt128.max)
        try expectRoundTrip(Int128(UInt64.max) + 1)
    }

    @Test("H5 text of any kind comes back, with zero characters, escapes and emoji")
    func text() throws {
        try expectRoundTrip("")
        try expectRoundTrip("\u{0} \" \\ / \n \r\n \u{2028} é e\u{301} 👩🏽‍🚀 <iq id='1'/>")
        try expectRoundTrip(String(repeating: "x", count: 300_000))
    }

    @Test("H5 dates, data and URLs come back exactly")
    func foundationValues() throws {
        try expectRoundTrip(Date(timeIntervalSince1970: 1_700_000_000.123456))
        try expectRoundTrip([Date.distantPast, .distantFuture])
        try expectRoundTrip(Data())
        try expectRoundTrip(Data((0...255).map { UInt8($0) }))
        try expectRoundTrip(try #require(URL(string: "xmpp:juliet@example.net?message;body=a%20b")))
    }

    @Test("H5 enums, with and without payload, come back")
    func enums() throws {
        try expectRoundTrip([Suit.hearts, .spades])
        try expectRoundTrip(
            [
                Shape.nothing, .circle(radius: 0.5), .named("a", 255),
                .pair(.nothing, .pair(.nothing, .nothing)),
            ])
    }

    @Test("H5 objects with nested collections come back")
    func objects() throws {
        let contact = Contact(
            name: "Juliet", address: URL(string: "https://example.net/a/b?c=d"),
            born: Date(timeIntervalSince1970: -1),
            tags: ["a", "b"], scores: ["x": [1, nil, 3], "": []], shape: .circle(radius: 1))
        try expectRoundTrip(contact)
        try expectRoundTrip([[contact], []])
        try expectRoundTrip([1: "one", 2: "two"])
        try expectRoundTrip([String: [String: Int]]())
    }

    @Test("H6 a handler as an argument of an argument comes back and can be called, to any depth")
    func nested() throws {
        try withFolder { folder in
            let store = try openStore(folder.file(), [Greet.self, Chain.self, Abandon.self])
            var durable = try Greet(name: "deep").durable
            for _ in 0..<8 { durable = try Chain(then: durable, orElse: Abandon(name: "x").durable).durable }
            var id = try store.bind(durable)
            for _ in 0..<8 {
                #expect(try store.end(id) == .ended)
                id = try #require(try store.waiting().first).id
            }
            #expect(try store.end(id) == .ended)
            #expect(try store.notes() == ["Hello, deep"])
            #expect(try store.waiting() == [])
        }
    }

    @Test("H6 a stored handler names the nested one, so that it can be found without its type")
    func marked() throws {
        let record = try Chain(then: Greet(name: "Juliet").durable).durable.record
        guard case .object(let inner)? = record["then"] else {
            Issue.record("the nested handler is no object")
            return
        }
        #expect(inner["$handler"] == .string("test.greet"))
        #expect(inner["version"] == .integer(1))
        #expect(inner["arguments"] == .object(["name": .string("Juliet")]))
    }

    @Test("H5 a value nested too deep to be read back is refused where it is bound")
    func tooDeep() throws {
        func nested(_ depth: Int) -> Shape {
            (0..<depth).reduce(Shape.nothing) { shape, _ in .pair(shape, .nothing) }
        }
        try expectRoundTrip(nested(25))
        for depth in [100, 500] {
            #expect(code { _ = try Holding(value: nested(depth)).durable } == .argumentNotEncodable)
        }
        let error = error { _ = try Holding(value: nested(100)).durable }
        #expect(error?.message.contains("nested deeper than 128") == true)
        // Brackets inside text are no nesting.
        try expectRoundTrip(String(repeating: "\\\"[{", count: 500))
    }
}
