import FoundationEssentials
import Glibc
import Handlers
import PushwakeCommands
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import TestServers
import XMPPTestKit

/// The commands for people, each a process of its own, against a Prosody.
@Suite(.ownThread, .timeLimit(.minutes(3)))
struct ClientTests {
    private let home: ClientHome

    init() throws { home = try ClientHome() }

    @Test("W6 login says who one is, and the password comes from a file as well")
    func login() throws {
        let ending = try home.run("login", as: "alice")
        #expect(ending.status == 0, "\(ending)")
        #expect(ending.output.contains("logged in as alice@localhost/pushwake"))
        #expect(ending.output.contains(" offers resumption, "), "\(ending)")
        #expect(ending.output.contains("carbons") && ending.output.hasSuffix("\n0 contacts\n"), "\(ending)")
        let file = home.folder.path + "/password"
        try Data("\(ClientHome.password)\n".utf8).write(to: URL(filePath: file))
        let again = try home.run("login", as: "alice", ["--password-file", file], password: "wrong")
        #expect(again.status == 0, "\(again)")
    }

    @Test("X12 send --receipt is done when another listen has shown the message")
    func receipt() throws {
        // A receipt is for those whom one has written to.
        #expect(try home.run("send", as: "bob", ["alice@localhost", "who is it?"]).status == 0)
        let listener = try home.listen("bob")
        let ending = try home.run("send", as: "alice", ["bob@localhost", "it is I", "--receipt"])
        #expect(ending.status == 0, "\(ending)")
        #expect(ending.output == "bob@localhost has it\n")
        #expect(try listener.shown().hasSuffix("alice@localhost: it is I"))
    }

    @Test("W4 X12 send beside a listen of the same account goes out over its stream, at once")
    func sendBesideListen() throws {
        let bob = try home.listen("bob")
        let owner = try home.start("listen", as: "alice", store: "shared")
        try owner.complains(until: "listening")
        let ending = try home.run("send", as: "alice", ["bob@localhost", "beside"], store: "shared")
        #expect(ending.status == 0 && ending.output == "the server has it\n", "\(ending)")
        #expect(try bob.shown().hasSuffix("alice@localhost: beside"))
    }

    @Test("X12 send without --receipt is done when the server has the message, which waits for the recipient")
    func offline() throws {
        let ending = try home.run("send", as: "alice", ["bob@localhost", "two\nlines"])
        #expect(ending.output == "the server has it\n", "\(ending)")
        let listener = try home.listen("bob", ["--json"])
        let line = try listener.shown()
        #expect(
            line.contains(#""body":"two\nlines""#) && line.contains(#""peer":"alice@localhost""#), "\(line)")
    }

    @Test(
        "W6 listens that are killed show every message, in order, and none twice but one that a kill came upon while it was shown"
    )
    func killedListen() throws {
        var shown: [[String]] = []
        for round in 0..<4 {
            let listener = try home.listen("bob")
            var lines: [String] = []
            for number in 0..<2 {
                let text = "message \(round)-\(number)"
                #expect(try home.run("send", as: "alice", ["bob@localhost", text]).status == 0)
                if number == 0 || round == 3 { lines.append(try listener.shown()) }
            }
            // The last one may be on its way, stored, or shown already when the process dies.
            listener.process.killAndWait()
            shown.append(lines + (try listener.rest()))
        }
        let last = try home.listen("bob")
        last.process.signal(15)
        shown.append(try last.rest())
        var texts: [String] = []
        for lines in shown {
            var lines = lines.map { $0.split(separator: ": ").last.map(String.init) ?? "" }
            // The one that was written and not yet marked when the process died.
            if let first = lines.first, first == texts.last { lines.removeFirst() }
            texts += lines
        }
        #expect(texts == (0..<4).flatMap { round in (0..<2).map { "message \(round)-\($0)" } })
    }

    @Test(
        "W6 a message that a killed listen has appended to a file, whole or in part, is not shown there again, and what others append is left alone",
        arguments: ["whole", "part", "other"])
    func killedWhileWriting(found: String) async throws {
        let file = home.folder.path + "/shown"
        func show(_ bodies: [String]) async throws {
            let store = try home.clientStore("bob")
            for (row, body) in bodies.enumerated() {
                try store.change(
                    """
                    INSERT INTO message(row, peer, own, sent_at, body)
                    VALUES (\(row + 1), 'alice@localhost', 0, 1750000000000, '\(body)')
                    """)
            }
            let listener = try home.start("listen", as: "bob", outputFile: file)
            try await eventually("shown") { try store.number("SELECT count(*) FROM message") == 0 }
            listener.killAndWait()
        }
        try await show(["one", "two"])
        let (one, two) = (
            "2025-06-15T15:06Z alice@localhost: one\n", "2025-06-15T15:06Z alice@localhost: two\n"
        )
        #expect(try String(contentsOfFile: file, encoding: .utf8) == one + two)
        // What a process leaves that was killed between writing the second line and marking it as shown.
        try home.clientStore("bob").change("UPDATE shown_output SET size = \(one.utf8.count)")
        let left = ["whole": one + two, "part": one + two.prefix(20), "other": one + "other"][found] ?? ""
        let descriptor = open(file, O_WRONLY | O_TRUNC)
        #expect(write(descriptor, left, left.utf8.count) == left.utf8.count)
        close(descriptor)
        try await show(["two"])
        #expect(
            try String(contentsOfFile: file, encoding: .utf8) == (found == "other" ? left + two : one + two))
    }

