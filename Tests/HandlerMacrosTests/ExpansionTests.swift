import TestThreads
import Testing

@Suite("The expansion of @Handler", .ownThread)
struct ExpansionTests {
    @Test("H10 a static function without bound arguments expands to a type, an overload and a record")
    func staticFunction() {
        expectExpansion(
            """
            enum Carbons {
                @Handler("carbons.enabled")
                static func enabled(_ call: borrowing Call<IQReply>) throws {}
            }
            """,
            """
            enum Carbons {
                static func enabled(_ call: borrowing Call<IQReply>) throws {}

                nonisolated struct Handler_enabled: Handlers::Handler {
                    typealias Context = IQReply
                    static var id: Swift::String { "carbons.enabled" }
                    func run(_ call: borrowing Call<IQReply>) throws {
                        try Carbons.enabled(call)
                    }
                }

                nonisolated static func enabled() throws(Handlers::HandlerError) -> Handlers::Durable<IQReply> {
                    try Handlers::Durable(Handler_enabled())
                }

                #if objectFormat(ELF)
                @section("dh_handlers") @used
                #elseif objectFormat(MachO)
                @section("__DATA,dh_handlers") @used
                #endif
                private nonisolated static let __handlerRecord_enabled:
                    @convention(c) (Swift::UnsafeRawPointer) -> Swift::Void = {
                        __registerHandler(Handler_enabled.self, in: $0, file: "Shop/Till.swift", line: 2)
                    }
            }
            """)
    }

    @Test("H10 an instance function with everything expands to all of it")
    func instanceFunction() {
        expectExpansion(
            """
            final class OmemoService {
                @Handler(
                    "omemo.bundle", version: 2, aliases: ["omemo.old"], on: "account?.omemo",
                    upcast: { record, version in record.rename("deviceid", to: "device") })
                public func bundleFetched(_ call: borrowing Handlers.Call<PubSubFetch>, device: UInt32,
                    tries: Int = 1, then: Durable<OmemoReady>? = nil) {}
            }
            """,
            """
            final class OmemoService {
                public func bundleFetched(_ call: borrowing Handlers.Call<PubSubFetch>, device: UInt32,
                    tries: Int = 1, then: Durable<OmemoReady>? = nil) {}

                public nonisolated struct Handler_bundleFetched: Handlers::Handler {
                    public typealias Context = PubSubFetch
                    public static var id: Swift::String { "omemo.bundle" }
                    public static var version: Swift::Int { 2 }
                    public static var aliases: [Swift::String] { ["omemo.old"] }
                    public static func upcast(
                        _ __record: inout Handlers::Record, from __version: Swift::Int
                    ) throws {
                        let __upcast: (inout Handlers::Record, Swift::Int) throws -> Swift::Void = {
                            record, version in record.rename("deviceid", to: "device")
                        }
                        try __upcast(&__record, __version)
                    }
                    public static var storedArguments: [Handlers::HandlerArgument] {
                        [
                            .init("device", (UInt32).self), .init("tries", (Int).self, hasDefault: true),
                            .init("then", (Durable<OmemoReady>?).self)
                        ]
                    }
                    var device: __BoundArgument<UInt32>
                    var tries: __BoundArgument<Int>
                    var then: __BoundArgument<Durable<OmemoReady>?>
                    enum CodingKeys: Swift::String, Swift::CodingKey {
                        case device
                        case tries
                        case then
                    }
                    init(device: UInt32, tries: Int, then: Durable<OmemoReady>?) {
                        self.device = device
                        self.tries = tries
                        self.then = then
                    }
                    public init(from decoder: any Swift::Decoder) throws {
                        let arguments = try decoder.container(keyedBy: CodingKeys.self)
                        self.device = try arguments.__decodeArgument(.device)
                        self.tries = try arguments.__decodeArgument(.tries, default: 1)
                        self.then = try arguments.__decodeArgument(.then)
                    }
                    public func encode(to encoder: any Swift::Encoder) throws {
                        var arguments = encoder.container(keyedBy: CodingKeys.self)
                        try arguments.__encodeArgument(self.device, .device)
                        try arguments.__encodeDefaultedArgument(self.tries, .tries)
                        try arguments.__encodeArgument(self.then, .then)
                    }
                    public func run(_ call: borrowing Handlers.Call<PubSubFetch>) throws {
                        let instance: OmemoService = try __resolveInstance(
                            call.context.account?.omemo, handler: Self.id, path: "account?.omemo")
                        instance.bundleFetched(call, device: self.device, tries: self.tries, then: self.then)
                    }
                }

                public nonisolated static func bundleFetched(
                    device: UInt32, tries: Int = 1, then: Durable<OmemoReady>? = nil
                ) throws(Handlers::HandlerError) -> Handlers::Durable<PubSubFetch> {
                    try Handlers::Durable(Handler_bundleFetched(device: device, tries: tries, then: then))
                }

                #if objectFormat(ELF)
                @section("dh_handlers") @used
                #elseif objectFormat(MachO)
                @section("__DATA,dh_handlers") @used
                #endif
                private nonisolated static let __handlerRecord_bundleFetched:
                    @convention(c) (Swift::UnsafeRawPointer) -> Swift::Void = {
                        __registerHandler(Handler_bundleFetched.self, in: $0, file: "Shop/Till.swift", line: 2)
                    }
            }
            """)
    }

