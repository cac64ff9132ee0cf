import Handlers

/// The pages of the commands for operators.
extension CommandPage {
    private static let named = Option(
        "--store", "STORE",
        "The store: a file, or a connection string of libpq (default: PUSHWAKE_STORE).", .store)
    private static let output = Option(
        "--output", "FORM",
        "The form of the answer: text, json, jsonl or csv (default text). -o is the same.",
        .choice(["text", "json", "jsonl", "csv"]))
    private static let limit = Option(
        "--limit", "N", "How many rows, 1 to 10000000 (default: text 20, json 1000, jsonl and csv all).")
    private static let isDry = Option("--dry-run", "Say what would be done, and do nothing.")
    private static let by = Option(
        "--by", "NAME", "Who does it, for the record (default: your login and the machine).")
    private static let because = Option("--because", "TEXT", "Why, for the record.")
    private static let environment = [
        (name: "PUSHWAKE_STORE", text: "the store, where --store names none"),
        (name: "NO_COLOR", text: "set to anything: no colors on a terminal"),
    ]
    private static let filters = [
        Option("--name", "NAME", "Only handlers with this stored name; 'mail.*' is any that starts so."),
        Option(
            "--state", "STATE", "Only handlers in this state: pending, parked, quarantined or running.",
            .choice(HandlerStatus.State.allCases.map(\.rawValue))),
        Option("--key", "KEY", "Only the handler with this key."),
        Option("--lane", "NAME", "Only handlers in this lane."),
        Option("--trace", "ROW", "Only the chain that this handler is the first of."),
        Option(
            "--argument", "NAME=VALUE",
            "Only handlers bound with this argument, as a number or a text; may be repeated.",
            isRepeated: true),
        Option("--older", "TIME", "Only handlers that were bound longer ago, such as 90s, 15m, 36h or 7d."),
    ]

