/// Scripts with which shells complete commands, options and their values, made from the help pages.
enum Completion {
    enum Shell: String, CaseIterable {
        case bash, zsh, fish
    }

    static func script(_ shell: Shell) -> String {
        switch shell {
        case .bash: bash
        case .zsh: zsh
        case .fish: fish
        }
    }

    private static var pages: [CommandPage] { CommandPage.all.filter { $0.group != .hidden } }

    // MARK: bash

    private static var bash: String {
        let cases = pages.map { page in
            "    \(page.name)) words=\"\(words(page).joined(separator: " "))\" ;;"
        }
        return """
            # Completion of pushwake for bash.
            _pushwake() {
              local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words
              COMPREPLY=()
              if [ "$COMP_CWORD" -eq 1 ]; then
                COMPREPLY=($(compgen -W "\(pages.map(\.name).joined(separator: " "))" -- "$current"))
                return
              fi
              case "${COMP_WORDS[1]} $before" in
            \(bashValues.joined(separator: "\n"))
              esac
              case "${COMP_WORDS[1]}" in
            \(cases.joined(separator: "\n"))
              esac
              COMPREPLY=($(compgen -W "$words" -- "$current"))
            }
            complete -F _pushwake pushwake
            """
    }

    /// The completions after an option with a value; none for a value that only the user knows.
    private static var bashValues: [String] {
        pages.flatMap { page in
            page.options.filter { $0.placeholder != nil }.map { option in
                let offer =
                    switch option.value {
                    case .file, .store: "COMPREPLY=($(compgen -f -- \"$current\"))"
                    case .folder: "COMPREPLY=($(compgen -d -- \"$current\"))"
                    case .choice(let names):
                        "COMPREPLY=($(compgen -W \"\(names.joined(separator: " "))\" -- \"$current\"))"
                    case .other: ":"
                    }
                return "    \"\(page.name) \(option.name)\") \(offer); return ;;"
            }
        }
    }

    /// The options, and the words with a fixed choice of commands or shells.
    private static func words(_ page: CommandPage) -> [String] {
        page.options.map(\.name) + ["--help"] + choices(page)
    }

    private static func choices(_ page: CommandPage) -> [String] {
        switch page.name {
        case "help": pages.map(\.name)
        case "completion": Shell.allCases.map(\.rawValue)
        case "handler", "lane", "timer", "workflow", "node": page.verbs
        case "roster": ["add", "remove", "accept", "refuse"]
        default: []
        }
    }

    // MARK: zsh

    private static var zsh: String {
        let commands = pages.map { "    '\($0.name):\(quoted($0.summary))'" }
        let cases = pages.map { page in
            let arguments = page.options.map { "'\(zshOption($0))'" } + ["'--help[say all about it]'"]
            let positional =
                choices(page).isEmpty
                ? "'*:word:_files'" : "'*:word:(\(choices(page).joined(separator: " ")))'"
            return "    \(page.name)) _arguments \((arguments + [positional]).joined(separator: " ")) ;;"
        }
        return """
            #compdef pushwake
            # Completion of pushwake for zsh.
            _pushwake() {
              local -a commands
              commands=(
            \(commands.joined(separator: "\n"))
              )
              if (( CURRENT == 2 )); then
                _describe command commands
                return
              fi
              local command=${words[2]}
              shift words
              (( CURRENT-- ))
              case $command in
            \(cases.joined(separator: "\n"))
              esac
            }
            if [ "$funcstack[1]" = "_pushwake" ]; then _pushwake "$@"; else compdef _pushwake pushwake; fi
            """
    }

    private static func zshOption(_ option: CommandPage.Option) -> String {
        let text = quoted(option.text).replacing("[", with: "\\[").replacing("]", with: "\\]")
        guard let placeholder = option.placeholder else { return "\(option.name)[\(text)]" }
        let action =
            switch option.value {
            case .file, .store: "_files"
            case .folder: "_files -/"
            case .choice(let names): "(\(names.joined(separator: " ")))"
            case .other: " "
            }
        return "\(option.name)[\(text)]:\(placeholder):\(action)"
    }

    // MARK: fish

    private static var fish: String {
        var lines = ["# Completion of pushwake for fish.", "complete -c pushwake -f"]
        for page in pages {
            lines.append(
                "complete -c pushwake -n __fish_use_subcommand -a \(page.name) -d '\(quoted(page.summary))'")
        }
        for page in pages {
            let place = "complete -c pushwake -n '__fish_seen_subcommand_from \(page.name)'"
            if !choices(page).isEmpty {
                lines.append("\(place) -a '\(choices(page).joined(separator: " "))'")
            }
            lines += page.options.map { option in
                "\(place) -l \(option.name.dropFirst(2))\(fishValue(option)) -d '\(quoted(option.text))'"
            }
        }
        return lines.joined(separator: "\n")
    }

    private static func fishValue(_ option: CommandPage.Option) -> String {
        guard option.placeholder != nil else { return "" }
        return switch option.value {
        case .file, .store, .folder: " -r -F"
        case .choice(let names): " -x -a '\(names.joined(separator: " "))'"
        case .other: " -x"
        }
    }

    /// Prepares a text for a string in single quotes, which cannot contain a quote.
    private static func quoted(_ text: String) -> String { text.replacing("'", with: "’") }
}