    @Test("H10 an async function expands to an async handler, which waits for it")
    func asyncFunction() {
        expectExpansion(
            """
            actor Uploads {
                @Handler("upload.given", on: "uploads", retry: .init(attempts: 9), limit: .seconds(9), availability: .mainOnly)
                func given(_ call: AsyncCall<Slot>, file: String) async throws {}
            }
            """,
            """
            actor Uploads {
                func given(_ call: AsyncCall<Slot>, file: String) async throws {}

                nonisolated struct Handler_given: Handlers::AsyncHandler {
                    typealias Context = Slot
                    static var id: Swift::String { "upload.given" }
                    static var retry: Handlers::RetryPolicy { .init(attempts: 9) }
                    static var limit: Swift::Duration? { .seconds(9) }
                    static var availability: Handlers::Availability { .mainOnly }
                    static var storedArguments: [Handlers::HandlerArgument] {
                        [.init("file", (String).self)]
                    }
                    var file: __BoundArgument<String>
                    enum CodingKeys: Swift::String, Swift::CodingKey {
                        case file
                    }
                    init(file: String) {
                        self.file = file
                    }
                    init(from decoder: any Swift::Decoder) throws {
                        let arguments = try decoder.container(keyedBy: CodingKeys.self)
                        self.file = try arguments.__decodeArgument(.file)
                    }
                    func encode(to encoder: any Swift::Encoder) throws {
                        var arguments = encoder.container(keyedBy: CodingKeys.self)
                        try arguments.__encodeArgument(self.file, .file)
                    }
                    func run(_ call: AsyncCall<Slot>) async throws {
                        let instance: Uploads = try __resolveInstance(
                            call.context.uploads, handler: Self.id, path: "uploads")
                        try await instance.given(call, file: self.file)
                    }
                }

                nonisolated static func given(
                    file: String
                ) throws(Handlers::HandlerError) -> Handlers::Durable<Slot> {
                    try Handlers::Durable(Handler_given(file: file))
                }

                #if objectFormat(ELF)
                @section("dh_handlers") @used
                #elseif objectFormat(MachO)
                @section("__DATA,dh_handlers") @used
                #endif
                private nonisolated static let __handlerRecord_given:
                    @convention(c) (Swift::UnsafeRawPointer) -> Swift::Void = {
                        __registerHandler(Handler_given.self, in: $0, file: "Shop/Till.swift", line: 2)
                    }
            }
            """)
    }

    @Test("H31 a workflow expands to its plain form, with what it returns")
    func workflow() {
        for (result, type, body) in [
            (" -> Receipt", "Receipt", "return try await Shop.order(call, number: self.number)"),
            (
                "", "Handlers::Nothing",
                "try await Shop.order(call, number: self.number) return Handlers::Nothing()"
            ),
        ] {
            expectExpansion(
                """
                enum Shop {
                    @Workflow("shop.order", availability: .mainOnly)
                    static func order(_ flow: Flow, number: String) async throws\(result) {}
                }
                """,
                contains: "nonisolated struct Handler_order: Handlers::Workflow {",
                "typealias Context = Handlers::TimerFired",
                "static var availability: Handlers::Availability { .mainOnly }",
                "func run(_ call: Flow) async throws -> \(type) { \(body) }",
                "nonisolated static func order( number: String ) throws(Handlers::HandlerError) -> Handlers::Durable<Handlers::TimerFired>"
            )
        }
    }

    @Test("H10 an argument is stored under its label, not under the name inside the function")
    func labels() {
        expectExpansion(
            """
            enum Till {
                @Handler("till.paid") static func paid(_ call: borrowing Call<Reply>, for customer: Int) {}
            }
            """,
            contains: "var `for`: __BoundArgument<Int>",
            "case `for`",
            ".init(\"for\", (Int).self)",
            "init(for: Int) { self.`for` = `for` }",
            "self.`for` = try arguments.__decodeArgument(.`for`)",
            "Till.paid(call, for: self.`for`)",
            "static func paid(for: Int)",
            "Handler_paid(for: `for`)")
    }

