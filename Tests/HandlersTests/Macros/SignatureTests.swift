import Foundation
import HandlerMacrosSupport
import TestThreads
import Testing

@testable import Handlers

private enum Coin: Codable, Sendable { case penny }

extension Int {
    fileprivate struct Change: Codable, Hashable, Sendable { var by = 1 }
}

/// In plain form, with a type of every shape.
private struct Plain: Handler {
    static let id = "signature.plain"
    static let version = 3
    static let aliases = ["signature.older", "signature.old"]
    var zeal: Int
    let coin: Coin
    private var maps: [String: [Coin?]]
    var then: Durable<Reply>?
    var date: Date
    var secret: Secret<UInt64>
    var change: Set<Int.Change>? { nil }
    var step: Int.Change
    static let notStored = 1

    func run(_ call: borrowing Call<Reply>) throws {}
}

private struct Waiting: AsyncHandler {
    static let id = "signature.waiting"
    var file: URL
    func run(_ call: AsyncCall<TimerFired>) async throws {}
}

/// With coding keys of its own, the names of the properties all the same.
private struct Keyed: Handler {
    static let id = "signature.keyed"
    var first: Int
    var second: String
    private enum CodingKeys: String, CodingKey { case second, first }
    func run(_ call: borrowing Call<Reply>) throws {}
}

private struct Renaming: Handler {
    static let id = "signature.renaming"
    var device: Int
    private enum CodingKeys: String, CodingKey { case device = "deviceid" }
    func run(_ call: borrowing Call<Reply>) throws {}
}

private struct Listed: Handler {
    static let id = "signature.listed"
    var device: Int
    private enum CodingKeys: String, CodingKey { case device = "deviceid" }
    static let storedArguments = [HandlerArgument("deviceid", Int.self, hasDefault: true)]
    func run(_ call: borrowing Call<Reply>) throws {}
}

private enum Choice: Handler {
    static let id = "signature.choice"
    case left(Int), right(Int)
    func run(_ call: borrowing Call<Reply>) throws {}
}

private final class Referred: Handler {
    static let id = "signature.referred"
    let device: Int
    func run(_ call: borrowing Call<Reply>) throws {}
}

private enum Macros {
    @Handler("signature.macro", version: 2, aliases: ["signature.macros"])
    static func stored(
        _ call: borrowing Call<Reply>, zeal: Int, coin: Self.Kind = .penny, `init` first: [Int]? = nil,
        tries: Int? = 3, `two words`: [String: Date]
    ) {}

    @Handler("signature.macro-waiting")
    static func waiting(_ call: AsyncCall<TimerFired>) async {}

    fileprivate typealias Kind = Coin
}

@Suite("Signatures of handlers", .ownThread) struct SignatureTests {
    private func lines<H: DurableHandler>(_ handler: H.Type) throws -> [String] {
        try HandlerSignature(handler).description.split(separator: "\n").map(String.init)
    }

    @Test("H11 the signature of a struct is found in its properties, sorted, and the same in every run")
    func plain() throws {
        #expect(
            try lines(Plain.self) == [
                "handler signature.plain", "  version 3", "  alias signature.old", "  alias signature.older",
                "  runs inside the step", "  called with HandlersTests.Reply",
                "  argument coin: HandlersTests.Coin",
                "  argument date: Foundation.Date",
                "  argument maps: [String: [HandlersTests.Coin?]]",
                "  argument secret: Handlers.Secret<UInt64>",
                "  argument step: Int.Change",
                "  argument then: Handlers.Durable<HandlersTests.Reply>?",
                "  argument zeal: Int",
            ])
        #expect(
            try lines(Waiting.self) == [
                "handler signature.waiting", "  version 1", "  runs under a lease",
                "  called with Handlers.TimerFired", "  argument file: Foundation.URL",
            ])
    }

    @Test("H11 the signature of a function has its labels and defaults")
    func macro() throws {
        #expect(
            try lines(Macros.Handler_stored.self) == [
                "handler signature.macro", "  version 2", "  alias signature.macros",
                "  runs inside the step",
                "  called with HandlersTests.Reply",
                "  argument coin: HandlersTests.Coin (has a default)",
                "  argument init: [Int]?",
                "  argument tries: Int? (has a default)",
                "  argument two words: [String: Foundation.Date]",
                "  argument zeal: Int",
            ])
        #expect(
            try lines(Macros.Handler_waiting.self) == [
                "handler signature.macro-waiting", "  version 1", "  runs under a lease",
                "  called with Handlers.TimerFired",
            ])
    }

    @Test("H11 coding keys of the properties' names are seen, and others must be listed")
    func codingKeys() throws {
        #expect(try HandlerSignature(Keyed.self).arguments.map(\.name) == ["first", "second"])
        #expect(
            try HandlerSignature(Listed.self).arguments == [.init("deviceid", Int.self, hasDefault: true)])
        let error = error { try HandlerSignature(Renaming.self) }
        #expect(error?.code == .unknownSignature)
        #expect(
            error?.message
                == "the arguments of the handler 'signature.renaming' cannot be listed, because its property 'device' has "
                + "no coding key of that name; list them in 'static var storedArguments: [HandlerArgument]'"
        )
    }

    @Test("H11 a handler of which reflection shows nothing is an error, not an empty signature")
    func opaque() {
        for error in [
            error { try HandlerSignature(Choice.self) }, error { try HandlerSignature(Referred.self) },
            error { try HandlerRegistry([Greet.self, Choice.self]).signatures },
        ] {
            #expect(error?.code == .unknownSignature)
            #expect(error?.message.contains("nothing is known of its stored properties") == true)
        }
    }

    @Test("H11 every registered handler has a signature, listed or discovered")
    func registry() throws {
        let registry = HandlerRegistry([Waiting.self, Plain.self, Waiting.self])
        #expect(try registry.signatures.map(\.id) == ["signature.plain", "signature.waiting"])
        let found = HandlerRegistry.discovered(and: [Plain.self])
        let ids = try found.signatures.map(\.id)
        #expect(ids == ids.sorted())
        #expect(
            ids.filter { $0.hasPrefix("signature.") } == [
                "signature.macro", "signature.macro-waiting", "signature.plain",
            ])
    }

    @Test(
        "H11 a type is shown as in source, without what differs from build to build",
        arguments: [
            ("Swift.Int", "Int"), ("Swift.Optional<Swift.Int>", "Int?"),
            ("Swift.Optional<Swift.Optional<Swift.Int>>", "Int??"),
            ("Swift.Array<Swift.Dictionary<Swift.String, Shop.Coin>>", "[[String: Shop.Coin]]"),
            ("FoundationEssentials.Data", "Foundation.Data"), ("Foundation.Data", "Foundation.Data"),
            ("Shop.(unknown context at $55d0c0de).Coin", "Shop.Coin"),
            ("(extension in Shop):Swift.Int.(unknown context at $1).Coin", "Int.Coin"),
            ("Shop.Box<Swift.Int, Shop.(unknown context at $1).Coin>.Lid", "Shop.Box<Int, Shop.Coin>.Lid"),
            ("Swift.Set<Swift.Result<Swift.Int, any Swift.Error>>", "Set<Result<Int, any Swift.Error>>"),
        ])
    func typeNames(_ reflected: String, _ shown: String) { #expect(TypeName.text(reflected) == shown) }
}
