extension CommandPage {
    private static let password = (
        name: "PUSHWAKE_PASSWORD",
        text:
            "the account's password, where no --password-file is named; without either it is asked for at the terminal"
    )

    /// The options of every command that connects.
    static let connection: [Option] = [
        Option("--jid", "USER@DOMAIN", "The account.", isRequired: true),
        Option(
            "--password-file", "FILE",
            "A file whose first line is the password; passwords are no arguments, which others see.",
            .file),
        Option("--host", "HOST", "The server, where DNS does not lead to it."),
        Option("--port", "PORT", "With --host: its port, 1 to 65535 (default 5222, with --direct-tls 5223)."),
        Option("--direct-tls", "With --host: TLS from the first byte instead of STARTTLS."),
        Option(
            "--ca", "FILE", "PEM file with the certificate authority to trust instead of the system's.", .file
        ),
        Option("--log-xml", "Show on standard error what is decided, sent and received; secrets are masked."),
    ]

    private static let state = Option(
        "--store", "FILE",
        "Where the account's state is kept (default ~/.local/state/pushwake/USER@DOMAIN.db).",
        .file)
    private static let json = Option("--json", "One JSON object a line.")

    static let client: [CommandPage] = [
        CommandPage(
            name: "login", group: .client, summary: "log in once, and say what the server offers",
            description: [
                "A store whose last command was killed holds a session and perhaps a token of the server, and the password is then not looked at. To test a password, name a new file with --store."
            ],
            options: connection + [state], environment: [password],
            examples: [
                "pushwake login --jid romeo@montague.example --store new.db":
                    "Is the password right, and what can the server do?"
            ]),
        CommandPage(
            name: "send", group: .client, words: "TO TEXT",
            summary: "send a message; done when the server has it",
            description: [
                "The message is stored before there is a connection: a send that is killed is sent by whatever comes next on this store, once.",
                "A text that starts with -- comes after all options and a lone --.",
            ],
            options: connection + [
                state, Option("--receipt", "Done when the recipient has it."),
                Option("--wait", "S", "How many seconds at most, 1 to 86400 (default 30)."),
            ], environment: [password],
            examples: [
                "pushwake send juliet@capulet.example 'Good night' --jid romeo@montague.example --receipt":
                    "Wait until it was received."
            ]),
        CommandPage(
            name: "listen", group: .client,
            summary: "show messages as they come, also after a kill",
            description: [
                "It runs until it is killed. What comes while nothing runs on this store is shown the next time, and what standard output did not take is not counted as shown.",
                "It shows messages with the time and its zone, corrections, reactions, retractions, subjects, private messages of rooms and invitations into them; of encrypted messages the text that their senders wrote for clients without OMEMO.",
                "Each message is shown once, unless a kill comes between showing one and storing that: then the next listen shows that one again. Where >> appends to a file to which nothing else writes, it is found there and is not shown again.",
            ],
            options: connection + [state, json], environment: [password],
            examples: [
                "pushwake listen --jid romeo@montague.example --json | jq -r .body":
                    "The texts of all messages, for a program."
            ]),
        CommandPage(
            name: "roster", group: .client, words: "[add|remove|accept|refuse USER@DOMAIN]",
            summary: "show contacts and subscription requests, or change one",
            description: [
                "Without words it shows the contacts, those that are there with a full circle, and the users who ask to see the account's presence. 'add' also asks to see the contact's presence; 'accept' and 'refuse' answer the request to see the account's."
            ],
            options: connection + [
                state,
                Option("--name", "NAME", "With 'add': what to call who is added (default: as before)."),
                Option(
                    "--json",
                    "The contacts, then the users that request a subscription, with \"request\":true; one JSON object a line."
                ),
            ], environment: [password],
            examples: [
                "pushwake roster add juliet@capulet.example --name Juliet --jid romeo@montague.example":
                    "Add a contact, and ask to see its presence."
            ]),
        CommandPage(
            name: "join", group: .client, words: "ROOM",
            summary: "show what is said in a room, and say there what is typed",
            description: [
                "The end of input leaves the room. A command that is killed does not leave: the account is in the room again with whatever comes next on this store.",
                "Who comes and goes, and the subject, are shown on standard error. While a listen of the same store runs, join works over its connection, and shows only what is said.",
            ],
            options: connection + [
                state, Option("--nick", "NAME", "The name there (default: that of the account)."),
                Option(
                    "--room-password-file", "FILE",
                    "A file whose first line is the password of the room. Without it, an invitation's is used, or it is asked for at the terminal.",
                    .file), json,
            ],
            environment: [
                password,
                (
                    name: "PUSHWAKE_ROOM_PASSWORD",
                    text: "the room's password, where no --room-password-file is named"
                ),
            ],
            examples: [
                "pushwake join council@rooms.capulet.example --nick Romeo --jid romeo@montague.example":
                    "Be in a room, with the last 20 messages of it."
            ]),
    ]
}
