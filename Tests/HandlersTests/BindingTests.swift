import Handlers
import TestSupport
import TestThreads
import Testing

/// Bound in one order, declared in another; one argument of each need.
private struct Order: Handler {
    static let id = "test.order"
    var first: Int
    var second: String
    var optional: Int?
    /// May be missing from a row and then has this value.
    var defaulted: Int = 7

    init(first: Int, second: String, optional: Int? = nil, defaulted: Int = 7) {
        (self.first, self.second, self.optional, self.defaulted) = (first, second, optional, defaulted)
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        first = try container.decode(Int.self, forKey: .first)
        second = try container.decode(String.self, forKey: .second)
        optional = try container.decodeIfPresent(Int.self, forKey: .optional)
        defaulted = try container.decodeIfPresent(Int.self, forKey: .defaulted) ?? 7
    }

    func run(_ call: borrowing Call<Reply>) throws {
        try call.step.execute(
            "INSERT INTO note(text) VALUES (?)",
            "\(first) \(second) \(optional.map(String.init) ?? "nil") \(defaulted)")
    }
}

private struct Point: Codable, Sendable {
    var x: Int8
    var y: Double
}

private struct Place: Handler {
    static let id = "test.place"
    var point: Point

    func run(_ call: borrowing Call<Reply>) throws {}
}

/// Cannot be encoded.
private struct Seal: Codable, Sendable {
    func encode(to encoder: any Encoder) throws { throw Failure(description: "the seal is broken") }
}

private struct Letter: Handler {
    static let id = "test.letter"
    var sender: String
    var pages = [1, 2]
    var seal: Seal
    func run(_ call: borrowing Call<Reply>) throws {}
}

/// Encodes as a plain string, not by name.
private struct Unnamed: Handler {
    static let id = "test.unnamed"

    init() {}
    init(from decoder: any Decoder) throws {}
    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode("nameless")
    }
    func run(_ call: borrowing Call<Reply>) throws {}
}

