import FoundationEssentials
import HandlerMacrosSupport
import Synchronization
import TestThreads
import Testing

// MARK: The handlers under test: one of each kind of owner

/// What a call of these handlers supplies.
private struct Sale: Sendable {
    let shop: Shop
    var word = "hello"
}

/// The live object; it keeps what the handlers said.
private final class Shop: Sendable {
    let said = Mutex<[String]>([])
    let till: Till?
    let drawer = Drawer()
    let clerk = Clerk()
    let desk = Desk()

    init(hasTill: Bool = true) { till = hasTill ? Till() : nil }

    func say(_ text: String) { said.withLock { $0.append(text) } }
    func taken() -> [String] { said.withLock { $0 } }
}

private enum Coin: Codable, Hashable, Sendable {
    case penny
    case note(value: Int, serial: String)
}

private struct Item: Codable, Hashable, Sendable {
    var name: String
    var price: UInt64
}

/// Instances of a class, found through an optional.
private final class Till: Sendable {
    @Handler("macro-test.till.paid", on: "shop.till")
    func paid(_ call: borrowing Call<Sale>, coin: Coin, then: Durable<Sale>? = nil) throws {
        call.context.shop.say("till \(coin)")
        if let then { try call.step.bind(then) }
    }

    @Handler("macro-test.till.by-chain", on: "shop.till?.itself")
    func byChain(_ call: borrowing Call<Sale>) { call.shop.say("chain \(call.word)") }

    var itself: Till? { self }
}

/// Instances of a struct.
private struct Drawer: Sendable {
    let number = 7

    @Handler("macro-test.drawer.opened", on: "shop.drawer")
    func opened(_ call: borrowing Call<Sale>, for customer: String) {
        call.shop.say("drawer \(number) \(customer)")
    }
}

/// Instances of an actor, and a static function on it.
private actor Clerk {
    @Handler("macro-test.clerk.called", on: "shop.clerk")
    nonisolated func called(_ call: borrowing Call<Sale>) { call.shop.say("clerk") }

    @Handler("macro-test.clerk.hired")
    static func hired(_ call: borrowing Call<Sale>) { call.shop.say("hired") }
}

/// A type on the main actor.
@MainActor private final class Desk: Sendable {
    nonisolated init() {}

    @Handler("macro-test.desk.cleared", on: "shop.desk")
    nonisolated func cleared(_ call: borrowing Call<Sale>) { call.shop.say("desk") }
}

/// Static functions: every kind of argument.
private enum Orders {
    struct Note: Codable, Sendable {
        var text: String
        static let empty = Note(text: "-")
    }

    typealias MaybeInt = Int?

    @Handler("macro-test.orders.placed")
    static func placed(_ call: borrowing Call<Sale>, items: [Item], coins: [String: Coin], at: Date) throws {
        call.shop.say("items \(items) coins \(coins) at \(at.timeIntervalSince1970)")
    }

    @Handler("macro-test.orders.defaulted")
    static func defaulted(
        _ call: borrowing Call<Sale>, count: Int = 2 + 1, note: Self.Note = .empty, tries: Int? = 3,
        maybe: Optional<Int>, alias: MaybeInt, tags: [String] = ["new"]
    ) {
        let tries = tries.map(String.init) ?? "nil"
        call.shop.say("\(count) \(note.text) \(tries) \(maybe ?? -1) \(alias ?? -1) \(tags)")
    }

    @Handler("macro-test.orders.words")
    static func words(
        _ call: borrowing Call<Sale>, in place: String, for: Int, `let`: Int, `init` first: Int,
        `self` own: Int,
        id: Int, version: Int, run: Int, call other: Int, arguments: Int, `two words`: Int
    ) {
        call.shop.say(
            "\(place) \([`for`, `let`, first, own, id, version, run, other, arguments, `two words`])")
    }

    @Handler(
        "macro-test.orders.shipped", version: 3, aliases: ["macro-test.orders.sent"],
        upcast: { arguments, version in
            if version == 1 { arguments.rename("adress", to: "address") }
            if version == 2 { try arguments.set("express", to: false) }
        })
    static func shipped(_ call: borrowing Call<Sale>, address: String, express: Bool) {
        call.shop.say("\(address) \(express)")
    }

    @Handler("macro-test.orders.moved", version: 2, upcast: Self.move)
    static func moved(_ call: borrowing Call<Sale>, to: String) { call.shop.say("moved \(to)") }

    static func move(_ arguments: inout Record, from version: Int) throws {
        arguments.rename("goal", to: "to")
    }

    @Handler("macro-test.orders.secret")
    private static func secret(_ call: borrowing Call<Sale>, word: String) { call.shop.say("secret \(word)") }

    static func bindSecret() throws -> Durable<Sale> { try secret(word: "psst") }

    @Handler("macro-test.orders.failed")
    static func failed(_ call: borrowing Call<Sale>) throws(HandlerError) {
        throw HandlerError(.init(rawValue: "test"), "sold out")
    }
}

