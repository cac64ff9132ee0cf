extension CommandPage {
    private static let password = (
        name: "PUSHWAKE_PASSWORD", text: "the account's password, where no --password-file is named"
    )
    private static let seed = Option(
        "--seed", "N",
        "Repeats a run's choices, not the timing of the machine; 0 or more (default: random, printed).")
    private static let keep = Option("--keep", "FOLDER", "Leave the store and all logs in FOLDER.", .folder)
    private static let asJSON = Option("--json", "One JSON object on standard output instead of a summary.")

    /// The options that `main` and `worker` share.
    private static let process: [Option] =
        connection + [
            Option("--store", "FILE", "The database that main and worker share.", .file, isRequired: true),
            Option("--peer", "FULLJID", "The peer that gets messages and requests.", isRequired: true),
        ]

    static let proof: [CommandPage] = [
        CommandPage(
            name: "simulate", group: .proof,
            summary: "run main, a worker and a peer, kill them at random, and prove what happened",
            description: [
                "A main program and short-lived workers take turns on one database, with a server and a peer that keeps a log of its own. At the end the database is compared with that log: every handler must have ended once, every message must have arrived once.",
                "Main is started, sent to the background and called back, also while a worker has the stream, frozen, thawed and killed, in an order that the seed gives; the summary says how often each was done. The 20 rounds of the default do all of it.",
                "A worker that is killed for its memory or time leaves what it had not done to the next one.",
            ],
            options: [
                Option(
                    "--server", "NAME",
                    "The server between them: embedded (the default), prosody or ejabberd.",
                    .choice(["embedded", "prosody", "ejabberd"])),
                Option(
                    "--faults",
                    "Let lines break, sessions expire and the server restart, too. Not with ejabberd; docs/reference/servers.md says why."
                ),
                Option("--push", "With prosody or ejabberd: the server wakes the worker, by an app server."),
                Option(
                    "--rounds", "N", "How many times main and worker take turns, 1 to 1000000 (default 20)."),
                Option("--kills", "N", "How many SIGKILLs in all, 0 to 10000000 (default: one a round)."),
                seed,
                Option(
                    "--worker-memory", "MIB",
                    "Kill a worker that has had more physical memory than that, 1 to 1000000 MiB; a phone allows 24 (default: any)."
                ),
                Option(
                    "--worker-time", "S",
                    "Kill a worker that takes longer, 1 to 30 seconds; a phone allows 30 (default: any)."),
                asJSON,
                Option(
                    "--report", "FILE",
                    "Write a page with the timeline of processes and handlers, which needs no network.", .file
                ), keep,
            ],
            examples: [
                "pushwake simulate --rounds 50 --kills 200 --report run.html":
                    "Two hundred kills, and a page to look at them.",
                "pushwake simulate --server prosody --faults --seed 7":
                    "A real server, with everything that can go wrong.",
            ]),
        CommandPage(
            name: "backlog", group: .proof,
            summary:
                "let a worker find thousands of messages and answers in a store full of pending requests",
            description: [
                "Main asks and goes; while nobody is there, the peer answers and writes, and the store is filled with requests to others that wait for years. Workers are woken until everything is done, each within a phone's limits. Printed are the number of wakes, their time and peak of memory, and what a wake costs with the full store and with an empty one.",
                "A worker needs the release build (make build) to keep within 24 MiB.",
            ],
            options: [
                Option(
                    "--server", "NAME", "Embedded (the default), prosody or ejabberd.",
                    .choice(["embedded", "prosody", "ejabberd"])),
                Option("--messages", "N", "How many messages wait, 1 to 1000000 (default 10000)."),
                Option("--answers", "N", "How many answered requests wait, 1 to 50000 (default 1000)."),
                Option(
                    "--pending", "N",
                    "How many requests to others wait in the store, 0 to 100000000 (default 1000000)."),
                Option(
                    "--lose-session",
                    "At the end the embedded server forgets the session, which ends all that is pending."),
                Option(
                    "--worker-memory", "MIB",
                    "Kill a worker that has had more physical memory, 1 to 1000000 MiB (default 24)."),
                Option(
                    "--worker-time", "S", "Kill a worker that takes longer, 1 to 30 seconds (default 30)."),
                seed, asJSON, keep,
            ],
            examples: [
                "pushwake backlog --messages 1000 --answers 100 --pending 100000 --lose-session":
                    "A smaller one, at whose end a session with 100000 requests is lost."
            ]),
        CommandPage(
            name: "storm", group: .proof,
            summary: "log in after a long absence, killed on the way, and prove that nothing was lost",
            description: [
                "What was said meanwhile waits in the account's archive and in those of its rooms, on an embedded server; the user goes on writing while it is fetched. Printed are what was lost, repeated or out of order, how long the user's own messages took, and the peak of memory."
            ],
            options: [
                Option(
                    "--messages", "N",
                    "How many wait in the account's archive, 0 to 10000000 (default 100000)."),
                Option("--rooms", "N", "How many rooms, 0 to 1000 (default 20)."),
                Option(
                    "--room-messages", "N", "How many wait in them together, 0 to 10000000 (default 50000)."),
                Option("--page-size", "N", "How many are asked for at once, 1 to 250 (default 250)."),
                Option("--kills", "N", "How many SIGKILLs on the way, 0 to 100000 (default 10)."), seed,
                asJSON,
                keep,
            ],
            examples: ["pushwake storm --messages 10000 --room-messages 5000 --kills 3": "A smaller one."]),
        CommandPage(
            name: "world", group: .proof,
            summary: "run the shipped code in simulated worlds, whose every event follows from a seed",
            description: [
                "A world has a disk, a network, a clock, a server, a peer and processes, all in one thread. Processes are killed and frozen between any two events and inside of calls, the disk fails and loses its power, connections break, and a model that shares no code with the library looks at everything after each event. The same seed gives the same digest on every machine.",
                "When something is wrong, the run is repeated with ever fewer incidents, and the command that repeats the shortest one is printed. Runs pushwake-world from this program's folder.",
            ],
            options: [
                Option("--seed", "N", "The seed of the first world; 0 or more (default: random, printed)."),
                Option(
                    "--worlds", "N",
                    "How many worlds, each with the next seed, 1 to 1000000000 (default 1, with --seconds any number)."
                ),
                Option("--seconds", "S", "Start no world after so many seconds, 1 to 10000000."),
                Option(
                    "--lives", "N",
                    "How many processes are started in each world before its faults stop, 1 to 100000 (default 20)."
                ),
                Option(
                    "--power-losses",
                    "Skip the worlds in which the power cannot fail, about half of all."),
                Option(
                    "--incidents", "LIST",
                    "Only these incidents happen, as 3,17-19 or none; a failure prints the list to use."),
                Option(
                    "--fault", "NAME",
                    "Build a fault into the library, to see that it is found; docs/internals/world-faults.md lists them. With all, print that list. Only in builds for debugging or with the trait Failpoints."
                ),
                Option("--trace", "Print a line for each event: its number, the microsecond, what happened."),
                Option(
                    "--report", "FILE",
                    "Write a page with the timeline of the last world, which needs no network.", .file),
            ],
            examples: [
                "pushwake world --seed 7 --trace": "One world, event by event.",
                "pushwake world --seconds 60": "As many worlds as a minute has room for.",
            ]),
        CommandPage(
            name: "main", group: .proof, summary: "the main program of the simulation: connect, send, listen",
            description: [
                "Lines on standard input steer it: 'background' closes the connection and keeps the session, 'foreground' takes the stream again, from a worker if need be; 'settle' ends the sending and waits until nothing is pending, 'go on' sends again; 'freeze' stops the process in the middle of a transaction; 'tell' is answered with 'here' when the stream is here; 'ask N' sends N requests that the peer answers when it is told to; 'quit' ends the process, as the end of the input does."
            ],
            options: process + [
                Option(
                    "--interval", "MS",
                    "How many milliseconds from one message to the next, 1 to 60000 (default 5)."),
                Option("--quiet", "Send nothing unless a line asks for it."),
                Option(
                    "--stay",
                    "When another process takes the stream over, say 'overtaken' and wait for 'foreground' instead of ending with status 3."
                ),
                Option("--push-service", "DOMAIN", "The app server that wakes the worker."),
                Option("--push-node", "NODE", "What names this installation to it."),
            ],
            environment: [
                password, ("PUSHWAKE_PUSH_SECRET", "what the app server expects beside the node"),
            ],
            examples: [
                "pushwake main --store app.db --jid romeo@example.org --peer juliet@example.org/balcony --interval 1000":
                    "Write to a peer every second until standard input ends."
            ]),
        CommandPage(
            name: "worker", group: .proof,
            summary: "what a push wakes: take over, resume, drain, hand back, exit",
            description: [
                "If the main program is alive, it has the stream, and the worker leaves at once.",
                "When five sixths of its time are over it starts nothing any more, gives the stream back and says 'time is over' instead of 'drained': the rest is for the next worker.",
            ],
            options: process + [
                Option(
                    "--linger", "MS",
                    "How many milliseconds to wait for more once nothing waits, 0 to 25000 (default 0)."),
                Option("--time", "S", "How many seconds the platform lets it live, 1 to 3600 (default 30)."),
                Option(
                    "--timings",
                    "Say at the end when it got how far: one JSON object with nanoseconds of the monotonic clock."
                ),
            ], environment: [password],
            examples: [
                "pushwake worker --store app.db --jid romeo@example.org --peer juliet@example.org/balcony --timings":
                    "Do what waits, and say what it took."
            ]),
        CommandPage(
            name: "app-server", group: .proof, words: "-- COMMAND [ARGUMENT...]",
            summary: "receive a server's pushes and start COMMAND, a worker, for each",
            description: [
                "An external component (XEP-0114) that receives what a server publishes (XEP-0357). A publication counts when its node is known, its secret is that of the node, and it comes from the account's server. COMMAND runs once at a time for each node, which stands in PUSHWAKE_NODE; pushes that come meanwhile lead to one more run.",
                "The stream to the server is not encrypted: run it on the server's machine, or on a network of your own.",
            ],
            options: [
                Option("--component", "DOMAIN", "The component's domain.", isRequired: true),
                Option("--secret-file", "FILE", "A file whose first line is the component's secret.", .file),
                Option("--host", "HOST", "Where the server takes components (default 127.0.0.1)."),
                Option("--port", "PORT", "The port there, 1 to 65535 (default 5347)."),
                Option(
                    "--devices", "FILE",
                    "Who may be woken: a JSON list of objects with account, node and secret, readable by its owner alone.",
                    .file, isRequired: true),
                Option(
                    "--time-limit", "S", "After how many seconds a worker is killed, 1 to 3600 (default 30)."),
                Option("--json", "One JSON object a line."),
            ],
            environment: [
                ("PUSHWAKE_COMPONENT_SECRET", "the component's secret, where no --secret-file is named")
            ],
            examples: [
                "pushwake app-server --component push.example.org --devices devices.json -- pushwake worker --store app.db --jid romeo@example.org --peer juliet@example.org/balcony":
                    "Wake a worker for each push."
            ]),
        CommandPage(
            name: "failpoints", group: .proof, summary: "list the places at which a test can kill a process",
            description: [
                "One name a line. A debug build of any program that uses the library, or one with the package trait Failpoints, reads HANDLERS_FAILPOINT=NAME[:ACTION[:NTH]] from its environment, where ACTION is kill (the default), stop or error, and NTH counts from 1."
            ],
            options: [],
            examples: [
                "HANDLERS_FAILPOINT=after-commit pushwake login --jid romeo@example.org":
                    "A login that is killed after its first commit."
            ]),
        CommandPage(
            name: "storm-client", group: .hidden, summary: "the program that storm kills",
            options: process + [
                Option("--rooms", "N", "How many rooms it is in."),
                Option("--page-size", "N", "How many it asks for at once."),
            ]),
    ]
}
