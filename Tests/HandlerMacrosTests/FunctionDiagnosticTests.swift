import TestThreads
import Testing

/// `▸` marks where the message must stand.
@Suite("What @Handler says about a function that cannot be a handler", .ownThread)
struct FunctionDiagnosticTests {
    @Test("H10 only a function can be a handler")
    func notAFunction() {
        expectDiagnostic(
            "enum Till { ▸@Handler(\"till.paid\") struct Paid {} }",
            "@Handler goes on a function: write '@Handler(\"…\") static func name(_ call: borrowing Call<…>) throws'"
        )
    }

    @Test("H10 an operator has no name to bind it by")
    func operators() {
        expectDiagnostic(
            "enum Till { @Handler(\"till.paid\") static func ▸+ (_ call: borrowing Call<Reply>) {} }",
            "the operator '+' cannot be bound by its name: move its body into a function with a name")
    }

    @Test("H10 a handler at file scope is refused with the advice to move into a type")
    func fileScope() {
        expectDiagnostic(
            """
            @Handler("till.paid")
            func ▸paid(_ call: borrowing Call<Reply>) {}
            """,
            "@Handler needs a type around 'paid': move the function into one, for example "
                + "'enum Handlers { … }', and bind it as 'Handlers.paid(…)'")
    }

    @Test("H10 a handler inside another function is refused with the advice to move into a type")
    func localFunction() {
        expectDiagnostic(
            """
            enum Till {
                func open() {
                    @Handler("till.paid") func ▸paid(_ call: borrowing Call<Reply>) {}
                }
            }
            """,
            "@Handler needs a type around 'paid': move the function into one, for example "
                + "'enum Handlers { … }', and bind it as 'Handlers.paid(…)'")
    }

    @Test("H10 a requirement of a protocol has nothing to run")
    func protocolRequirement() {
        expectDiagnostic(
            "protocol Till { @Handler(\"till.paid\") static func ▸paid(_ call: borrowing Call<Reply>) }",
            "'paid' has no body in a protocol: put @Handler on the function of a type that conforms to it")
    }

    @Test("H10 a generic type cannot hold a handler, nor can a type inside one or an extension of one")
    func genericOwner() {
        let function = "@Handler(\"till.paid\") static func ▸paid(_ call: borrowing Call<Reply>) {}"
        let message =
            " is generic, and a stored id cannot say for which types: "
            + "move the handler into a type without generic parameters"
        expectDiagnostic("struct Till<Coin> { \(function) }", "'Till'" + message)
        expectDiagnostic("struct Till<Coin> { enum Inner { \(function) } }", "'Till'" + message)
        expectDiagnostic("func open<T>(_: T) { enum Inner { \(function) } }", "'Inner'" + message)
        expectDiagnostic("extension Till<Int> { \(function) }", "'Till<Int>'" + message)
        expectDiagnostic("extension Till where Coin == Int { \(function) }", "'Till'" + message)
    }

    @Test("H10 a type called as something in the expansion cannot hold a handler")
    func hiddenOwner() {
        expectDiagnostic(
            "enum Context { @Handler(\"till.paid\") static func ▸paid(_ call: borrowing Call<Reply>) {} }",
            "the name 'Context' means something else in what @Handler expands to: move the handler into a type "
                + "with another name")
    }

    @Test("H10 a generic function is refused with the advice to become one handler for each type")
    func genericFunction() {
        expectDiagnostic(
            "enum Till { @Handler(\"till.paid\") static func paid▸<T>(_ call: borrowing Call<Reply>, a: T) {} }",
            "'paid' is generic, and a stored id cannot say for which types: "
                + "write a handler with an id of its own for each type")
    }

    private func paid(_ signature: String) -> String {
        "enum Till { @Handler(\"till.paid\") static func paid\(signature) {} }"
    }

    @Test("H10 an async function with a call inside the transaction is refused: it takes the one outside")
    func asyncInStep() {
        for (written, fixed) in [
            ("borrowing Call<Reply>", "AsyncCall<Reply>"), ("Call<Reply>", "AsyncCall<Reply>"),
            ("borrowing Handlers.Call<Reply>", "Handlers.AsyncCall<Reply>"),
        ] {
            expectDiagnostic(
                paid("(_ call: ▸\(written)) async throws"),
                "a handler with a 'Call' runs inside a transaction and cannot suspend: write 'AsyncCall<Reply>' to run it "
                    + "outside, at least once, or remove 'async'",
                fixed: paid("(_ call: \(fixed)) async throws"))
        }
        let fixIts = Expansion(paid("(_ call: borrowing Call<Reply>) async throws")).fixIts
        #expect(fixIts == ["Write 'AsyncCall<Reply>'", "Remove 'async'"])
    }