    @Test("W6 what nobody takes from standard output is not counted as shown")
    func closedOutput() throws {
        for text in ["one", "two"] {
            #expect(try home.run("send", as: "alice", ["bob@localhost", text]).status == 0)
        }
        let deaf = try home.start("listen", as: "bob", outputFile: "/dev/full")
        let ending = try ProgramEnding(of: deaf)
        #expect(ending.status == 1)
        #expect(ending.complaint.contains("what was not shown is shown by the next"), "\(ending)")
        let listener = try home.listen("bob")
        #expect(try listener.shown().hasSuffix("alice@localhost: one"))
        #expect(try listener.shown().hasSuffix("alice@localhost: two"))
        let login = try home.start("login", as: "alice", outputFile: "/dev/full")
        #expect(try login.waitUntilExit(deadline: .now + .seconds(60)).status == 1)
    }

    @Test("W6 login tells of the account that was named, in a store of two accounts")
    func twoAccounts() throws {
        for user in ["alice", "bob"] {
            let ending = try home.run("login", as: user, store: "both")
            #expect(ending.output.contains("logged in as \(user)@localhost/"), "\(ending)")
        }
    }

    @Test("W6 without --store the store is in the state folder; one that cannot be is said in a sentence")
    func stateFolder() throws {
        let file = home.folder.path + "/.local/state/pushwake/alice@localhost.db"
        for state in ["", "relative"] {
            let ending = try home.runBare(["login"], ["XDG_STATE_HOME": state, "HOME": home.folder.path])
            #expect(ending.status == 0, "\(ending)")
            #expect(FileManager.default.fileExists(atPath: file))
        }
        let ending = try home.runBare(["login"], ["XDG_STATE_HOME": "/proc/none"])
        #expect(ending.status == 1)
        #expect(
            ending.complaint
                == "pushwake: the folder /proc/none/pushwake cannot be made; let this user write there, or name the file of the store with --store\n"
        )
    }

    @Test("X10 roster add asks, accept grants, and both lists show it")
    func roster() throws {
        let added = try home.run("roster", as: "alice", ["add", "bob@localhost", "--name", "Bob"])
        #expect(added.status == 0, "\(added)")
        let asked = try home.run("roster", as: "bob")
        #expect(asked.output.contains("alice@localhost asks to see the account's presence"), "\(asked)")
        #expect(try home.run("roster", as: "bob", ["accept", "alice@localhost"]).status == 0)
        let shown = try home.run("roster", as: "alice", ["--json"])
        #expect(shown.output.contains(#""jid":"bob@localhost","name":"Bob""#), "\(shown)")
        #expect(shown.output.contains(#""subscription":"to""#), "\(shown)")
        #expect(try home.run("roster", as: "alice", ["remove", "bob@localhost"]).status == 0)
        #expect(try home.run("roster", as: "alice").output.hasPrefix("no contacts"))
        let stranger = try home.run("roster", as: "alice", ["remove", "bob@localhost"])
        #expect(stranger.status == 1)
        #expect(stranger.complaint == "pushwake: bob@localhost is not in the roster\n")
    }

    @Test("X10 roster add without a name keeps the name and the groups that there are")
    func rosterAgain() async throws {
        let store = try HandlerStore(
            path: home.folder.path + "/other.db", registry: HandlerRegistry(), schemas: Account.schemas)
        let other = try Account(home.configuration(of: "alice"), store: store)
        try await other.connect()
        try await other.request(
            .roster.set(RosterItem(JID("bob@localhost"), name: "Bob", groups: ["Verona"])))
        await other.close()
        #expect(try home.run("roster", as: "alice", ["add", "bob@localhost"]).status == 0)
        let kept = try home.run("roster", as: "alice", ["--json"]).output
        #expect(kept.contains(#""groups":["Verona"],"jid":"bob@localhost","name":"Bob""#), "\(kept)")
        #expect(try home.run("roster", as: "alice", ["add", "bob@localhost", "--name", "Rob"]).status == 0)
        let renamed = try home.run("roster", as: "alice", ["--json"]).output
        #expect(renamed.contains(#""groups":["Verona"],"jid":"bob@localhost","name":"Rob""#), "\(renamed)")
    }

    @Test("X10 roster shows whose answer is awaited, and with --json also the requests")
    func rosterAwaits() throws {
        let added = try home.run("roster", as: "alice", ["add", "bob@localhost"])
        #expect(added.status == 0 && added.complaint.isEmpty, "\(added)")
        let shown = try home.run("roster", as: "alice").output
        #expect(shown == "○ bob@localhost  neither sees the other's presence, was asked for their presence\n")
        #expect(try home.run("roster", as: "alice", ["--json"]).output.contains(#""asked":true"#))
        let requests = try home.run("roster", as: "bob", ["--json"]).output
        #expect(requests == #"{"jid":"alice@localhost","request":true}"# + "\n")
        let server = try home.run("roster", as: "alice", ["add", "localhost"])
        #expect(server.status == 0 && server.complaint.contains("write USER@DOMAIN"), "\(server)")
    }

    @Test("W6 a text behind -- is sent whatever it starts with")
    func dashes() throws {
        let ending = try home.run("send", as: "alice", ["--", "bob@localhost", "--help"])
        #expect(ending.output == "the server has it\n", "\(ending)")
        #expect(try home.listen("bob").shown().hasSuffix("alice@localhost: --help"))
    }

    @Test("X14 two in a room see what each of them types, and the end of input leaves")
    func join() throws {
        let room = "verona@conference.localhost"
        let alice = try home.start("join", as: "alice", [room])
        try alice.complains(until: "joining \(room) as alice …\n")
        try alice.complains(until: "in \(room) as alice")
        let bob = try home.start("join", as: "bob", [room, "--nick", "Robert"])
        try bob.complains(until: "in \(room) as Robert")
        try alice.process.write("hello\n")
        #expect(try bob.shown().hasSuffix("\(room) alice: hello"))
        try bob.process.write("good morning\n")
        #expect(try alice.shown().hasSuffix("\(room) Robert: good morning"))
        for person in [alice, bob] {
            person.process.closeInput()
            #expect(try person.process.waitUntilExit(deadline: .now + .seconds(30)).status == 0)
        }
    }

    @Test("W6 what others write while join shows a room is shown by the next listen")
    func joinLeavesTheRest() throws {
        let room = "padua@conference.localhost"
        let alice = try home.start("join", as: "alice", [room])
        try alice.complains(until: "in \(room) as alice")
        #expect(try home.run("send", as: "bob", ["alice@localhost", "psst"]).status == 0)
        let bob = try home.start("join", as: "bob", [room, "--nick", "Robert"])
        try bob.complains(until: "in \(room) as Robert")
        try bob.process.write("good morning\n")
        // It comes behind what was written to Alice alone.
        #expect(try alice.shown().hasSuffix("\(room) Robert: good morning"))
        for person in [alice, bob] {
            person.process.closeInput()
            #expect(try person.process.waitUntilExit(deadline: .now + .seconds(30)).status == 0)
        }
        #expect(try home.run("login", as: "alice").output.contains("1 message waits to be shown"))
        let listener = try home.listen("alice")
        #expect(try listener.shown().hasSuffix("bob@localhost: psst"))
        listener.process.signal(15)
        #expect(try listener.rest().isEmpty)
    }

    @Test("X14 who is put out of a room gets the reason, and join ends")
    func kicked() async throws {
        let room = try JID("mantua@conference.localhost")
        let store = try HandlerStore(
            path: home.folder.path + "/owner.db", registry: HandlerRegistry(), schemas: Account.schemas)
        let owner = try Account(home.configuration(of: "bob"), store: store)
        try await owner.connect()
        #expect(try await owner.rooms.join(room, as: "Robert").outcome == .joined)
        let alice = try home.start("join", as: "alice", ["\(room)"])
        try alice.complains(until: "in \(room) as alice")
        try await owner.request(.room(room).setRole(.none, of: "alice", reason: "Enough"))
        let ending = try ProgramEnding(of: alice.process)
        #expect(ending.complaint.contains("out of \(room): put out by a moderator (Enough)"), "\(ending)")
        #expect(ending.status == 1)
        let again = try home.run("join", as: "alice", ["\(room)", "--nick", "Robert"])
        #expect(again.complaint.contains("choose another one with --nick"), "\(again)")
        await owner.close()
    }

    @Test(
        "W6 ^C where the password is asked for ends the command, and the terminal shows again what is typed")
    func interruptedPassword() throws {
        let said = try home.type("\u{3}", at: "Password of alice@localhost: ")
        #expect(said.contains("status 130") && said.contains(" echo "), "\(said)")
    }

    @Test("W6 a password that is typed is not shown, and is the one that is used")
    func typedPassword() throws {
        let said = try home.type("\(ClientHome.password)\n", at: "Password of alice@localhost: ")
        #expect(!said.contains(ClientHome.password) && said.contains(" echo "), "\(said)")
        #expect(said.contains("logged in as alice@localhost/") && said.contains("status 0"), "\(said)")
    }

    @Test("X4 a port that wants TLS from the first byte is asked about")
    func directTLSPort() throws {
        let ending = try home.run("login", as: "alice", port: home.server.directTLSPort)
        #expect(ending.status == 1 && ending.complaint.contains("--direct-tls?"), "\(ending)")
    }

    @Test("X6 a wrong password is refused with advice", arguments: ["login", "listen", "roster", "send"])
    func wrongPassword(command: String) throws {
        let words = command == "send" ? ["bob@localhost", "hello"] : []
        let ending = try home.run(command, as: "alice", words, password: "wrong")
        #expect(ending.status == 1, "\(ending)")
        #expect(ending.complaint.contains("check the address and the password"), "\(ending)")
        #expect(ending.complaint.split(separator: "\n").count == 1, "\(ending)")
    }

    @Test("X4 without a connection send keeps the message, and the next command delivers it")
    func noConnection() throws {
        home.server.close(grace: .seconds(5))
        let login = try home.run("login", as: "alice")
        #expect(login.status == 1, "\(login)")
        #expect(login.complaint.contains("127.0.0.1"), "\(login)")
        let ending = try home.run("send", as: "alice", ["bob@localhost", "patience", "--wait", "1"])
        #expect(ending.status == 1, "\(ending)")
        #expect(ending.complaint.contains("is stored and goes out with the next"), "\(ending)")
        try home.server.start()
        #expect(try home.run("login", as: "alice").status == 0)
        #expect(try home.listen("bob").shown().hasSuffix("alice@localhost: patience"))
    }

    @Test("X21 listen waits for a server that is not there yet, and says why")
    func listensLater() throws {
        home.server.close(grace: .seconds(5))
        let listening = try home.start("listen", as: "bob")
        try listening.complains(until: "not connected: 127.0.0.1")
        try listening.complains(until: "trying again in 1 s")
        try home.server.start()
        try listening.complains(until: "listening as")
        #expect(try home.run("send", as: "alice", ["bob@localhost", "at last"]).status == 0)
        #expect(try listening.shown().hasSuffix("alice@localhost: at last"))
    }

    @Test(
        "W6 a wrong command line of the client says what is wrong",
        arguments: [
            (["send", "bob@localhost"], "say to whom and what"),
            (["send", "@", "hello"], "no XMPP address"),
            (["send", "bob@localhost", "hello", "--wait", "0"], "--wait must be"),
            (["roster", "add"], "say whom"),
            (["roster", "marry", "bob@localhost"], "not 'marry'"),
            (["join"], "say which room"),
            (["join", "room@conference.localhost", "--nick", ""], "nick"),
            (["join", "conference.localhost"], "a room's address has a name before the @"),
            (["send", "bob@localhost", "hi", "there"], "'there' is one word too many"),
            (["send", "bob@localhost", ""], "the text is empty"),
            (["send", "bob@localhost", "a\u{1B}b"], "U+001B"),
            (["send", "bob@localhost", "hi", "--password", "x"], "set PUSHWAKE_PASSWORD"),
            (["roster", "add", "bob@localhost", "--name", "--json"], "--name needs a value"),
            (["roster", "--name", "Bob"], "goes with 'add'"),
            (["roster", "remove", "bob@localhost", "--name", "Bob"], "goes with 'add'"),
            (["listen", "--jid", "bob@localhost"], "--jid is given twice"),
            (["listen", "--jsno"], "there is no option --jsno"),
        ])
    func usage(words: [String], complaint: String) throws {
        let ending = try home.run(words[0], as: "alice", Array(words.dropFirst()))
        #expect(ending.status == 64, "\(ending)")
        #expect(ending.complaint.contains(complaint), "\(ending)")
    }
}
