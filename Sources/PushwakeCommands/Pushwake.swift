// pushwake: shows and proves that handlers outlive the processes that bound them.
//
//     simulate ──spawns──▶ main ◀──stream──▶ server ◀──stream──▶ peer (keeps its own log)
//         │                 ▲ one store, one session
//         └──"push"─────▶ worker
//     SIGKILL to either at any moment; at the end the store is compared with the peer's log.

import Glibc
import XMPPAccount
import XMPPCore

package enum Pushwake {
    /// The version in the changelog.
    package static let version = "0 (unreleased)"

    /// Runs the command of this process, and exits if it fails.
    ///
    /// - Parameter run: Runs the command that the first word names and returns the exit status; nil for the commands of pushwake.
    package static func main(_ run: (([String]) async throws -> Int32)? = nil) async {
        // A broken pipe is an error of a write, not the end of the process.
        signal(SIGPIPE, SIG_IGN)
        let words = Array(CommandLine.arguments.dropFirst())
        do {
            let status: Int32 =
                if asksForHelp(words) { try help(words.first) } else { try await (run ?? Self.run)(words) }
            guard status == 0, Terminal.hasLostOutput else { exit(status) }
            Terminal.complain("standard output could not be written")
            exit(1)
        } catch let error as UsageError {
            Terminal.complain("\(error); see 'pushwake help'")
            exit(64)
        } catch let error as AccountError where error.code == .ownershipLost {
            Terminal.complain("\(error)")
            exit(3)
        } catch {
            Terminal.complain("\(error)")
            exit(1)
        }
    }

    private static func asksForHelp(_ words: [String]) -> Bool {
        // The words after -- belong to another program.
        words.dropFirst().prefix { $0 != "--" }.contains { $0 == "--help" || $0 == "-h" }
    }

    /// - Returns: The exit status.
    static func run(_ words: [String]) async throws -> Int32 {
        let rest = Array(words.dropFirst())
        switch words.first {
        case "simulate": return try await SimulateCommand(rest).run()
        case "backlog": return try BacklogCommand(rest).run()
        case "storm": return try await StormCommand(rest).run()
        case "storm-client": return try await StormClientCommand(rest).run()
        case "login": return try await LoginCommand(rest).run()
        case "send": return try await SendCommand(rest).run()
        case "listen": return try await ListenCommand(rest).run()
        case "roster": return try await RosterCommand(rest).run()
        case "join": return try await JoinCommand(rest).run()
        case "main": return try await MainCommand(rest).run()
        case "worker": return try await WorkerCommand(rest).run()
        case "app-server": return try AppServerCommand(rest).run()
        case "inspect":
            let command = try InspectCommand(rest, .file)
            return command.store.isPostgres ? try SiblingCommand.postgres(words).run() : try command.run()
        case "report":
            let command = try ReportCommand(rest, .file)
            return command.store.isPostgres ? try SiblingCommand.postgres(words).run() : try command.run()
        case .some(let command) where forOperators.contains(command):
            return try OperateOptions.isPostgres(rest)
                ? SiblingCommand.postgres(words).run() : operate(command, rest, .file)
        case "store": return try SiblingCommand.postgres(words).run()
        case "dashboard": return try SiblingCommand.dashboard(words).run()
        case "omemo": return try SiblingCommand.omemo(rest).run()
        case "world": return try SiblingCommand.world(rest).run()
        case "failpoints": return try FailpointsCommand.run(rest)
        case "completion": return try CompletionCommand(rest).run()
        case "help": return try help(Arguments(rest, of: "help", wordCount: 1).words.first)
        case "--help", "-h": return try help(nil)
        case "--version":
            _ = try Arguments(rest, options: [], flags: [])
            Terminal.say("pushwake \(version)")
            return 0
        case nil:
            try help(nil)
            return 64
        case .some(let word): throw UsageError("there is no command \(StoreAddress.shown(word))")
        }
    }

    /// The commands for operators.
    package static let forOperators = [
        "handler", "lane", "timer", "workflow", "node", "stats", "check", "metrics",
    ]

    /// Runs one of ``forOperators``.
    package static func operate(_ command: String, _ words: [String], _ opener: StoreOpener) throws -> Int32 {
        switch command {
        case "handler": try HandlerCommand(words, opener).run()
        case "lane": try LaneCommand(words, opener).run()
        case "timer": try TimerCommand(words, opener).run()
        case "workflow": try WorkflowCommand(words, opener).run()
        case "node": try NodeCommand(words, opener).run()
        case "stats": try StatsCommand(words, opener).run()
        case "metrics": try MetricsCommand(words, opener).run()
        default: try CheckCommand(words, opener).run()
        }
    }

    /// Shows all commands, or the page of one.
    @discardableResult
    package static func help(_ command: String?) throws -> Int32 {
        let width = TerminalStyle.current().width.map { min($0, 100) }
        guard let command else {
            Terminal.say(VisibleText(lines: HelpText.overview(width: width)))
            return 0
        }
        guard let page = CommandPage.named(command) else {
            throw UsageError("there is no command '\(command)'")
        }
        Terminal.say(VisibleText(lines: HelpText.page(page, width: width)))
        return 0
    }
}
