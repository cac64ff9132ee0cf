import TestThreads
import Testing

/// `▸` marks where the message must stand.
@Suite("What @Handler says about parameters", .ownThread)
struct ParameterDiagnosticTests {
    private func type(_ parameters: String) -> String {
        "enum Till { @Handler(\"till.paid\") static func paid\(parameters) {} }"
    }

    private func bound(_ parameters: String) -> String {
        type("(_ call: borrowing Call<Reply>, \(parameters))")
    }

    @Test("H10 the first parameter is the call, and has no label")
    func noCall() {
        let message =
            "the first parameter is what the call supplies: write '_ call: borrowing Call<…>' before the bound arguments"
        expectDiagnostic(type("▸()"), message)
        expectDiagnostic(type("(▸device: Int, then: Int)"), message)
        expectDiagnostic(type("(▸call: borrowing Call<Reply>)"), message)
        expectDiagnostic(type("(▸_ call: borrowing Reply)"), message)
        expectDiagnostic(type("(▸_ call: borrowing Other.Call<Reply>)"), message)
        expectDiagnostic(
            "enum Till { @Handler(\"till.paid\") static func paid(▸device: Int) async throws {} }",
            "the first parameter is what the call supplies: write '_ call: AsyncCall<…>' before the bound arguments"
        )
    }

    @Test("H10 a call names what it supplies")
    func callWithoutContext() {
        let message =
            "'Call' needs the type of what the call supplies: write 'borrowing Call<…>', for example "
            + "'borrowing Call<IQReply>'"
        expectDiagnostic(type("(_ call: borrowing ▸Call)"), message)
        expectDiagnostic(type("(_ call: borrowing ▸Call<Reply, Int>)"), message)
        expectDiagnostic(
            type("(_ call: ▸AsyncCall)"),
            "'AsyncCall' needs the type of what the call supplies: write 'AsyncCall<…>', for example "
                + "'AsyncCall<IQReply>'")
    }

    @Test("H10 the call of an async handler is a value like any other")
    func specifiedAsyncCall() {
        func type(_ parameters: String) -> String {
            "enum Till { @Handler(\"till.paid\") static func paid(\(parameters)) async {} }"
        }
        for written in ["borrowing AsyncCall<Reply>", "inout AsyncCall<Reply>"] {
            expectDiagnostic(
                type("_ call: ▸\(written)"),
                "the call is a value that the handler may keep: write 'AsyncCall<Reply>'",
                fixed: type("_ call: AsyncCall<Reply>"))
        }
    }

    @Test("H10 the call is only lent")
    func notBorrowing() {
        let message = "the call is only lent to the handler: write 'borrowing Call<Reply>'"
        expectDiagnostic(
            type("(_ call: ▸Call<Reply>)"), message, fixed: type("(_ call: borrowing Call<Reply>)"))
        expectDiagnostic(
            type("(_ call: ▸consuming Call<Reply>, a: Int)"), message,
            fixed: type("(_ call: borrowing Call<Reply>, a: Int)"))
        expectDiagnostic(
            type("(_ call: ▸inout Handlers.Call<Reply>)"),
            "the call is only lent to the handler: write 'borrowing Handlers.Call<Reply>'",
            fixed: type("(_ call: borrowing Handlers.Call<Reply>)"))
    }

    @Test("H10 a bound argument needs the label under which it is stored")
    func unlabeled() {
        expectDiagnostic(
            bound("▸_ device: Int, a: Int"),
            "a bound argument is stored under its label: write 'device: …' or 'label device: …' instead of '_ device: …'",
            fixed: bound("device: Int, a: Int"))
        expectDiagnostic(
            bound("▸_: Int"),
            "a bound argument is stored under its label: write 'value: …' or 'label value: …' instead of '_ value: …'"
        )
    }

