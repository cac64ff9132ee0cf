extension HandlerMessage {
    static func noCall(isAsync: Bool) -> Self {
        .init(
            "the first parameter is what the call supplies: write '_ call: \(isAsync ? "AsyncCall" : "borrowing Call")<…>' "
                + "before the bound arguments")
    }

    static func callWithoutContext(_ form: HandlerParameters.Form) -> Self {
        let call = form == .inStep ? "borrowing Call" : "AsyncCall"
        return .init(
            "'\(form.rawValue)' needs the type of what the call supplies: write '\(call)<…>', for example "
                + "'\(call)<IQReply>'")
    }

    static func notBorrowing(_ type: String) -> Self {
        "the call is only lent to the handler: write 'borrowing \(type)'"
    }

    static func specifiedAsyncCall(_ type: String) -> Self {
        "the call is a value that the handler may keep: write '\(type)'"
    }

    /// A name that the type in the expansion uses for itself.
    static func hiddenName(_ name: String, _ owner: String) -> Self {
        .init(
            "'\(name)' means something else in what @Handler expands to: write '\(owner).\(name)', "
                + "or '<module>.\(name)' for a type outside of '\(owner)'")
    }

    /// A member that the type in the expansion has too.
    static func hiddenMember(_ name: String) -> Self {
        "'\(name)' means something else in what @Handler expands to: write 'Self.\(name)'"
    }

    static func unlabeled(_ name: String) -> Self {
        .init(
            "a bound argument is stored under its label: write '\(name): …' or 'label \(name): …' instead of "
                + "'_ \(name): …'")
    }

    static func repeatedLabel(_ label: String) -> Self {
        "two arguments are stored under the label '\(label)': give one of them another label"
    }

    static func inoutArgument(_ label: String) -> Self {
        "'\(label)' is read from the store when the handler runs, so nobody would see its change: remove 'inout'"
    }

    static func variadicArgument(_ label: String, _ type: String) -> Self {
        "variadic arguments cannot be passed on: write '\(label): [\(type)]' instead of '\(label): \(type)...'"
    }

    static func isolatedArgument(_ label: String) -> Self {
        "'\(label)' is stored, and an actor cannot be: bind what finds the actor again"
    }

    static func opaqueArgument(_ label: String) -> Self {
        "'some' makes the function generic, and a stored argument needs one type: name the type of '\(label)'"
    }

    static func implicitlyUnwrapped(_ label: String, _ type: String) -> Self {
        "'\(label)' may be missing from the store: write '\(type)?' instead of '\(type)!'"
    }

    static func closureArgument(_ label: String) -> Self {
        .init(
            "'\(label)' is a closure, which cannot outlive its process: bind a handler, for example "
                + "'\(label): Durable<…>'")
    }

    static func uncodableArgument(_ label: String, _ kind: String) -> Self {
        .init(
            "'\(label)' is \(kind), which cannot be stored: use a type that is Codable and Sendable, "
                + "for example a struct")
    }
}