    static let operate: [CommandPage] = [
        CommandPage(
            name: "handler", group: .operate,
            words: "list|show|requeue|invalidate|discard|run-now|signal [ROW...|KEY JSON]",
            summary: "show handlers that have not ended, and change them",
            description: [
                "'list' shows the handlers that meet the filters, the oldest first. 'show ROW' shows all about one, its last five failures, and who changed it by hand, also after its end.",
                "'requeue' calls parked and quarantined handlers again. 'run-now' calls one at once that waits for its time or its next attempt. 'invalidate' ends a handler, and what was bound for that case runs. 'discard' ends it, and nothing runs. Each takes rows, of which all are changed or none; or filters; or --all.",
                "With filters 1000 handlers are changed in one step. If the command is ended, whole steps are done, and the same command goes on. On a terminal it asks for the number of handlers, a script says --yes.",
                "'signal KEY JSON' gives a signal to the handler with a key.",
                "Each change is stored with who made it and why, in the same step.",
            ],
            options: [named, output, limit, Option("--after", "ROW", "Start after this row.")] + filters + [
                Option("--all", "All handlers, instead of rows or filters."), isDry,
                Option("--yes", "Change many handlers without a question."), by, because,
            ],
            environment: environment,
            examples: [
                "pushwake handler list --store app.db --state quarantined": "What failed for good?",
                "pushwake handler requeue --store app.db --name 'mail.*' --because 'the server is back' --yes":
                    "Try all mail again that failed.",
                "pushwake handler show 702 --store app.db": "What became of 702, and who did that?",
            ]),
        CommandPage(
            name: "lane", group: .operate, words: "list|pause|resume|limit [NAME]",
            summary: "show lanes, pause them and set their limits",
            description: [
                "'pause' starts no handler of a lane any more, in all processes, until 'resume'. Handlers that run go on. A program that sets its limits at its start does not resume a lane.",
                "'limit' sets the limits that the options name, and removes the others. A program that sets its limits at its start sets its own again.",
            ],
            options: [
                named, output, limit, Option("--after", "NAME", "Start after this lane."),
                Option("--concurrency", "N", "With limit: how many handlers run at the same time."),
                Option("--rate", "COUNT/TIME", "With limit: how many start in a time, such as 100/60s."),
                isDry,
                by, because,
            ],
            environment: environment,
            examples: [
                "pushwake lane pause mail --store app.db --because 'the server moves'":
                    "Send no mail for now."
            ]),
        CommandPage(
            name: "timer", group: .operate, words: "list|pause|resume|run-now [ROW]",
            summary: "show timers that are called again and again, pause them and call them now",
            options: [
                named, output, limit, Option("--after", "ROW", "Start after this row."), isDry, by, because,
            ],
            environment: environment,
            examples: ["pushwake timer run-now 12 --store app.db": "The nightly report, now."]),
        CommandPage(
            name: "workflow", group: .operate, words: "show ROW",
            summary: "show the journal of a workflow, line by line",
            options: [
                named, output, Option("--limit", "N", "How many entries (default: all)."),
                Option("--after", "POSITION", "Start after this entry."),
            ],
            environment: environment,
            examples: ["pushwake workflow show 12 --store app.db": "What has this order done already?"]),
        CommandPage(
            name: "node", group: .operate, words: "list",
            summary: "show the processes or nodes that have a store open", options: [named, output],
            environment: environment,
            examples: ["pushwake node list --store app.db": "Who has it open?"]),
        CommandPage(
            name: "stats", group: .operate,
            summary: "show what happened to handlers in the last time, by name",
            description: [
                "Handlers that were bound, ended, failed for good and were tried again; how long they were due until they were called; and how long async handlers ran. All processes count, also those that have ended. Counts of the last 10 s may be missing. Statistics of seven days are kept, in parts of ten minutes."
            ],
            options: [
                named, output, limit,
                Option("--since", "TIME", "How far back, such as 15m, 36h or 7d (default 1h)."),
                Option("--name", "NAME", "Only handlers with this stored name."),
            ],
            environment: environment,
            examples: ["pushwake stats --store app.db --since 7d -o csv": "A week, for a spreadsheet."]),
        CommandPage(
            name: "check", group: .operate,
            summary: "say in one line whether a store needs a person, for monitoring",
            description: [
                "The exit status is that of plugins for monitoring: 0 ok, 1 warning, 2 critical, 3 the store cannot be read. The line ends with the numbers, behind '|'."
            ],
            options: [
                named,
                Option("--quarantined", "N", "How many quarantined handlers are no failure (default 0)."),
                Option("--parked", "N", "How many parked handlers are no failure (default 0)."),
                Option("--overdue", "TIME", "How long a handler may be overdue (default 60s)."),
                Option("--nodes", "N", "How many processes must have the store open (default 0)."),
                Option("--wal", "MIB", "How large the log of a file may be (default 512)."),
            ],
            environment: [environment[0]],
            examples: ["pushwake check --store app.db --nodes 1": "Is all well?"]),
        CommandPage(
            name: "metrics", group: .operate,
            summary: "show the metrics of a store as Prometheus reads them",
            description: [
                "Counters are those of all processes since the store was made, also of those that have ended; counts of the last 10 s may be missing. Names of handlers and lanes are labels; keys, rows, addresses and arguments are not.",
                "With --listen it answers GET /metrics until it is ended. It has no encryption and asks for no password: let others reach it through a proxy only.",
            ],
            options: [
                named,
                Option(
                    "--file", "FILE",
                    "Write them to this file, which is replaced as a whole, for the textfile collector of node_exporter."
                ),
                Option(
                    "--listen", "[ADDRESS:]PORT",
                    "Answer requests (address 127.0.0.1, unless another is said)."),
            ],
            environment: [environment[0]],
            examples: [
                "pushwake metrics --store app.db --listen 9464": "For a Prometheus on this machine.",
                "pushwake metrics --store app.db --file /var/lib/node_exporter/durable.prom": "For a timer.",
            ]),
        CommandPage(
            name: "dashboard", group: .operate,
            summary: "serve a page that shows a store while it changes",
            description: [
                "Prints an address for a browser on this machine. The code in it works once, for a minute; Enter prints a new one. The page shows what is broken first, and each handler with the reason why it has not ended, its failures and who changed it.",
                "The page is read-only unless --operator allows changes; each is stored with your name and the reason that you give. Secrets are masked.",
                "Only this machine can reach it. From another one: ssh -L 8377:127.0.0.1:8377 HOST.",
                "Runs pushwake-dashboard from this program's folder. pushwake-dashboard links libmicrohttpd and libpq.",
            ],
            options: [
                named, Option("--operator", "Let the page requeue, discard, pause and signal."),
                Option(
                    "--listen", "ADDRESS", "127.0.0.1:PORT (default: 127.0.0.1:8377, or the next free port)."),
                by,
            ],
            environment: [environment[0]],
            examples: ["pushwake dashboard --store app.db --operator": "What is wrong, and mend it."]),
    ]
}