    @Test("H10 two arguments cannot share a label")
    func repeatedLabel() {
        expectDiagnostic(
            bound("to a: Int, ▸to b: Int"),
            "two arguments are stored under the label 'to': give one of them another label")
        expectDiagnostic(
            bound("to a: Int, ▸`to` b: Int"),
            "two arguments are stored under the label 'to': give one of them another label")
    }

    @Test("H10 nobody would see the change of an inout argument")
    func inoutArgument() {
        expectDiagnostic(
            bound("device: ▸inout Int"),
            "'device' is read from the store when the handler runs, so nobody would see its change: remove 'inout'",
            fixed: bound("device: Int"))
    }

    @Test("H10 a variadic argument is refused with the advice to make it an array")
    func variadicArgument() {
        expectDiagnostic(
            bound("devices: ▸Int..., a: Int"),
            "variadic arguments cannot be passed on: write 'devices: [Int]' instead of 'devices: Int...'",
            fixed: bound("devices: [Int], a: Int"))
    }

    @Test("H10 an implicitly unwrapped argument is refused with the advice to make it optional")
    func implicitlyUnwrapped() {
        expectDiagnostic(
            bound("device: ▸Int!"), "'device' may be missing from the store: write 'Int?' instead of 'Int!'",
            fixed: bound("device: Int?"))
    }

    @Test("H10 an actor cannot be stored")
    func isolatedArgument() {
        expectDiagnostic(
            bound("till: ▸isolated Till"),
            "'till' is stored, and an actor cannot be: bind what finds the actor again")
    }

    @Test("H10 a closure is refused with the advice to bind a handler")
    func closureArgument() {
        let message =
            "'then' is a closure, which cannot outlive its process: bind a handler, for example 'then: Durable<…>'"
        expectDiagnostic(bound("then: ▸() -> Void"), message)
        expectDiagnostic(bound("then: ▸@escaping () -> Void"), message)
        expectDiagnostic(bound("then: ▸@autoclosure () -> Int"), message)
        expectDiagnostic(bound("then: ▸(@Sendable (Int) throws -> Void)? = nil"), message)
    }

    @Test("H10 types that are plainly not Codable are refused by their argument's name")
    func uncodable() {
        for (type, kind) in [
            ("(Int, Int)", "a tuple"), ("()", "a tuple"), ("Int.Type", "a metatype"),
            ("Any", "a value of any type"),
            ("any Animal", "a value of any type"), ("(any Animal)?", "a value of any type"),
        ] {
            expectDiagnostic(
                bound("pet: ▸\(type)"),
                "'pet' is \(kind), which cannot be stored: use a type that is Codable and Sendable, "
                    + "for example a struct")
        }
    }

    @Test("H10 an opaque type makes the function generic")
    func opaque() {
        for type in ["some Codable", "[some Codable]", "(some Codable)?"] {
            expectDiagnostic(
                bound("pet: ▸\(type)"),
                "'some' makes the function generic, and a stored argument needs one type: name the type of 'pet'"
            )
        }
    }

    @Test("H10 a default value called as something in the expansion must be written with Self")
    func hiddenMember() {
        for name in ["version", "arguments", "durable", "retry", "availability", "storedArguments", "a"] {
            expectDiagnostic(
                bound("a: Int, b: Int = 1 + ▸\(name)"),
                "'\(name)' means something else in what @Handler expands to: write 'Self.\(name)'")
        }
        expectExpansion(
            bound("a: Int, b: Int = Self.version + other.a"), contains: "default: Till.version + other.a")
    }

    @Test("H10 a type called as something in the expansion must be written in full")
    func hiddenName() {
        let message =
            "'Context' means something else in what @Handler expands to: write 'Till.Context', "
            + "or '<module>.Context' for a type outside of 'Till'"
        expectDiagnostic(bound("pet: ▸[Context]"), message)
        expectDiagnostic(type("(_ call: borrowing Call<▸Context>)"), message)
        expectExpansion(bound("pet: Till.Context"), contains: "__BoundArgument<Till.Context>")
    }
}