/// A type in a type, and an extension of it.
extension Orders {
    fileprivate enum Archive {
        @Handler("macro-test.archive.kept")
        static func kept(_ call: borrowing Call<Sale>, item: Item) { call.shop.say("kept \(item.name)") }
    }
}

extension Orders.Archive {
    @Handler("macro-test.archive.lost")
    static func lost(_ call: borrowing Call<Sale>, item: Item? = nil) {
        call.shop.say("lost \(item?.name ?? "-")")
    }
}

/// Types of the user's that are called like those in the expansion.
private enum Names {
    enum Handlers {}
    enum Swift {}
    struct Durable {}
    struct Record {}
    struct HandlerError: Error {}
    struct Decoder {}
    struct Encoder {}
    struct CodingKey {}

    @Handler("macro-test.names.hidden", version: 2, upcast: { arguments, _ in arguments["a"] = nil })
    static func hidden(_ call: borrowing Call<Sale>, count: Int) { call.shop.say("count \(count)") }
}

// MARK: The tests

@Suite("Handlers written with @Handler, stored and run", .ownThread)
struct MacroRuntimeTests {
    /// Stores `durable`, forgets it, calls it from its row, and gives what the handlers said.
    private func run(
        _ durable: Durable<Sale>, overriding overrides: Record = Record(), shop: Shop = Shop()
    ) throws -> (said: [String], disposition: Disposition) {
        var disposition: Disposition?
        try withFolder { folder in
            let id = try HandlerStore(path: folder.file(), registry: HandlerRegistry()).step {
                try $0.bind(durable)
            }
            let store = try HandlerStore(path: folder.file(), registry: .discovered())
            disposition = try store.step {
                try $0.end(id, .result, with: Sale(shop: shop), overriding: overrides)
            }
        }
        return (shop.taken(), try #require(disposition))
    }

    /// A handler as an older program stored it.
    private func stored(_ name: String, version: Int = 1, _ arguments: String) throws -> Durable<Sale> {
        let json = #"{"$handler":"\#(name)","version":\#(version),"arguments":\#(arguments)}"#
        return try JSONDecoder().decode(Durable<Sale>.self, from: Data(json.utf8))
    }

    @Test("H10 every @Handler of the program is found through its record, whatever it stands in")
    func discovery() {
        let expected = [
            "archive.kept", "archive.lost", "clerk.called", "clerk.hired", "desk.cleared", "drawer.opened",
            "names.hidden", "orders.defaulted", "orders.failed", "orders.moved", "orders.placed",
            "orders.secret", "orders.sent",
            "orders.shipped", "orders.words", "till.by-chain", "till.paid",
        ].map { "macro-test." + $0 }
        let names = HandlerRegistry.discovered().names.map(\.string)
        #expect(names.filter { $0.hasPrefix("macro-test.") } == expected)
    }

    @Test("H10 what the macro adds is the plain form, and can be listed by hand")
    func explicitList() throws {
        let registry = HandlerRegistry([Till.Handler_paid.self, Orders.Archive.Handler_lost.self])
        #expect(registry.names == ["macro-test.archive.lost", "macro-test.till.paid"])
        #expect(try Till.Handler_paid(coin: .penny, then: nil).durable == Till.paid(coin: .penny))
    }

    @Test("H2 instance handlers run on the instance that the call leads to: of a class, a struct or an actor")
    func instances() throws {
        #expect(try run(Till.paid(coin: .penny)).said == ["till penny"])
        #expect(try run(Till.byChain()).said == ["chain hello"])
        #expect(try run(Drawer.opened(for: "Juliet")).said == ["drawer 7 Juliet"])
        #expect(try run(Clerk.called()).said == ["clerk"])
        #expect(try run(Desk.cleared()).said == ["desk"])
    }

    @Test("H2 static handlers run on an enum, an actor, a nested type and an extension")
    func statics() throws {
        #expect(try run(Clerk.hired()).said == ["hired"])
        #expect(try run(Orders.Archive.kept(item: Item(name: "egg", price: 3))).said == ["kept egg"])
        #expect(try run(Orders.Archive.lost()).said == ["lost -"])
        #expect(try run(Orders.bindSecret()).said == ["secret psst"])
    }

    @Test("H2 a missing instance is an error that names the path")
    func missingInstance() throws {
        for durable in [try Till.paid(coin: .penny), try Till.byChain()] {
            let (said, disposition) = try run(durable, shop: Shop(hasTill: false))
            #expect(said == [])
            guard case .quarantined(let reason) = disposition else {
                Issue.record("not set aside: \(disposition)")
                return
            }
            #expect(reason.contains(durable.name))
            #expect(reason.contains("shop.till"))
        }
    }

    @Test("H5 enums with payloads, lists of structs, maps and dates come back as they were bound")
    func kinds() throws {
        let durable = try Orders.placed(
            items: [Item(name: "egg", price: .max), Item(name: "tea", price: 0)],
            coins: ["a": .note(value: -5, serial: "x\"y")], at: Date(timeIntervalSince1970: 12.5))
        let items = [Item(name: "egg", price: .max), Item(name: "tea", price: 0)]
        let coins = ["a": Coin.note(value: -5, serial: "x\"y")]
        #expect(try run(durable).said == ["items \(items) coins \(coins) at 12.5"])
    }

    @Test("H6 a handler is an argument of a handler, to any depth")
    func nested() throws {
        let third = try Till.paid(coin: .note(value: 3, serial: "c"))
        let second = try Till.paid(coin: .note(value: 2, serial: "b"), then: third)
        let first = try Till.paid(coin: .penny, then: second)
        #expect(
            try first.record["then"]
                == .object([
                    "$handler": .string("macro-test.till.paid"), "version": .integer(1),
                    "arguments": .object(try second.record.values),
                ]))
        #expect(try second.record["then"] != nil)
        #expect(try third.record["then"] == nil)

        let shop = Shop()
        try withFolder { folder in
            let store = try HandlerStore(path: folder.file(), registry: .discovered())
            let start = try store.step { try $0.bind(first) }.rawValue
            // Each binds the next one, in the row after its own.
            for row in start..<start + 3 {
                _ = try store.step {
                    try $0.end(HandlerID<Sale>(rawValue: row), .result, with: Sale(shop: shop))
                }
            }
        }
        #expect(
            shop.taken() == [
                "till penny", "till note(value: 2, serial: \"b\")", "till note(value: 3, serial: \"c\")",
            ])
    }

    @Test("H4 optional and defaulted arguments may be missing from the store")
    func missingArguments() throws {
        let durable = try stored("macro-test.orders.defaulted", "{}")
        #expect(try run(durable).said == ["3 - 3 -1 -1 [\"new\"]"])
        #expect(try run(stored("macro-test.till.paid", #"{"coin":{"penny":{}}}"#)).said == ["till penny"])
    }

    @Test("H4 a nil that was bound stays nil where the default is another value")
    func boundNil() throws {
        let durable = try Orders.defaulted(tries: nil, maybe: nil, alias: nil)
        #expect(try run(durable).said == ["3 - nil -1 -1 [\"new\"]"])
        #expect(try durable.record["tries"] == .null)
        #expect(try durable.record["maybe"] == nil)
    }

    @Test("H4 bound values win over the defaults")
    func boundValues() throws {
        let durable = try Orders.defaulted(
            count: 0, note: .init(text: "n"), tries: 9, maybe: 8, alias: 7, tags: [])
        #expect(try run(durable).said == ["0 n 9 8 7 []"])
    }

    @Test("H4 a missing mandatory argument is an error with handler and argument")
    func missingMandatory() throws {
        let (said, disposition) = try run(stored("macro-test.drawer.opened", "{}"))
        #expect(said == [])
        #expect(
            disposition
                == .quarantined(
                    reason:
                        "the handler 'macro-test.drawer.opened' was called without its mandatory argument 'for'; "
                        + "bind it, make it optional, or raise the handler's version and let upcast add it"))
    }

    @Test("H3 call-time values override bound ones by label")
    func overriding() throws {
        var overrides = Record()
        try overrides.set("for", to: "Romeo")
        try overrides.set("unknown", to: 1)
        #expect(try run(Drawer.opened(for: "Juliet"), overriding: overrides).said == ["drawer 7 Romeo"])
    }

    @Test("H3 arguments are stored under their labels, also those that are Swift keywords")
    func labels() throws {
        let durable = try Orders.words(
            in: "Verona", for: 1, let: 2, init: 3, self: 4, id: 5, version: 6, run: 7, call: 8, arguments: 9,
            `two words`: 10)
        #expect(
            try durable.record.values.keys.sorted() == [
                "arguments", "call", "for", "id", "in", "init", "let", "run", "self", "two words", "version",
            ])
        #expect(try run(durable).said == ["Verona [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"])
    }

    @Test("H10 types of the user's that are called like those in the expansion do no harm")
    func hiddenNames() throws {
        #expect(try run(Names.hidden(count: 4)).said == ["count 4"])
    }

    @Test("H11 rows of an older version and an older name are brought up to date")
    func upcast() throws {
        let oldest = try stored("macro-test.orders.sent", #"{"adress":"Verona"}"#)
        let older = try stored("macro-test.orders.shipped", version: 2, #"{"address":"Mantua"}"#)
        #expect(try run(oldest).said == ["Verona false"])
        #expect(try run(older).said == ["Mantua false"])
        #expect(try run(Orders.shipped(address: "Padua", express: true)).said == ["Padua true"])
        #expect(try run(stored("macro-test.orders.moved", #"{"goal":"Venice"}"#)).said == ["moved Venice"])
    }

    @Test("H13 what a handler throws is kept with it")
    func throwing() throws {
        let (_, disposition) = try run(Orders.failed())
        guard case .quarantined(let reason) = disposition else {
            Issue.record("not set aside: \(disposition)")
            return
        }
        #expect(reason.contains("sold out"))
    }
}
