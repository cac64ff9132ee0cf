// pushwake: shows and proves that handlers outlive the processes that bound them.
//
//     simulate ──spawns──▶ main ◀──stream──▶ server ◀──stream──▶ peer (keeps its own log)
//         │                 ▲ one store, one session
//         └──"push"─────▶ worker
//     SIGKILL to either at any moment; at the end the store is compared with the peer's log.

import Glibc
import XMPPAccount

@main
struct Pushwake {
    static func main() async {
        // A broken pipe is an error of a write, not the end of the process.
        signal(SIGPIPE, SIG_IGN)
        let words = Array(CommandLine.arguments.dropFirst())
        do {
            exit(try await run(words))
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

    /// - Returns: The exit status.
    static func run(_ words: [String]) async throws -> Int32 {
        let rest = Array(words.dropFirst())
        if rest.contains("--help") || rest.contains("-h") {
            print(Self.help)
            return 0
        }
        switch words.first {
        case "simulate": return try await SimulateCommand(rest).run()
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
        case "inspect": return try InspectCommand(rest).run()
        case "failpoints": return FailpointsCommand.run()
        case "help", "--help", "-h":
            print(Self.help)
            return 0
        case nil:
            print(Self.help)
            return 64
        case .some(let word): throw UsageError("there is no command '\(word)'")
        }
    }

    static let help = """
        usage: pushwake COMMAND [OPTIONS]

        a client to try it with
          login                         log in once, and say what the server offers
          send TO TEXT                  send a message; done when the server has it
            --receipt                   done when the recipient has it
            --wait S                    how long at most (default 30)
          listen                        show messages as they come, each once, whoever is killed
          roster [add|remove|accept|refuse USER@DOMAIN]
            --name NAME                 what to call who is added
          join ROOM                     show what is said in a room, and say there what is typed
            --nick NAME                 the name there (default: that of the account)
          each takes
            --jid USER@DOMAIN           the account; its password comes from --password-file FILE, the environment
                                        variable PUSHWAKE_PASSWORD or the terminal
            --store FILE                where its state is kept (default ~/.local/state/pushwake/USER@DOMAIN.db)
            --host HOST --port PORT [--direct-tls] [--ca FILE]
                                        where DNS does not say where the server is
            --json                      for listen, roster and join: one JSON object a line
            --log-xml                   show on standard error what is decided, sent and received

        the proof
          simulate    run main, a worker and a peer, kill them at random, and prove what happened
            --server NAME               the server between them: embedded, prosody or ejabberd (default embedded)
            --faults                    let lines break, sessions expire, main freeze and the server restart, too
                                        (not with ejabberd; docs/servers.md says why)
            --push                      with prosody or ejabberd: the server wakes the worker, by an app server
            --rounds N                  how many times main and worker take turns (default 20)
            --kills N                   how many SIGKILLs in all (default: one a round)
            --seed N                    repeats a run's choices (default: random, printed)
            --worker-memory MIB         kill a worker that has had more than that of physical memory (a phone: 24)
            --worker-time S             kill a worker that takes longer, 1 to 30 seconds (a phone: 30)
            --json                      print one JSON object on standard output instead of a summary
            --report FILE.html          write a page with the timeline of processes and handlers, which needs no network
            --keep FOLDER               leave the store and all logs in FOLDER
          storm       log in after a long absence, killed on the way, and prove that nothing was lost
            --messages N                how many wait in the account's archive (default 100000)
            --rooms N                   how many rooms (default 20)
            --room-messages N           how many wait in them together (default 50000)
            --page-size N               how many are asked for at once, 1 to 250 (default 250)
            --kills N                   how many SIGKILLs on the way (default 10)
            --seed N  --json  --keep FOLDER    as for simulate
          main        the main program of the simulation: connect, send, listen
          worker      what a push wakes: take over, resume, drain, hand back, exit
          inspect     show what a store holds: owner, session, requests, timers, outbox, what was set aside, endings;
                      it only reads, beside running and frozen programs or on a copy
            --store FILE                the database to look at
            --limit N                   how many rows of each list (default 20; with --json 1000)
            --json                      print one JSON object; times in milliseconds
                                      with one of these it writes, and says what it did:
            --requeue ROW|all           give a handler that was set aside another chance, or all of them
            --invalidate ROW            end a handler; what was bound for that case runs
            --discard ROW               end a handler; nothing runs
          app-server -- COMMAND...      receive the pushes of a server (XEP-0357) as a component of it (XEP-0114), and start
                                        COMMAND, a worker, for each that shows the right node and secret
            --component DOMAIN          the component's domain; its secret comes from --secret-file FILE or the environment
                                        variable PUSHWAKE_COMPONENT_SECRET
            --host HOST --port PORT     where the server takes components (default 127.0.0.1 5347); not encrypted
            --devices FILE              who may be woken: a JSON list of {"account": ..., "node": ..., "secret": ...}
            --time-limit S              after how many seconds a worker is killed (default 30)
            --json                      one JSON object a line
          failpoints  list the places at which a test can kill a process

        main and worker take
            --store FILE --jid USER@DOMAIN --peer FULLJID
            --host HOST --port PORT [--direct-tls] [--ca FILE]
            --log-xml                   show on standard error what the account decides, sends and receives; secrets
                                        are masked
          and the password from the environment variable PUSHWAKE_PASSWORD; worker also takes
            --linger MS                 how long to wait for more once nothing waits (default 0)
          main also takes
            --push-service DOMAIN --push-node NODE
                                        the app server that wakes the worker; its secret comes from PUSHWAKE_PUSH_SECRET

        Exit status: 0 all went well; 1 something failed, was lost or repeated; 3 another process took the
        stream over; 64 wrong usage.
        """
}