@Suite(.serialized, .ownThread, .engines(.sqlite, .postgres)) struct BindingTests {
    /// Binds, ends with `overrides`, and returns what was noted or why the handler was quarantined or parked.
    private func run<H: Handler>(_ handler: H, overriding overrides: [String: JSONValue]) throws -> String
    where H.Context == Reply {
        var result = ""
        try withFolder { folder in
            let store = try openStore(folder.file(), [H.self])
            let id = try store.bind(handler.durable)
            switch try store.end(id, overriding: Record(overrides)) {
            case .ended: result = try store.notes().joined()
            case .queued: result = "queued"
            case let other: result = other.reason ?? ""
            }
        }
        return result
    }

    @Test("H3 bound values reach the handler, whatever the order in which they are stored")
    func bound() throws {
        #expect(
            try run(Order(first: 1, second: "b", optional: 3, defaulted: 4), overriding: [:]) == "1 b 3 4")
    }

    @Test("H3 a value of the call wins over the bound one of the same name; the others stay")
    func precedence() throws {
        #expect(
            try run(Order(first: 1, second: "b", optional: 3), overriding: ["second": .string("called")])
                == "1 called 3 7")
    }

    @Test("H3 an explicit null of the call clears an optional argument")
    func explicitNull() throws {
        #expect(
            try run(Order(first: 1, second: "b", optional: 3), overriding: ["optional": .null]) == "1 b nil 7"
        )
    }

    @Test("H3 extras that the handler does not name are ignored")
    func extras() throws {
        #expect(
            try run(Order(first: 1, second: "b"), overriding: ["surplus": .array([.integer(1)])])
                == "1 b nil 7")
    }

    @Test("H3 an override set from a Codable value is stored as that value")
    func overrideFromValue() throws {
        var record = Record()
        try record.set("first", to: 9)
        try record.set("second", to: "nine")
        #expect(try run(Order(first: 1, second: "b"), overriding: record.values) == "9 nine nil 7")
    }

    @Test("H4 an optional and a defaulted argument may be missing from the row")
    func optionalAndDefaulted() throws {
        try withFolder { folder in
            let store = try openStore(folder.file(), [Order.self])
            let id = try store.bind(Order(first: 1, second: "b").durable)
            try store.step {
                try $0.execute("UPDATE handler SET arguments = ?", [UInt8](#"{"first":1,"second":"b"}"#.utf8))
            }
            #expect(try store.end(id) == .ended)
            #expect(try store.notes() == ["1 b nil 7"])
        }
    }

    @Test("H4 a missing mandatory argument names itself and its handler")
    func missing() throws {
        try withFolder { folder in
            let store = try openStore(folder.file(), [Order.self])
            let id = try store.bind(Order(first: 1, second: "b").durable)
            try store.step {
                try $0.execute("UPDATE handler SET arguments = ?", [UInt8](#"{"first":1}"#.utf8))
            }
            guard case .quarantined(let reason) = try store.end(id) else {
                Issue.record("a handler without a mandatory argument was called")
                return
            }
            #expect(reason.contains("'test.order'"))
            #expect(reason.contains("'second'"))
            #expect(reason.contains("mandatory"))
        }
    }

    @Test("H4 null for a mandatory argument names handler, argument, expected and found")
    func nullForMandatory() throws {
        let reason = try run(Order(first: 1, second: "b"), overriding: ["second": .null])
        for part in ["'test.order'", "'second'", "String", "null"] {
            #expect(reason.contains(part), "\(reason)")
        }
    }

    @Test(
        "H4 a wrong type names handler, argument, expected and found",
        arguments: [
            ("first", JSONValue.string("one"), "Int", "a string"),
            ("first", .bool(true), "Int", "the truth value true"),
            ("first", .number(1.5), "Int", "the number 1.5"),
            ("first", .unsigned(.max), "Int", "the integer 18446744073709551615"),
            ("first", .object([:]), "Int", "an object"),
            ("second", .integer(5), "String", "the integer 5"),
            ("second", .array([]), "String", "a list"),
        ])
    func wrongType(_ argument: String, _ value: JSONValue, _ expected: String, _ found: String) throws {
        let reason = try run(Order(first: 1, second: "b"), overriding: [argument: value])
        for part in ["'test.order'", "'\(argument)'", expected, found] {
            #expect(reason.contains(part), "\(reason)")
        }
    }

    @Test("H4 a wrong value deep inside an argument is named by its path")
    func deepPath() throws {
        let place = Place(point: Point(x: 1, y: 2))
        let text = try run(place, overriding: ["point": .object(["x": .integer(1), "y": .string("b")])])
        for part in ["'test.place'", "'point.y'", "Double", "a string"] {
            #expect(text.contains(part), "\(text)")
        }
        let big = try run(place, overriding: ["point": .object(["x": .integer(300), "y": .integer(1)])])
        for part in ["'test.place'", "'point.x'", "300"] { #expect(big.contains(part), "\(big)") }
        let gone = try run(place, overriding: ["point": .object(["x": .integer(3)])])
        for part in ["'test.place'", "'point.y'"] { #expect(gone.contains(part), "\(gone)") }
    }

    @Test("H4 a row whose arguments are no JSON is quarantined, not thrown")
    func noJSON() throws {
        try withFolder { folder in
            let store = try openStore(folder.file(), [Order.self])
            for damaged in ["", "{", "[1]", "\u{0}\u{1}"] {
                let id = try store.bind(Order(first: 1, second: "b").durable)
                try store.step {
                    try $0.execute("UPDATE handler SET arguments = ? WHERE id = ?", [UInt8](damaged.utf8), id)
                }
                guard case .quarantined(let reason) = try store.end(id) else {
                    Issue.record("damaged arguments were accepted")
                    return
                }
                #expect(reason.contains("'test.order'"))
                #expect(try store.end(id, overriding: Record(["first": .integer(1)])) != .ended)
            }
        }
    }

    @Test("H5 a number that is not finite is refused where it is bound, with handler and argument")
    func notANumber() throws {
        for value in [Double.nan, .infinity, -.infinity] {
            let error = error { _ = try Holding(value: value).durable }
            #expect(error?.code == .argumentNotEncodable)
            #expect(error?.message.contains("'test.holding.Double'") == true)
            #expect(error?.message.contains("value") == true)
        }
        var record = Record()
        #expect(code { try record.set("x", to: Float.nan) } == .argumentNotEncodable)
        #expect(record.isEmpty)
    }

    @Test("H5 an argument whose own encoding throws is refused where it is bound, and named")
    func throwingArgument() throws {
        let error = error { _ = try Letter(sender: "Ada", seal: Seal()).durable }
        #expect(error?.code == .argumentNotEncodable)
        #expect(
            error?.message
                == "the argument 'seal' of the handler 'test.letter' cannot be stored: the seal is broken; bind a value that JSON can hold"
        )
    }

    @Test("H5 a handler that does not encode its arguments by name is refused where it is bound")
    func withoutNames() throws {
        let error = error { _ = try Unnamed().durable }
        #expect(error?.code == .argumentNotEncodable)
        #expect(error?.message.contains("'test.unnamed'") == true)
    }

    @Test("H20 the description of a bound handler shows name, version and arguments")
    func description() throws {
        #expect(try Greet(name: "Juliet").durable.description == #"test.greet@1{"name":"Juliet"}"#)
    }

    @Test("H3 equal arguments are equal handlers")
    func equality() throws {
        let one = try Greet(name: "Juliet", punctuation: "!").durable
        #expect(one == (try Greet(name: "Juliet", punctuation: "!").durable))
        #expect(one != (try Greet(name: "Romeo", punctuation: "!").durable))
    }
}
