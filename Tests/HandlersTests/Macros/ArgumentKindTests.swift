import Foundation
import HandlerMacrosSupport
import TestThreads
import Testing

private enum Suit: String, Codable, Sendable { case hearts, spades }

private struct Stored<Value: Codable & Sendable & Equatable>: Codable, Equatable, Sendable {
    var value: Value
    var list: [Value?]
    var map: [String: Value]
}

/// Where the functions below put what they were given.
private typealias Taken = Sink<[Seen]>

/// A value in a form in which all kinds can be compared.
private struct Seen: Equatable, Sendable {
    let text: String
    init<Value: Sendable>(_ value: Value) {
        if let double = value as? Double {
            text = "Double \(double.bitPattern)"
        } else {
            text = "\(Value.self) \(value)"
        }
    }
}

private enum Kinds {
    @Handler("kinds.numbers")
    static func numbers(
        _ call: borrowing Call<Taken>, bool: Bool, int: Int, uint: UInt, int8: Int8, int64: Int64,
        uint64: UInt64,
        wide: Int128, double: Double, float: Float
    ) {
        call.context.append(
            [.init(bool), .init(int), .init(uint), .init(int8), .init(int64), .init(uint64), .init(wide)]
                + [.init(double), .init(float)])
    }

    @Handler("kinds.values")
    static func values(
        _ call: borrowing Call<Taken>, text: String, data: Data, date: Date, url: URL, uuid: UUID,
        decimal: Decimal,
        suit: Suit, payment: Payment, stanza: StoredStanza
    ) {
        call.context.append(
            [
                .init(text), .init(Array(data)), .init(date.timeIntervalSinceReferenceDate), .init(url),
                .init(uuid),
            ]
                + [.init(decimal), .init(suit), .init(payment), .init(stanza)])
    }

    @Handler("kinds.collections")
    static func collections(
        _ call: borrowing Call<Taken>, list: [[Int]], map: [String: [String: Bool]], set: Set<UInt64>,
        object: Stored<Int>, missing: Int?, present: Int?, handlers: [Durable<Taken>],
        named: [String: Durable<Taken>]
    ) {
        call.context.append(
            [.init(list), .init(map), .init(set.sorted()), .init(object), .init(missing), .init(present)]
                + [.init(handlers), .init(named["a"])])
    }
}

