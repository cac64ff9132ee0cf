extension HandlerMessage {
    static let noID: HandlerMessage =
        "a handler needs an id that never changes, because it is stored: write '@Handler(\"module.event\")'"

    static let idNotLiteral = HandlerMessage(
        "the id is stored and must never change by accident: write it out as one plain string, "
            + "without interpolation")

    static let emptyID: HandlerMessage =
        "an empty id names nothing: write one like \"module.event\""

    static func version(_ number: Int) -> Self {
        "versions count from 1: write 'version: 1' or more instead of \(number)"
    }

    static let aliasesNotLiteral = HandlerMessage(
        "an alias is an id that is stored: write the aliases out as plain strings, "
            + "for example 'aliases: [\"old.id\"]'")

    static let emptyAlias: HandlerMessage =
        "an empty alias names nothing: remove it, or write the old id"

    static func aliasIsID(_ alias: String) -> Self {
        "the alias \"\(alias)\" is the id itself: remove it, or write the old id"
    }

    static func repeatedAlias(_ alias: String) -> Self {
        "the alias \"\(alias)\" stands here twice: remove one"
    }

    static func unknownArgument(_ label: String?) -> Self {
        .init(
            "@Handler takes no argument \(label.map { "'\($0):'" } ?? "without a label") here: write 'version:', "
                + "'aliases:', 'on:', 'upcast:', 'retry:', 'limit:', 'silence:' or 'availability:'")
    }

    static let uncalledUpcast = HandlerMessage(
        "'upcast:' turns arguments of older versions into those of this one, and version 1 has none: raise 'version:', "
            + "or remove 'upcast:'")

    static func limitInStep(_ label: String) -> Self {
        .init(
            "a function that runs inside the step cannot be canceled: remove '\(label):', or make the function async"
        )
    }

    static let pathOnStatic: HandlerMessage =
        "a static function has no instance to find: remove 'on:', or remove 'static' to run it on an instance"

    static let pathNotLiteral: HandlerMessage =
        "'on:' is pasted into the expansion: write the path as one plain string, for example 'on: \"account.omemo\"'"

    static func path(_ path: String) -> Self {
        .init(
            "'\(path)' is no path from the call's context to an instance: write members joined by dots, "
                + "for example 'on: \"account.omemo\"'")
    }

    static let pathUnwraps = HandlerMessage(
        "'!' would crash where the instance is missing: write '?' instead, "
            + "and the missing instance is an error that names this path")
}
