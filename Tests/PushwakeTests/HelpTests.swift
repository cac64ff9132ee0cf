import Foundation
import TestSupport
import TestThreads
import Testing
import XMPPTestKit

@testable import pushwake

/// What the command says about itself.
@Suite(.ownThread, .timeLimit(.minutes(3)))
struct HelpTests {
    private func run(_ words: [String]) throws -> ProgramEnding {
        try ProgramEnding(of: "pushwake", words, environment: ["COLUMNS": "80"])
    }

    @Test(
        "W6 help lists every command, and --help of each explains it and every option, in the width of the terminal"
    )
    func pages() throws {
        let overview = try run(["help"])
        #expect(overview.status == 0 && !overview.output.contains("storm-client"))
        for page in CommandPage.all where page.group != .hidden {
            #expect(overview.output.contains("\n  \(page.name) "), "\(page.name) is not listed")
            let help = try run([page.name, "--help"])
            #expect(help.status == 0 && help.output.contains("SYNOPSIS"), "\(page.name): \(help)")
            for option in page.options {
                #expect(help.output.contains("\n    \(option.name)"), "\(page.name) \(option.name)")
                #expect(option.text.hasSuffix("."), "\(page.name) \(option.name)")
            }
            let isNarrow = help.output.split(separator: "\n").allSatisfy {
                // A command to be copied stays on one line.
                $0.count <= 80 || $0.hasPrefix("        pushwake ")
            }
            #expect(isNarrow, "\(page.name): \(help.output)")
        }
        #expect(try run([]).status == 64)
        #expect(try run(["help", "nothing"]).complaint.contains("there is no command 'nothing'"))
    }

    @Test("W6 bash completes commands, their options, choices and files")
    func bash() throws {
        let script = try run(["completion", "bash"]).output
        func complete(_ words: String...) throws -> [String] {
            let quoted = words.map { "'\($0)'" }.joined(separator: " ")
            let program = """
                \(script)
                COMP_WORDS=(\(quoted)); COMP_CWORD=\(words.count - 1); _pushwake; printf '%s\\n' "${COMPREPLY[@]}"
                """
            let process = try ChildProcess("bash", ["-c", program], output: .pipe)
            return try (process.output?.readToEnd(deadline: .now + .seconds(30)) ?? "").split(separator: "\n")
                .map(String.init)
        }
        #expect(try complete("pushwake", "ins") == ["inspect"])
        #expect(try complete("pushwake", "inspect", "--re") == ["--requeue"])
        #expect(try complete("pushwake", "simulate", "--server", "") == ["embedded", "prosody", "ejabberd"])
        #expect(try complete("pushwake", "simulate", "--rounds", "") == [])
        #expect(try complete("pushwake", "inspect", "--store", "/etc/host").contains("/etc/hosts"))
        #expect(try complete("pushwake", "completion", "z") == ["zsh"])
    }

    @Test("W6 the completions of zsh and fish name every command and option; another shell is refused")
    func others() throws {
        let zsh = try run(["completion", "zsh"]).output
        let fish = try run(["completion", "fish"]).output
        for page in CommandPage.all where page.group != .hidden {
            #expect(zsh.contains("'\(page.name):") && fish.contains("-a \(page.name) "), "\(page.name)")
            for option in page.options {
                #expect(zsh.contains("'\(option.name)["), "\(page.name) \(option.name)")
                #expect(
                    fish.contains("from \(page.name)' -l \(option.name.dropFirst(2)) "),
                    "\(page.name) \(option.name)")
            }
        }
        #expect(try run(["completion", "csh"]).status == 64)
    }
}
