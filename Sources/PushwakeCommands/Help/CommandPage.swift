/// The description of a command: the one source of its options, its help and its completions.
package struct CommandPage: Sendable {
    /// An option as it is written, accepted and explained.
    package struct Option: Sendable {
        /// What a shell offers for its value.
        enum Value: Sendable, Equatable {
            case file, folder
            case choice([String])
            case other
        }

        package var name: String
        /// The placeholder of its value; nil for a flag.
        package var placeholder: String?
        package var text: String
        var value = Value.other
        /// Whether the command refuses to do without it.
        var isRequired = false

        /// A flag.
        init(_ name: String, _ text: String) {
            self.name = name
            self.text = text
        }

        /// An option with a value.
        init(
            _ name: String, _ placeholder: String, _ text: String, _ value: Value = .other,
            isRequired: Bool = false
        ) {
            self.name = name
            self.placeholder = placeholder
            self.text = text
            self.value = value
            self.isRequired = isRequired
        }
    }

    package enum Group: String, CaseIterable, Sendable {
        case client = "a client to try it with"
        case proof = "the proof"
        case store = "a store"
        case shell = "the command itself"
        /// Run by other commands.
        case hidden
    }

    package var name: String
    package var group: Group
    /// The words that belong to no option, as in `TO TEXT`.
    var words = ""
    var summary: String
    /// Paragraphs.
    var description: [String] = []
    package var options: [Option]
    /// Variables of the environment and what they are for.
    var environment: [(name: String, text: String)] = []
    /// Commands and what they do.
    var examples: [(command: String, text: String)] = []

    /// The names of options that take a value.
    var valueNames: Set<String> { Set(options.filter { $0.placeholder != nil }.map(\.name)) }
    var flagNames: Set<String> { Set(options.filter { $0.placeholder == nil }.map(\.name)) }

    /// Returns the page of a command; nil when there is no such command.
    package static func named(_ name: String) -> CommandPage? { all.first { $0.name == name } }

    package static let all: [CommandPage] = client + proof + store + shell
}
