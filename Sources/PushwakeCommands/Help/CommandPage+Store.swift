import Handlers

extension CommandPage {
    /// The store of a command that also works on PostgreSQL.
    private static let storeOption = Option(
        "--store", "STORE",
        "The store to look at: a file, or a connection string of libpq such as postgresql://pg1/bots or 'host=pg1 dbname=bots'. A path that looks like one is written ./path. Put a password into ~/.pgpass or PGPASSWORD, because all users see the command line.",
        .store, isRequired: true)

    static let store: [CommandPage] = [
        CommandPage(
            name: "inspect", group: .store,
            summary: "show what a store holds",
            description: [
                "Shows owner, session, requests, timers, lanes, outbox, what runs, what is parked, quarantined and dropped, and endings. It only reads, beside running and frozen programs, in what a killed one left, or in a copy; arguments that are secret are masked.",
                "Of each handler it says why it has not ended, as far as the store shows that: a handler whose context is a signal looks like one that waits for its call, because only the program knows contexts.",
                "With --name, --state, --key, --lane, --trace or --argument it shows the handlers that meet all of them and nothing else; and the endings, unless --state, --lane or --argument is there, which endings do not have.",
                "The first lines say what is wrong, and with the command that mends it.",
                "For a store on PostgreSQL it runs pushwake-postgres from this program's folder. pushwake-postgres links libpq. Reading takes no lock of a node, and works on a standby, too.",
            ],
            options: [
                storeOption,
                Option(
                    "--limit", "N",
                    "How many rows of each list, 1 to 10000000 (default 20; with --json 1000)."),
                Option("--json", "One JSON object; times in milliseconds."),
                Option("--name", "NAME", "Only handlers with this stored name."),
                Option(
                    "--state", "STATE",
                    "Only handlers in this state: pending, parked, quarantined or running.",
                    .choice(HandlerStatus.State.allCases.map(\.rawValue))),
                Option("--key", "KEY", "Only the handler with this key, and those with it that have ended."),
                Option("--lane", "NAME", "Only handlers in this lane."),
                Option("--trace", "ROW", "Only the chain that this handler is the first of."),
                Option(
                    "--argument", "NAME=VALUE",
                    "Only handlers bound with this argument; may be repeated. n=7 finds the number and the text, n='\"7\"' the text alone.",
                    isRepeated: true),
            ],
            environment: [
                ("NO_COLOR", "set to anything: no colors on a terminal"),
                ("COLUMNS", "how wide the output may be where it is no terminal (default: any width)"),
            ],
            examples: [
                "pushwake inspect --store app.db": "What waits, for whom, and for how long?",
                "pushwake inspect --store app.db --name shop.thank --argument customer=Ada":
                    "Why does this order still wait?",
                "pushwake inspect --store app.db --json | jq .quarantined.shown":
                    "What failed for good, for a program.",
                "pushwake inspect --store 'host=pg1 dbname=bots'":
                    "The same of a store on PostgreSQL, with its nodes.",
            ]),
        CommandPage(
            name: "report", group: .store,
            summary: "draw what a store holds as a timeline for a browser",
            description: [
                "Writes one page that needs no other file: what has not ended from its binding to now, with the reason why and the time at which it is due; what has ended as a point, because the store keeps the end of a handler and neither its binding nor its arguments; lines from handlers to the one that waits for them.",
                "It only reads, as inspect does, beside running and frozen programs, in what a killed one left, or in a copy. Arguments that are secret are masked; all others are in the page.",
                "A store on PostgreSQL is read by pushwake-postgres, as inspect says.",
            ],
            options: [
                storeOption,
                Option(
                    "--output", "FILE", "The page (default: standard output, where that is no terminal).",
                    .file),
                Option(
                    "--limit", "N",
                    "How many handlers that have not ended, and how many endings, newest first: 1 to 1000000 (default 2000)."
                ),
            ],
            examples: [
                "pushwake report --store app.db --output app.html": "What waited, and since when?"
            ]),
        CommandPage(
            name: "store", group: .store, words: "move",
            summary: "move a store between SQLite and PostgreSQL",
            description: [
                "Moves all of a store into a database without one, in one transaction, and compares every row before it commits. Sessions, OMEMO ratchets, ids and idempotency keys continue. The old store is kept and retired: a program that opens it gets an error that names the target.",
                "No program may have the store open. A move that was interrupted is run again with the same options, or undone with --undo as long as the target has nothing; until then no program can open the store.",
                "Tables of modules that this program does not know, such as those of your program or of OMEMO, are made as the store keeps them.",
                "Runs pushwake-postgres from this program's folder. pushwake-postgres links libpq.",
            ],
            options: [
                Option(
                    "--from", "STORE", "The store: a file, or a connection string of libpq.", .store,
                    isRequired: true),
                Option(
                    "--to", "STORE",
                    "Where it goes: a file that is not there, or a database without a store.", .store,
                    isRequired: true),
                Option(
                    "--without-standby",
                    "Take a server without a synchronous standby: its commits die with its machine."),
                Option("--undo", "Give the store back whose move was interrupted."),
            ],
            examples: [
                "pushwake store move --from app.db --to 'host=pg1,pg2 dbname=bots target_session_attrs=read-write'":
                    "From a file to a fleet.",
                "pushwake store move --from postgresql://pg1/bots --to back.db": "And back.",
            ]),
        CommandPage(
            name: "omemo", group: .store, words: "[list [USER@DOMAIN]] | trust USER@DOMAIN KEY DECISION",
            summary: "show devices with their fingerprints, and set the trust in them",
            description: [
                "Runs pushwake-omemo from this program's folder. pushwake-omemo links libomemo-c, which is under the GPL.",
                "KEY is a fingerprint, or the number of a device that has the key now; DECISION is verified, untrusted, blind or undecided.",
                "'pushwake omemo world' runs simulated worlds with OMEMO, with the options of 'pushwake world'.",
            ],
            options: [
                Option(
                    "--store", "FILE", "The store of the program whose devices these are; it may be running.",
                    .file, isRequired: true),
                Option("--jid", "USER@DOMAIN", "Which account, where the store has several."),
                Option("--json", "One JSON object a line."),
            ],
            examples: [
                "pushwake omemo --store app.db": "Whose devices are known, and which are trusted?",
                "pushwake omemo trust juliet@capulet.example 31415926 verified --store app.db":
                    "Her fingerprint was compared.",
            ]),
    ]

    static let shell: [CommandPage] = [
        CommandPage(
            name: "help", group: .shell, words: "[COMMAND]",
            summary: "say what there is, or all about one command", options: [],
            examples: ["pushwake help worker": "All about the worker."]),
        CommandPage(
            name: "completion", group: .shell, words: "bash|zsh|fish",
            summary: "print what a shell needs to complete commands and options",
            options: [],
            examples: [
                "pushwake completion bash > ~/.local/share/bash-completion/completions/pushwake": "For bash.",
                "pushwake completion zsh > \"${fpath[1]}/_pushwake\"": "For zsh.",
                "pushwake completion fish > ~/.config/fish/completions/pushwake.fish": "For fish.",
            ]),
    ]
}
