/// The options of a command line: `--name value`, `--name=value` and flags, in any order.
///
/// It is small on purpose, so that a package for argument parsing can replace it.
package struct Arguments {
    private var values: [String: [String]] = [:]
    private var flags: Set<String> = []
    /// The words that are not part of an option, in order.
    package private(set) var words: [String] = []

    /// - Parameters:
    ///   - words: The words after the command's name. After a separate `--` no word is an option.
    ///   - options: The names of options with a value.
    ///   - flags: The names of options without a value.
    ///   - repeated: The names of options with a value that may stand more than once.
    ///   - wordCount: The maximum number of words that are not part of an option.
    ///   - hint: What to do about a word where none is allowed; nil for no advice.
    /// - Throws: ``UsageError`` for too many words, for an unknown or repeated name, or for a missing value.
    init(
        _ words: [String], options: Set<String>, flags allowedFlags: Set<String>,
        repeated: Set<String> = [], wordCount: Int = 0, hint: String? = nil
    ) throws(UsageError) {
        var rest = words[...]
        while let word = rest.popFirst() {
            if word == "--" {
                for word in rest { try add(word, wordCount, hint) }
                return
            }
            guard word.hasPrefix("--") else {
                try add(word, wordCount, hint)
                continue
            }
            let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let (name, written) = (String(parts[0]), parts.count == 2 ? String(parts[1]) : nil)
            if allowedFlags.contains(name) {
                guard written == nil else { throw UsageError("\(name) takes no value") }
                flags.insert(name)
            } else if options.contains(name) {
                guard values[name] == nil || repeated.contains(name) else {
                    throw UsageError("\(name) is given twice")
                }
                values[name, default: []].append(try Self.value(name, written, &rest))
            } else {
                throw Self.unknown(name, options)
            }
        }
    }

    private mutating func add(_ word: String, _ wordCount: Int, _ hint: String?) throws(UsageError) {
        guard wordCount > 0 else {
            throw UsageError("\(StoreAddress.shown(word)) is no option" + (hint.map { "; \($0)" } ?? ""))
        }
        guard words.count < wordCount else {
            throw UsageError(
                "\(StoreAddress.shown(word)) is one word too many; put what has spaces in quotes")
        }
        words.append(word)
    }

    /// - Parameters:
    ///   - written: The text after `=`; nil if there is no `=`.
    ///   - rest: The words after the option. A word that looks like an option is not its value: the value is missing.
    private static func value(
        _ name: String, _ written: String?, _ rest: inout ArraySlice<String>
    ) throws(UsageError) -> String {
        guard let value = written ?? rest.popFirst(), !value.isEmpty else {
            throw UsageError("\(name) needs a value")
        }
        guard written != nil || !value.hasPrefix("--") else {
            throw UsageError("\(name) needs a value; one that begins with -- is written \(name)=\(value)")
        }
        return value
    }

    private static func unknown(_ name: String, _ options: Set<String>) -> UsageError {
        name == "--password" && options.contains("--password-file")
            ? UsageError(
                "there is no option --password, which others could read; set PUSHWAKE_PASSWORD, or name a file with --password-file"
            ) : UsageError("there is no option \(name)")
    }

    /// Parses the options that a command's help page lists, so that each accepted option is explained.
    ///
    /// - Parameter command: A command with a help page.
    package init(_ words: [String], of command: String, wordCount: Int = 0) throws(UsageError) {
        guard let page = CommandPage.named(command) else {
            throw UsageError("there is no command '\(command)'")
        }
        // A store is often named without its option.
        let hint = page.onlyRequired == "--store" ? "name it with --store" : nil
        try self.init(
            words, options: page.valueNames, flags: page.flagNames, repeated: page.repeatedNames,
            wordCount: wordCount, hint: hint)
        for option in page.options where option.value == .file {
            guard let file = value(option.name), StoreAddress(file).isPostgres else { continue }
            throw UsageError(
                "\(option.name) of \(command) names a file, and not a database of PostgreSQL; a path that looks like a connection string is written ./path"
            )
        }
    }

    package func has(_ flag: String) -> Bool { flags.contains(flag) }

    package func value(_ name: String) -> String? { values[name]?.first }

    /// The values of an option that may stand more than once, in order.
    func values(_ name: String) -> [String] { values[name] ?? [] }

    package func required(_ name: String) throws(UsageError) -> String {
        guard let value = value(name) else { throw UsageError("\(name) is missing") }
        return value
    }

    /// A whole number in a range.
    package func number(_ name: String, in range: ClosedRange<Int>, default fallback: Int) throws(UsageError)
        -> Int
    {
        try number(name, in: range) ?? fallback
    }

    /// A whole number in a range; nil if the option is missing.
    package func number(_ name: String, in range: ClosedRange<Int>) throws(UsageError) -> Int? {
        guard let text = value(name) else { return nil }
        guard let number = Int(text), range.contains(number) else {
            throw UsageError(
                "\(name) must be a whole number from \(range.lowerBound) to \(range.upperBound), not '\(text)'"
            )
        }
        return number
    }
}

/// An invalid command line.
package struct UsageError: Error, CustomStringConvertible {
    package let description: String
    package init(_ description: String) { self.description = description }
}

/// A failure with a message for the user.
package struct CommandFailure: Error, CustomStringConvertible {
    package let description: String
    package init(_ description: String) { self.description = description }
}
