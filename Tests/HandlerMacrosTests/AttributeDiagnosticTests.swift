import TestThreads
import Testing

/// `▸` marks where the message must stand.
@Suite("What @Handler says about its own arguments", .ownThread)
struct AttributeDiagnosticTests {
    private func type(_ attribute: String) -> String {
        "enum Till { \(attribute) static func paid(_ call: borrowing Call<Reply>) {} }"
    }

    @Test("H10 a handler without an id is refused with the advice to write one")
    func noID() {
        let message =
            "a handler needs an id that never changes, because it is stored: write '@Handler(\"module.event\")'"
        expectDiagnostic(type("▸@Handler"), message)
        expectDiagnostic(type("▸@Handler()"), message)
        expectDiagnostic(type("▸@Handler(version: 2)"), message)
    }

    @Test("H10 an id must be written out")
    func idNotLiteral() {
        let message =
            "the id is stored and must never change by accident: write it out as one plain string, "
            + "without interpolation"
        expectDiagnostic(type("@Handler(▸names.paid)"), message)
        expectDiagnostic(type("@Handler(▸\"till.\\(name)\")"), message)
        expectDiagnostic(type("@Handler(▸\"till.\" + \"paid\")"), message)
        expectDiagnostic(type("@Handler(▸\"\"\"\ntill.paid\n\"\"\")"), message)
    }

    @Test("H10 an id may not be empty")
    func emptyID() {
        expectDiagnostic(
            type("@Handler(▸\"\")"), "an empty id names nothing: write one like \"module.event\"")
    }

    @Test("H10 versions count from one")
    func version() {
        expectDiagnostic(
            type("@Handler(\"till.paid\", version: ▸0)"),
            "versions count from 1: write 'version: 1' or more instead of 0",
            fixed: type("@Handler(\"till.paid\", version: 1)"))
        expectDiagnostic(
            type("@Handler(\"till.paid\", version: ▸-2, aliases: [])"),
            "versions count from 1: write 'version: 1' or more instead of -2",
            fixed: type("@Handler(\"till.paid\", version: 1, aliases: [])"))
    }

    @Test("H10 aliases must be written out, differ from the id and from each other, and not be empty")
    func aliases() {
        let literal =
            "an alias is an id that is stored: write the aliases out as plain strings, "
            + "for example 'aliases: [\"old.id\"]'"
        expectDiagnostic(type("@Handler(\"till.paid\", aliases: ▸oldNames)"), literal)
        expectDiagnostic(type("@Handler(\"till.paid\", aliases: [\"a\", ▸\"\\(b)\"])"), literal)
        expectDiagnostic(
            type("@Handler(\"till.paid\", aliases: [\"a\", ▸\"till.paid\"])"),
            "the alias \"till.paid\" is the id itself: remove it, or write the old id")
        expectDiagnostic(
            type("@Handler(\"till.paid\", aliases: [\"a\", ▸\"a\"])"),
            "the alias \"a\" stands here twice: remove one")
        expectDiagnostic(
            type("@Handler(\"till.paid\", aliases: [▸\"\"])"),
            "an empty alias names nothing: remove it, or write the old id")
    }

    @Test("H10 an upcast called as the one in the expansion must be written with Self")
    func hiddenUpcast() {
        expectDiagnostic(
            type("@Handler(\"till.paid\", version: 2, upcast: ▸upcast)"),
            "'upcast' means something else in what @Handler expands to: write 'Self.upcast'")
        expectExpansion(
            type("@Handler(\"till.paid\", version: 2, upcast: Self.upcast)"),
            contains: "-> Swift::Void = Till.upcast")
    }

    @Test("H10 an upcast that is never called is refused: version 1 has no older ones")
    func uncalledUpcast() {
        let message =
            "'upcast:' turns arguments of older versions into those of this one, and version 1 has none: "
            + "raise 'version:', or remove 'upcast:'"
        expectDiagnostic(
            type("@Handler(\"till.paid\", ▸upcast: Self.old)"), message,
            fixed: type("@Handler(\"till.paid\")"))
        expectDiagnostic(
            type("@Handler(\"till.paid\", version: 1, ▸upcast: { _, _ in }, retry: .never)"), message,
            fixed: type("@Handler(\"till.paid\", version: 1, retry: .never)"))
        expectExpansion(
            type("@Handler(\"till.paid\", version: Self.latest, upcast: Self.old)"), contains: "= Till.old")
    }

    @Test("H23 a limit is for async functions")
    func limitInStep() {
        expectDiagnostic(
            type("@Handler(\"till.paid\", ▸limit: .seconds(1))"),
            "a function that runs inside the step cannot be canceled: remove 'limit:', or make the function async"
        )
    }

    @Test("H10 a policy called as something in the expansion must be written with Self")
    func hiddenPolicy() {
        expectDiagnostic(
            type("@Handler(\"till.paid\", retry: ▸retry)"),
            "'retry' means something else in what @Handler expands to: write 'Self.retry'")
        expectDiagnostic(
            type(
                "@Handler(\"till.paid\", retry: .never, availability: isLight ? .everywhere : ▸availability)"),
            "'availability' means something else in what @Handler expands to: write 'Self.availability'")
    }

    @Test("H10 an argument that @Handler does not have is named, with those that it has")
    func unknownArgument() {
        let known =
            " here: write 'version:', 'aliases:', 'on:', 'upcast:', 'retry:', 'limit:', 'silence:' or 'availability:'"
        expectDiagnostic(
            type("@Handler(\"till.paid\", ▸retries: 3)"), "@Handler takes no argument 'retries:'" + known)
        expectDiagnostic(
            type("@Handler(\"till.paid\", ▸\"till.old\")"),
            "@Handler takes no argument without a label" + known)
    }

    @Test("H10 a static function has no use for a path")
    func pathOnStatic() {
        expectDiagnostic(
            type("@Handler(\"till.paid\", ▸on: \"till\", version: 1)"),
            "a static function has no instance to find: remove 'on:', or remove 'static' to run it on an instance",
            fixed: type("@Handler(\"till.paid\", version: 1)"))
        expectDiagnostic(
            type("@Handler(\"till.paid\", ▸on: \"till\")"),
            "a static function has no instance to find: remove 'on:', or remove 'static' to run it on an instance",
            fixed: type("@Handler(\"till.paid\")"))
    }

    private func instance(_ path: String) -> String {
        "class Till { @Handler(\"till.paid\", on: \(path)) func paid(_ call: borrowing Call<Reply>) {} }"
    }

    @Test("H10 a path is one plain string")
    func pathNotLiteral() {
        let message =
            "'on:' is pasted into the expansion: write the path as one plain string, for example 'on: \"account.omemo\"'"
        expectDiagnostic(instance("▸\\.shop.till"), message)
        expectDiagnostic(instance("▸\"shop.\\(till)\""), message)
    }

    @Test("H10 a path leads from member to member")
    func noPath() {
        for path in [
            "", ".till", "till.", "till + 1", "till ?? other", "till; exit(0)", "till?", "shop till",
        ] {
            expectDiagnostic(
                instance("▸\"\(path)\""),
                "'\(path)' is no path from the call's context to an instance: write members joined by dots, "
                    + "for example 'on: \"account.omemo\"'")
        }
    }

    @Test("H10 a path may not unwrap by force")
    func pathUnwraps() {
        expectDiagnostic(
            instance("▸\"shop!.till\""),
            "'!' would crash where the instance is missing: write '?' instead, "
                + "and the missing instance is an error that names this path")
    }
}
