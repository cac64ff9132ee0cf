/// The options of a command line: `--name value`, `--name=value` and flags, in any order.
///
/// Small on purpose and shaped so that a package for argument parsing can take its place.
struct Arguments {
    private var values: [String: String] = [:]
    private var flags: Set<String> = []
    /// The words that belong to no option, in order.
    private(set) var words: [String] = []

    /// - Parameters:
    ///   - words: The words after the command's name.
    ///   - options: Names that take a value.
    ///   - flags: Names that take none.
    ///   - wordCount: How many words may stand by themselves.
    /// - Throws: ``UsageError`` for more words than that, a name that is not listed or a missing value.
    init(
        _ words: [String], options: Set<String>, flags allowedFlags: Set<String>, wordCount: Int = 0
    ) throws(UsageError) {
        var rest = words[...]
        while let word = rest.popFirst() {
            guard word.hasPrefix("--") else {
                guard self.words.count < wordCount else { throw UsageError("'\(word)' is no option") }
                self.words.append(word)
                continue
            }
            let parts = word.split(separator: "=", maxSplits: 1).map(String.init)
            let name = parts[0]
            if allowedFlags.contains(name), parts.count == 1 {
                flags.insert(name)
            } else if options.contains(name) {
                guard let value = parts.count == 2 ? parts[1] : rest.popFirst() else {
                    throw UsageError("\(name) needs a value")
                }
                values[name] = value
            } else {
                throw UsageError("there is no option \(name)")
            }
        }
    }

    /// The options of a command as its page of help lists them, so that none is accepted and not explained.
    ///
    /// - Parameter command: A command that has a page.
    init(_ words: [String], of command: String, wordCount: Int = 0) throws(UsageError) {
        guard let page = CommandPage.named(command) else {
            throw UsageError("there is no command '\(command)'")
        }
        try self.init(words, options: page.valueNames, flags: page.flagNames, wordCount: wordCount)
    }

    func has(_ flag: String) -> Bool { flags.contains(flag) }

    func value(_ name: String) -> String? { values[name] }

    func required(_ name: String) throws(UsageError) -> String {
        guard let value = values[name] else { throw UsageError("\(name) is missing") }
        return value
    }

    /// A whole number in a range.
    func number(_ name: String, in range: ClosedRange<Int>, default fallback: Int) throws(UsageError) -> Int {
        guard let text = values[name] else { return fallback }
        guard let number = Int(text), range.contains(number) else {
            throw UsageError(
                "\(name) must be a whole number from \(range.lowerBound) to \(range.upperBound), not '\(text)'"
            )
        }
        return number
    }
}

/// A command line that cannot be understood.
struct UsageError: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// A failure with a sentence for the person at the terminal.
struct CommandFailure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
