/// The name of a type as a lock file shows it: with its module, in Swift's short forms, and the same in every build.
struct TypeName {
    private var rest: Substring

    static func text(_ type: Any.Type) -> String { text(String(reflecting: type)) }

    /// - Parameter reflected: As the standard library writes it: `Swift.Optional<Shop.Coin>`.
    static func text(_ reflected: String) -> String {
        var name = TypeName(rest: reflected[...])
        return name.type()
    }

    private mutating func type() -> String {
        var path = ""
        while let character = rest.first, !",>".contains(character) {
            if character == "<" {
                path = Self.short(path, arguments())
            } else if character == "(" {
                skipNote()
            } else {
                path.append(rest.removeFirst())
            }
        }
        return Self.withoutCommonModule(path)
    }

    private mutating func arguments() -> [String] {
        var arguments: [String] = []
        while let mark = rest.first, mark != ">" {
            rest.removeFirst()
            if rest.first == " " { rest.removeFirst() }
            arguments.append(type())
        }
        rest = rest.dropFirst()
        return arguments
    }

    /// Removes `(unknown context at $55d0c0de).`, which names a private type's surroundings by an address that differs
    /// from run to run, and `(extension in Shop):`.
    private mutating func skipNote() {
        guard let end = rest.firstIndex(of: ")") else { return rest = "" }
        rest = rest[end...].dropFirst(2)
    }

    private static func short(_ path: String, _ arguments: [String]) -> String {
        switch (path, arguments.count) {
        case ("Swift.Optional", 1): arguments[0] + "?"
        case ("Swift.Array", 1): "[\(arguments[0])]"
        case ("Swift.Dictionary", 2): "[\(arguments[0]): \(arguments[1])]"
        default: "\(path)<\(arguments.joined(separator: ", "))>"
        }
    }

    /// `Swift` goes without saying, and which half of Foundation has a type depends on the platform.
    private static func withoutCommonModule(_ path: String) -> String {
        if path.hasPrefix("Swift.") { return String(path.dropFirst("Swift.".count)) }
        let essentials = "FoundationEssentials."
        return path.hasPrefix(essentials) ? "Foundation." + path.dropFirst(essentials.count) : path
    }
}