    @Test("H10 a function that takes the call outside the transaction is refused unless it is async")
    func syncLeased() {
        let message =
            "a handler with an 'AsyncCall' runs outside the transaction and may wait: make the function 'async', or "
            + "write 'borrowing Call<Reply>' to run it inside, exactly once"
        expectDiagnostic(
            paid("(_ call: ▸AsyncCall<Reply>) throws"), message,
            fixed: paid("(_ call: AsyncCall<Reply>) async throws"))
        expectDiagnostic(
            paid("(_ call: ▸AsyncCall<Reply>, a: Int) throws(TillError)"), message,
            fixed: paid("(_ call: AsyncCall<Reply>, a: Int) async throws(TillError)"))
        expectDiagnostic(
            paid("(_ call: ▸AsyncCall<Reply>)"), message, fixed: paid("(_ call: AsyncCall<Reply>) async"))
        let fixIts = Expansion(paid("(_ call: Handlers.AsyncCall<Reply>)")).fixIts
        #expect(fixIts == ["Add 'async'", "Write 'borrowing Handlers.Call<Reply>'"])
    }

    @Test("H31 a workflow has a flow, is async and static, and is not called @Handler")
    func workflows() {
        expectDiagnostic(
            "enum Shop { @Workflow(\"shop.order\") static func order(_ flow: ▸Flow) throws {} }",
            "a workflow waits for its flow: make the function 'async'",
            fixed: "enum Shop { @Workflow(\"shop.order\") static func order(_ flow: Flow) async throws {} }")
        expectDiagnostic(
            "enum Shop { @Workflow(\"shop.order\") static func order(_ call: ▸AsyncCall<Reply>) async {} }",
            "the first parameter of a workflow is its flow: write '_ flow: Flow' before the bound arguments, or use @Handler"
        )
        expectDiagnostic(
            "enum Shop { @▸Handler(\"shop.order\") static func order(_ flow: Flow) async {} }",
            "a function with a 'Flow' is a workflow: write '@Workflow(…)' instead of '@Handler(…)'",
            fixed: "enum Shop { @Workflow(\"shop.order\") static func order(_ flow: Flow) async {} }")
        expectDiagnostic(
            "class Shop { @Workflow(\"shop.order\") func ▸order(_ flow: Flow) async {} }",
            "a workflow goes on in other processes, which do not have its instance: make 'order' static, and bind what it needs"
        )
    }

    @Test("H10 a mutating function would change a copy")
    func mutatingFunction() {
        expectDiagnostic(
            """
            struct Till {
                @Handler("till.paid", on: "till")
                public ▸mutating func paid(_ call: borrowing Call<Reply>) {}
            }
            """,
            "a handler finds its instance through the call and cannot change a copy of it: remove 'mutating', "
                + "and keep the state in a class or in the store",
            fixed: """
                struct Till {
                    @Handler("till.paid", on: "till")
                    public func paid(_ call: borrowing Call<Reply>) {}
                }
                """)
    }

    @Test("H10 a function that belongs to an actor is refused with the advice to leave it")
    func actorIsolation() {
        let message =
            "a handler runs inside the step, not on the actor 'Till': make the function 'nonisolated', "
            + "or 'async' with an 'AsyncCall<…>'"
        let mainMessage =
            "a handler runs inside the step, not on the main actor: make the function 'nonisolated', "
            + "or 'async' with an 'AsyncCall<…>'"
        expectDiagnostic(
            """
            actor Till {
                @Handler("till.paid", on: "till")
                func ▸paid(_ call: borrowing Call<Reply>) {}
            }
            """, message,
            fixed: """
                actor Till {
                    @Handler("till.paid", on: "till")
                    nonisolated func paid(_ call: borrowing Call<Reply>) {}
                }
                """)
        expectDiagnostic(
            "@MainActor class Till { @Handler(\"till.paid\") public static func ▸paid(_ call: borrowing Call<Reply>) {} }",
            mainMessage,
            fixed: "@MainActor class Till { @Handler(\"till.paid\") public static nonisolated func paid("
                + "_ call: borrowing Call<Reply>) {} }")
        expectDiagnostic(
            "enum Till { @Handler(\"till.paid\") @MainActor static func ▸paid(_ call: borrowing Call<Reply>) {} }",
            mainMessage)
    }

    @Test("H10 an instance function without on: is refused with the way to find its instance")
    func instanceWithoutPath() {
        expectDiagnostic(
            "class Till { @Handler(\"till.paid\", version: 2) func ▸paid(_ call: borrowing Call<Reply>) {} }",
            "an instance is not stored with the handler: say how 'paid' finds it from the call, for example "
                + "'on: \"account.omemo\"', or make the function 'static'",
            fixed: "class Till { @Handler(\"till.paid\", version: 2, on: \"<#path#>\") func paid("
                + "_ call: borrowing Call<Reply>) {} }")
    }

    @Test("H10 several mistakes are all reported at once")
    func several() {
        let expansion = Expansion(
            """
            class Till {
                @Handler("", version: 0)
                mutating func paid(_ call: Call<Reply>, _ a: Int, b: Int!, b: Any) async -> Int {}
            }
            """)
        #expect(
            expansion.fixed == """
                class Till {
                    @Handler("", version: 1, on: "<#path#>")
                    func paid(_ call: AsyncCall<Reply>, a: Int, b: Int?, b: Any) async -> Int {}
                }
                """)
        #expect(
            expansion.findings.map { "\($0.line):\($0.column)" }.sorted()
                == ["2:14", "2:27", "3:19", "3:32", "3:45", "3:5", "3:58", "3:64", "3:67"])
    }
}
