/// The description of a command, from which its options, its help and its completions are made.
package struct CommandPage: Sendable {
    /// An option with its name, its value and its explanation.
    package struct Option: Sendable {
        /// The values that a shell offers.
        enum Value: Sendable, Equatable {
            case file, folder
            /// A file, or a connection string of libpq.
            case store
            case choice([String])
            case other
        }

        package var name: String
        /// The placeholder of its value; nil for a flag.
        package var placeholder: String?
        package var text: String
        var value = Value.other
        /// Whether the command fails without it.
        var isRequired = false
        /// Whether it may stand more than once.
        var isRepeated = false

        /// Makes a flag.
        init(_ name: String, _ text: String) {
            self.name = name
            self.text = text
        }

        /// Makes an option with a value.
        init(
            _ name: String, _ placeholder: String, _ text: String, _ value: Value = .other,
            isRequired: Bool = false, isRepeated: Bool = false
        ) {
            self.name = name
            self.placeholder = placeholder
            self.text = text
            self.value = value
            self.isRequired = isRequired
            self.isRepeated = isRepeated
        }
    }

    package enum Group: String, CaseIterable, Sendable {
        case client = "a client to try it with"
        case proof = "the proof"
        case store = "a store"
        case operate = "the handlers in a store"
        case shell = "the command itself"
        /// Commands that other commands run.
        case hidden
    }

    package var name: String
    package var group: Group
    /// The words that are not part of an option, such as `TO TEXT`.
    var words = ""
    var summary: String
    /// The paragraphs of the description.
    var description: [String] = []
    package var options: [Option]
    /// The environment variables, with their purposes.
    var environment: [(name: String, text: String)] = []
    /// Example commands, with their effects.
    var examples: KeyValuePairs<String, String> = [:]

    /// The names of options that take a value.
    var valueNames: Set<String> { Set(options.filter { $0.placeholder != nil }.map(\.name)) }
    var repeatedNames: Set<String> { Set(options.filter(\.isRepeated).map(\.name)) }
    var flagNames: Set<String> { Set(options.filter { $0.placeholder == nil }.map(\.name)) }

    /// Whether it connects an account, whose stream another process may take over.
    var connects: Bool { valueNames.contains("--password-file") }
    /// The required option, if there is one and no other.
    var onlyRequired: String? {
        let required = options.filter(\.isRequired)
        return required.count == 1 ? required.first?.name : nil
    }

    /// The words of which one comes first, such as `list` and `show`.
    var verbs: [String] {
        words.split(separator: " ").first.map { $0.split(separator: "|").map(String.init) } ?? []
    }

    /// Returns the page of a command; nil if there is no such command.
    package static func named(_ name: String) -> CommandPage? { all.first { $0.name == name } }

    package static let all: [CommandPage] = client + proof + store + operate + shell
}
