import XMPPCore

/// `pushwake completion bash|zsh|fish`: prints the script with which a shell completes commands and options.
struct CompletionCommand {
    private let shell: Completion.Shell

    init(_ words: [String]) throws {
        let arguments = try Arguments(words, of: "completion", wordCount: 1)
        guard let shell = arguments.words.first.flatMap(Completion.Shell.init) else {
            let names = Completion.Shell.allCases.map(\.rawValue).joined(separator: ", ")
            throw UsageError("name a shell: \(names)")
        }
        self.shell = shell
    }

    func run() -> Int32 {
        Terminal.say(VisibleText(lines: Completion.script(shell)))
        return 0
    }
}
