/// Help pages as text, in the order of a manual page.
enum HelpText {
    private static func status(_ page: CommandPage) -> String {
        if page.name == "check" {
            return "0 ok; 1 warning; 2 critical; 3 the store cannot be read; 64 wrong usage."
        }
        let takenOver = page.connects ? "3 another process took the stream over; " : ""
        return "0 all went well; 1 something failed, was lost or repeated; \(takenOver)64 wrong usage."
    }

    /// Returns all commands, with a line each.
    ///
    /// - Parameter width: The number of characters on a line; nil for the usual 100.
    static func overview(width: Int? = nil) -> String {
        let width = width ?? 100
        var lines = ["usage: pushwake COMMAND [OPTIONS]"]
        for group in CommandPage.Group.allCases where group != .hidden {
            let pages = CommandPage.all.filter { $0.group == group }
            let fields = pages.map { (name: $0.name, value: $0.summary) }
            lines += ["", group.rawValue] + indented(TextTable.fields(fields, width: width - 2), 2)
        }
        lines += ["", "'pushwake help COMMAND' or 'pushwake COMMAND --help' says all about one."]
        lines.append("'pushwake --version' says which version this is.")
        return lines.joined(separator: "\n")
    }

    /// Returns the page of one command.
    static func page(_ page: CommandPage, width: Int? = nil) -> String {
        let width = max(30, width ?? 100)
        var lines = section("NAME", ["pushwake \(page.name): \(page.summary)"], width)
        lines += [""] + section("SYNOPSIS", [synopsis(page)], width)
        if !page.description.isEmpty {
            lines.append("")
            lines += section("DESCRIPTION", page.description, width)
        }
        if !page.options.isEmpty { lines += ["", "OPTIONS"] + options(page, width) }
        if !page.environment.isEmpty {
            let fields = page.environment.map { (name: $0.name, value: $0.text) }
            lines += ["", "ENVIRONMENT"] + indented(TextTable.fields(fields, width: width - 4), 4)
        }
        lines += [""] + section("EXIT STATUS", [status(page)], width)
        if !page.examples.isEmpty { lines += ["", "EXAMPLES"] + examples(page, width) }
        return lines.joined(separator: "\n")
    }

    /// The required options, then the optional ones.
    private static func synopsis(_ page: CommandPage) -> String {
        let required = page.options.filter(\.isRequired).map { "\($0.name) \($0.placeholder ?? "")" }
        let isOptional = page.options.contains { !$0.isRequired }
        let words = ["pushwake", page.name] + required + [isOptional ? "[OPTIONS]" : "", page.words]
        return words.filter { !$0.isEmpty }.joined(separator: " ")
    }

    private static func options(_ page: CommandPage, _ width: Int) -> [String] {
        page.options.flatMap { option -> [String] in
            let name =
                "    " + ([option.name] + [option.placeholder].compactMap(\.self)).joined(separator: " ")
            return [name] + paragraph(option.text, 8, width)
        }
    }

    private static func examples(_ page: CommandPage, _ width: Int) -> [String] {
        page.examples.enumerated().flatMap { index, example in
            // Commands are not wrapped, so that they can be copied.
            (index == 0 ? [] : [""]) + paragraph(example.value, 4, width) + ["        \(example.key)"]
        }
    }

    private static func section(_ heading: String, _ paragraphs: [String], _ width: Int) -> [String] {
        [heading]
            + paragraphs.enumerated().flatMap { index, text in
                (index == 0 ? [] : [""]) + paragraph(text, 4, width)
            }
    }

    private static func paragraph(_ text: String, _ indent: Int, _ width: Int) -> [String] {
        indented(TextTable.fields([(name: "", value: text)], width: width - indent + 2), indent - 2)
    }

    private static func indented(_ lines: [String], _ count: Int) -> [String] {
        lines.map { String(repeating: " ", count: count) + $0 }
    }
}