@Suite("Arguments of every kind, bound through @Handler", .serialized, .ownThread)
struct ArgumentKindTests {
    /// What the function is given: from the row as it is, and with its arguments taken apart and put together again.
    private func taken(_ durable: Durable<Taken>) throws -> [[Seen]] {
        var values: [[Seen]] = []
        try withFolder { folder in
            let ids = try {
                let store = try HandlerStore(
                    path: folder.file(), registry: HandlerRegistry(), synchronous: .normal)
                return [try store.bind(durable), try store.bind(durable)]
            }()
            let store = try HandlerStore(path: folder.file(), registry: .discovered(), synchronous: .normal)
            let sink = Taken()
            for (id, overrides) in zip(ids, [Record(), Record(["extra": .null])]) {
                #expect(
                    try store.step { try $0.end(id, .result, with: sink, overriding: overrides) } == .ended)
            }
            values = sink.values
        }
        return values
    }

    private struct Numbers: Sendable {
        var bool: Bool
        var int: Int
        var uint: UInt
        var int8: Int8
        var int64: Int64
        var uint64: UInt64
        var wide: Int128
        var double: Double
        var float: Float
    }

    @Test(
        "H5 truth values and numbers keep their kind and their full range",
        arguments: [
            Numbers(
                bool: true, int: .min, uint: .max, int8: .min, int64: .min, uint64: .max, wide: .min,
                double: .leastNonzeroMagnitude, float: .greatestFiniteMagnitude),
            Numbers(
                bool: false, int: .max, uint: .min, int8: .max, int64: .max, uint64: UInt64(Int64.max) + 1,
                wide: .max,
                double: -.greatestFiniteMagnitude, float: .leastNonzeroMagnitude),
            Numbers(
                bool: true, int: 0, uint: 1, int8: -1, int64: 1, uint64: 0, wide: 0, double: -0.0, float: 0.1),
            Numbers(
                bool: false, int: 1 << 53 + 1, uint: 0, int8: 0, int64: -1, uint64: 1 << 63, wide: -1,
                double: 0.1,
                float: -1e-30),
        ])
    private func numbers(_ n: Numbers) throws {
        let durable = try Kinds.numbers(
            bool: n.bool, int: n.int, uint: n.uint, int8: n.int8, int64: n.int64, uint64: n.uint64,
            wide: n.wide,
            double: n.double, float: n.float)
        let expected: [Seen] =
            [.init(n.bool), .init(n.int), .init(n.uint), .init(n.int8), .init(n.int64), .init(n.uint64)]
            + [.init(n.wide), .init(n.double), .init(n.float)]
        #expect(try taken(durable) == [expected, expected])
    }

    @Test("H5 text, data, dates, URLs, enums, objects and stanzas come back as they were bound")
    func values() throws {
        let stanza = StoredStanza(
            name: "message",
            attributes: [.init(name: "to", value: "a@b"), .init(name: "xml:lang", value: "")],
            children: [.init(name: "body", children: [.init(name: "<&\"'>\u{0}")])])
        let url = try #require(URL(string: "xmpp:juliet@example.net?message;body=a%20b"))
        let (uuid, decimal) = (UUID(), try #require(Decimal(string: "0.1234567890123456789")))
        for payment in [Payment.none, .card(number: "", expires: .distantFuture), .coins([-1: .max])] {
            let text = "\u{0} \" \\ / \r\n \u{2028} e\u{301} 👩🏽‍🚀 <iq/>"
            let data = Data((0...255).map { UInt8($0) })
            let date = Date(timeIntervalSince1970: 1_700_000_000.123456)
            let durable = try Kinds.values(
                text: text, data: data, date: date, url: url, uuid: uuid, decimal: decimal, suit: .spades,
                payment: payment, stanza: stanza)
            let expected: [Seen] =
                [
                    .init(text), .init(Array(data)), .init(date.timeIntervalSinceReferenceDate), .init(url),
                    .init(uuid),
                ]
                + [.init(decimal), .init(Suit.spades), .init(payment), .init(stanza)]
            #expect(
                try taken(durable).map { $0.dropLast(2) } == [expected.dropLast(2), expected.dropLast(2)])
        }
    }

    @Test("H5 collections, optionals and nested handlers come back as they were bound")
    func collections() throws {
        let inner = try Kinds.numbers(
            bool: true, int: .min, uint: .max, int8: 0, int64: 0, uint64: .max, wide: 0, double: 0.1, float: 0
        )
        // One entry each, because the order of more is random where they are compared as text.
        let object = Stored(value: Int.min, list: [nil, .max, 0], map: ["\"": -1])
        let map = ["a": ["": true]]
        let durable = try Kinds.collections(
            list: [[], [1, .max], [.min]], map: map, set: [.max, 0], object: object, missing: nil, present: 0,
            handlers: [inner, inner], named: ["a": inner])
        #expect(try durable.record["missing"] == nil)
        let expected: [Seen] =
            [
                .init([[], [1, .max], [.min]] as [[Int]]), .init(map), .init([0, .max] as [UInt64]),
                .init(object),
            ]
            + [.init(nil as Int?), .init(0 as Int?), .init([inner, inner]), .init(inner as Durable<Taken>?)]
        #expect(try taken(durable) == [expected, expected])
    }

    @Test("H5 a number that is not finite is refused where the function is bound, with handler and argument")
    func notFinite() {
        for value in [Double.nan, .infinity, -.infinity] {
            let double = error {
                try Kinds.numbers(
                    bool: true, int: 0, uint: 0, int8: 0, int64: 0, uint64: 0, wide: 0, double: value,
                    float: 0)
            }
            let float = error {
                try Kinds.numbers(
                    bool: true, int: 0, uint: 0, int8: 0, int64: 0, uint64: 0, wide: 0, double: 0,
                    float: Float(value))
            }
            for (error, name) in [(double, "double"), (float, "float")] {
                #expect(error?.code == .argumentNotEncodable)
                #expect(error?.message.contains("'kinds.numbers'") == true)
                #expect(error?.message.contains(name) == true)
            }
        }
    }
}