    @Test(
        "H10 labels that mean something else after a dot get a property of another name, and keep their key")
    func reservedLabels() {
        expectExpansion(
            """
            enum Till {
                @Handler("till.paid") static func paid(
                    _ call: borrowing Call<Reply>, init a: Int, init_ b: Int, `self` c: Int, `let`: Int
                ) {}
            }
            """,
            contains: "case init_ = \"init\"\ncase init__ = \"init_\"\ncase self_ = \"self\"\ncase `let`",
            "Till.paid(call, init: self.init_, init_: self.init__, self: self.self_, let: self.`let`)",
            "static func paid(init init_: Int, init_ init__: Int, self self_: Int, `let`: Int)",
            "Handler_paid(init_: init_, init__: init__, self_: self_, let: `let`)")
    }

    @Test("H10 a function whose name is a keyword or has spaces keeps its backticks")
    func quotedFunctionName() {
        expectExpansion(
            """
            enum Till {
                @Handler("till.in") static func `in`(_ call: borrowing Call<Reply>) {}
                @Handler("till.two") static func `two words`(_ call: borrowing Call<Reply>) {}
            }
            """,
            contains: "Till.`in`(call)", "static func `in`() throws", "struct Handler_in:",
            "Till.`two words`(call)", "struct `Handler_two words`:", "static let `__handlerRecord_two words`:"
        )
    }

    @Test("H10 Self means the type around the function, also inside the expansion")
    func selfType() {
        expectExpansion(
            """
            extension Shop.Till {
                @Handler("till.paid", version: 2, upcast: Self.upcast, retry: Self.patient) static func paid(
                    _ call: borrowing Call<Self.Reply>, coin: Self.Coin = Self.penny, other: [Self.Coin]? = nil
                ) {}
            }
            """,
            contains: "typealias Context = Shop.Till.Reply",
            "throws -> Swift::Void = Shop.Till.upcast",
            "static var retry: Handlers::RetryPolicy { Shop.Till.patient }",
            "var coin: __BoundArgument<Shop.Till.Coin>",
            "var other: __BoundArgument<[Shop.Till.Coin]?>",
            "__decodeArgument(.coin, default: Shop.Till.penny)",
            "func run(_ call: borrowing Call<Shop.Till.Reply>)",
            "Shop.Till.paid(call, coin: self.coin, other: self.other)",
            "static func paid(coin: Shop.Till.Coin = Shop.Till.penny, other: [Shop.Till.Coin]? = nil)")
    }

    @Test("H10 a nil that differs from the default is stored, any other is left out")
    func optionalArguments() {
        expectExpansion(
            """
            enum Till {
                @Handler("till.paid") static func paid(
                    _ call: borrowing Call<Reply>, a: Int?, b: Optional<Int> = nil, c: Int? = 3
                ) {}
            }
            """,
            contains: "try arguments.__encodeArgument(self.a, .a)",
            "try arguments.__encodeArgument(self.b, .b)",
            "try arguments.__encodeDefaultedArgument(self.c, .c)",
            "__decodeArgument(.a)", "__decodeArgument(.b)", "__decodeArgument(.c, default: 3)",
            "static func paid(a: Int?, b: Optional<Int> = nil, c: Int? = 3)")
    }

    @Test("H10 what is added has the function's access level, and an extension's own is not repeated")
    func access() {
        let body = "func paid(_ call: borrowing Call<Reply>, a: Int) {}"
        for (written, added, requirement) in [
            ("open", "public", "public"), ("public", "public", "public"), ("package", "package", "package"),
            ("internal", "internal", ""), ("fileprivate", "fileprivate", ""), ("private", "private", ""),
        ] {
            expectExpansion(
                "class Till { @Handler(\"till.paid\", on: \"till\") \(written) \(body) }",
                contains: "\(added) nonisolated struct Handler_paid",
                "\(added) nonisolated static func paid(a: Int)",
                "} \(requirement) func run(", "} \(requirement) init(from")
        }
        expectExpansion(
            "public extension Till { @Handler(\"till.paid\", on: \"till\") \(body) }",
            contains: "} nonisolated struct Handler_paid", "} nonisolated static func paid(a: Int)",
            "} public func run(", "} public init(from")
    }

