extension HandlerMessage {
    static let notAFunction: HandlerMessage =
        "@Handler goes on a function: write '@Handler(\"…\") static func name(_ call: borrowing Call<…>) throws'"

    static func operatorFunction(_ name: String) -> Self {
        "the operator '\(name)' cannot be bound by its name: move its body into a function with a name"
    }

    static func outsideOfType(_ name: String) -> Self {
        .init(
            "@Handler needs a type around '\(name)': move the function into one, for example "
                + "'enum Handlers { … }', and bind it as 'Handlers.\(name)(…)'")
    }

    static func inProtocol(_ name: String) -> Self {
        "'\(name)' has no body in a protocol: put @Handler on the function of a type that conforms to it"
    }

    static func genericOwner(_ name: String) -> Self {
        .init(
            "'\(name)' is generic, and a stored id cannot say for which types: "
                + "move the handler into a type without generic parameters")
    }

    static func hiddenOwner(_ name: String) -> Self {
        .init(
            "the name '\(name)' means something else in what @Handler expands to: move the handler into a type "
                + "with another name")
    }

    static func genericFunction(_ name: String) -> Self {
        .init(
            "'\(name)' is generic, and a stored id cannot say for which types: "
                + "write a handler with an id of its own for each type")
    }

    static func asyncInStep(_ context: String) -> Self {
        .init(
            "a handler with a 'Call' runs inside a transaction and cannot suspend: write 'AsyncCall<\(context)>' to run it "
                + "outside, at least once, or remove 'async'")
    }

    static func syncLeased(_ context: String) -> Self {
        .init(
            "a handler with an 'AsyncCall' runs outside the transaction and may wait: make the function 'async', or "
                + "write 'borrowing Call<\(context)>' to run it inside, exactly once")
    }

    static let syncFlow = HandlerMessage("a workflow waits for its flow: make the function 'async'")

    static let workflowWithoutFlow = HandlerMessage(
        "the first parameter of a workflow is its flow: write '_ flow: Flow' before the bound arguments, or use @Handler"
    )

    static let flowInHandler = HandlerMessage(
        "a function with a 'Flow' is a workflow: write '@Workflow(…)' instead of '@Handler(…)'")

    static func instanceWorkflow(_ name: String) -> Self {
        .init(
            "a workflow goes on in other processes, which do not have its instance: make '\(name)' static, and bind what it needs"
        )
    }

    static let mutating = HandlerMessage(
        "a handler finds its instance through the call and cannot change a copy of it: remove 'mutating', "
            + "and keep the state in a class or in the store")

    static func actorIsolated(_ actor: String) -> Self {
        .init(
            "a handler runs inside the step, not on \(actor): make the function 'nonisolated', "
                + "or 'async' with an 'AsyncCall<…>'")
    }

    static func instanceWithoutPath(_ name: String) -> Self {
        .init(
            "an instance is not stored with the handler: say how '\(name)' finds it from the call, for example "
                + "'on: \"account.omemo\"', or make the function 'static'")
    }
}
