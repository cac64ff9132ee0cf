import Foundation
import PushwakeCommands
import TestSupport
import TestThreads
import Testing
import XMPPCore
import TestServers

/// What the command says about itself.
@Suite(.ownThread, .timeLimit(.minutes(3)))
struct HelpTests {
    private func run(_ words: [String]) throws -> ProgramEnding {
        try ProgramEnding(of: "pushwake", words, environment: ["COLUMNS": "80"])
    }

    @Test("W6 a reader that has closed the pipe is no failure, and a full disk is one")
    func closedPipe() throws {
        let program = try BuiltProduct.path("pushwake")
        // The reader of the pipe has ended before anything is written.
        for (script, status) in [
            ("exec 3> >(exit 0); wait $!; '\(program)' help >&3", 0), ("'\(program)' help >/dev/full", 1),
        ] {
            let process = try ChildProcess("bash", ["-c", "\(script); echo $?"], output: .pipe)
            let said = try process.output?.readToEnd(deadline: .now + .seconds(30)) ?? ""
            #expect(said == "\(status)\n", "\(script)")
        }
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

    @Test(
        "W6 the ranges that help names are those that a command takes",
        arguments: ["simulate", "backlog", "storm", "inspect", "report"])
    func ranges(name: String) throws {
        let page = try #require(CommandPage.named(name))
        for option in page.options where option.placeholder != nil {
            guard let range = option.text.firstMatch(of: /(\d+) to (\d+)/), let end = Int(range.2) else {
                #expect(option.name == "--seed" || !option.text.contains(" or more"), "\(option.name)")
                continue
            }
            let words = [name] + (["inspect", "report"].contains(name) ? ["--store", "none"] : [])
            let ending = try run(words + [option.name, "\(end + 1)"])
            #expect(ending.status == 64, "\(ending)")
            #expect(ending.complaint.contains("from \(range.1) to \(end), not"), "\(ending)")
        }
    }

    @Test("W6 only a command that connects names the status of a stream that another process took over")
    func takenOver() throws {
        func names(_ name: String) throws -> Bool {
            let words = try run([name, "--help"]).output.split(whereSeparator: \.isWhitespace)
            return words.joined(separator: " ").contains("; 3 another process took the stream over;")
        }
        for name in ["listen", "main", "worker"] {
            #expect(try names(name), "\(name)")
        }
        for name in ["inspect", "simulate", "help"] {
            #expect(try names(name) == false, "\(name)")
        }
    }

    @Test("W6 the version is that of the changelog")
    func version() throws {
        let file = URL(filePath: #filePath).appending(path: "../../../CHANGELOG.md").standardized
        let text = try String(contentsOf: file, encoding: .utf8)
        let released = text.matches(of: /## \[(.*)\]/).map { String($0.1) }.first { $0 != "Unreleased" }
        let said = try run(["--version"])
        #expect(said.status == 0 && said.output == "pushwake \(released ?? "0 (unreleased)")\n", "\(said)")
        #expect(try run(["help"]).output.contains("--version"))
    }

    @Test("W6 one thing is said in the singular")
    func singular() {
        #expect(Terminal.count(1, "round") == "1 round" && Terminal.count(0, "kill") == "0 kills")
    }

    @Test("W6 login says in words what the server has and what it has not")
    func offers() {
        let features: Set<ForeignText> = [
            "urn:xmpp:carbons:2", "urn:xmpp:mam:2", "urn:xmpp:blocking", "other",
        ]
        #expect(
            LoginCommand.sentence("Prosody", features, canResume: true)
                == "Prosody offers resumption, archive, carbons, blocking; not push")
        #expect(
            LoginCommand.sentence("Prosody", [], canResume: false)
                == "Prosody offers nothing; not resumption, archive, carbons, push, blocking")
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
        #expect(try complete("pushwake", "handler", "--be") == ["--because"])
        #expect(try complete("pushwake", "lane", "pa") == ["pause"])
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