    @Test("H10 only a function that throws is tried: a needless try is a warning in the user's code")
    func effects() {
        for (written, call) in [
            ("", "{ Till.paid(call) }"), ("throws", "{ try Till.paid(call) }"),
            ("throws(TillError)", "{ try Till.paid(call) }"), ("throws(Never)", "{ Till.paid(call) }"),
            ("throws -> Void", "{ try Till.paid(call) }"), ("-> ()", "{ Till.paid(call) }"),
        ] {
            expectExpansion(
                "enum Till { @Handler(\"till.paid\") static func paid(_ call: borrowing Call<Reply>) \(written) {} }",
                contains: "throws \(call)")
        }
        for (written, call) in [
            ("async", "{ await Till.paid(call) }"), ("async throws", "{ try await Till.paid(call) }"),
            ("async throws(Never)", "{ await Till.paid(call) }"),
        ] {
            expectExpansion(
                "enum Till { @Handler(\"till.paid\") static func paid(_ call: AsyncCall<Reply>) \(written) {} }",
                contains: "func run(_ call: AsyncCall<Reply>) async throws \(call)")
        }
    }

    @Test("H25 what a function returns is the result of the handler")
    func results() {
        for (written, call) in [
            ("-> Int", "{ try call.setResult(Till.paid(call)) }"),
            ("throws -> [Int]?", "{ try call.setResult(Till.paid(call)) }"),
        ] {
            expectExpansion(
                "enum Till { @Handler(\"till.paid\") static func paid(_ call: borrowing Call<Reply>) \(written) { 1 } }",
                contains: "throws \(call)")
        }
        for written in ["async -> Int", "async throws -> Int"] {
            expectExpansion(
                "enum Till { @Handler(\"till.paid\") static func paid(_ call: AsyncCall<Reply>) \(written) { 1 } }",
                contains: "async throws { try await call.end(result: Till.paid(call)) }")
        }
        expectExpansion(
            "final class Till { @Handler(\"till.paid\", on: \"till\") func paid(_ call: borrowing Call<Reply>) -> Int { 1 } }",
            contains: "try call.setResult(instance.paid(call))")
    }

    @Test("H10 availability is repeated on everything that is added")
    func availability() {
        expectExpansion(
            """
            enum Till {
                @available(*, deprecated) @Handler("till.paid") @available(macOS 15, *)
                static func paid(_ call: borrowing Call<Reply>) {}
            }
            """,
            contains: "@available(*, deprecated) @available(macOS 15, *) nonisolated struct Handler_paid",
            "@available(*, deprecated) @available(macOS 15, *) nonisolated static func paid()",
            "@available(*, deprecated) @available(macOS 15, *) private nonisolated static let __handlerRecord_paid"
        )
    }

    @Test("H10 specifiers of a parameter are not part of the stored type")
    func specifiers() {
        expectExpansion(
            """
            enum Till {
                @Handler("till.paid") static func paid(
                    _ call: borrowing Call<Reply>, a: consuming Int, b: sending [Int], c: borrowing String
                ) {}
            }
            """,
            contains: "var a: __BoundArgument<Int>", "var b: __BoundArgument<[Int]>",
            "static func paid(a: Int, b: [Int], c: String)")
    }

    @Test("H10 actors and types on the main actor may hold nonisolated and static handlers")
    func isolation() {
        let function = "func paid(_ call: borrowing Call<Reply>) {}"
        expectExpansion(
            "actor Till { @Handler(\"till.paid\", on: \"till\") nonisolated \(function) }",
            contains: "instance.paid(call)")
        expectExpansion(
            "actor Till { @Handler(\"till.paid\") static \(function) }", contains: "Till.paid(call)")
        expectExpansion(
            "@MainActor class Till { @Handler(\"till.paid\") nonisolated static \(function) }",
            contains: "Till.paid(call)")
        let waiting = "func paid(_ call: AsyncCall<Reply>) async {}"
        expectExpansion(
            "actor Till { @Handler(\"till.paid\", on: \"till\") \(waiting) }",
            contains: "await instance.paid(call)")
        expectExpansion(
            "@MainActor class Till { @Handler(\"till.paid\") static \(waiting) }",
            contains: "await Till.paid(call)")
    }

    @Test("H10 a path may hold optional chaining, calls and subscripts")
    func paths() {
        for path in [
            "till", "shop.till", "shop?.till", "shop?.tills[0]?.till", "shop.till(named: Till.self)", "self",
        ] {
            expectExpansion(
                "class Till { @Handler(\"till.paid\", on: \"\(path)\") func paid(_ call: borrowing Call<Reply>) {} }",
                contains: "__resolveInstance(call.context.\(path), handler: Self.id, path: \"\(path)\")")
        }
    }
}
