import FoundationEssentials
import TestThreads
import Testing
import XMPPTestKit

@testable import pushwake

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
        #expect(ending.output.contains("features; 0 contacts"))
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

    @Test("X12 send without --receipt is done when the server has the message, which waits for the recipient")
    func offline() throws {
        let ending = try home.run("send", as: "alice", ["bob@localhost", "two\nlines"])
        #expect(ending.output == "the server has it\n", "\(ending)")
        let listener = try home.listen("bob", ["--json"])
        let line = try listener.shown()
        #expect(
            line.contains(#""body":"two\nlines""#) && line.contains(#""peer":"alice@localhost""#), "\(line)")
    }

    @Test("W6 a listen that is killed again and again shows each message once, in order")
    func killedListen() throws {
        var shown: [String] = []
        for round in 0..<4 {
            let listener = try home.listen("bob")
            for number in 0..<2 {
                let text = "message \(round)-\(number)"
                #expect(try home.run("send", as: "alice", ["bob@localhost", text]).status == 0)
                if number == 0 || round == 3 { shown.append(try listener.shown()) }
            }
            // The last one may be on its way, stored, or shown already when the process dies.
            listener.process.killAndWait()
            shown += try listener.rest()
        }
        let last = try home.listen("bob")
        last.process.signal(15)
        shown += try last.rest()
        let texts = shown.map { $0.split(separator: ": ").last.map(String.init) ?? "" }
        let expected = (0..<4).flatMap { round in (0..<2).map { "message \(round)-\($0)" } }
        #expect(Set(texts) == Set(expected), "\(shown)")
        // One that was written to the terminal and not yet marked may be shown by the next process once more.
        #expect(texts.count <= expected.count + 3)
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
    }

    @Test("X14 two in a room see what each of them types, and the end of input leaves")
    func join() throws {
        let room = "verona@conference.localhost"
        let alice = try home.start("join", as: "alice", [room])
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
        try home.server.start(deadline: .now + .seconds(30))
        #expect(try home.run("login", as: "alice").status == 0)
        #expect(try home.listen("bob").shown().hasSuffix("alice@localhost: patience"))
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
            (["join", "conference.localhost"], "ROOM@SERVICE"),
            (["listen", "--jsno"], "there is no option --jsno"),
        ])
    func usage(words: [String], complaint: String) throws {
        let ending = try home.run(words[0], as: "alice", Array(words.dropFirst()))
        #expect(ending.status == 64, "\(ending)")
        #expect(ending.complaint.contains(complaint), "\(ending)")
    }
}

/// A Prosody with two accounts, and a store for each.
private final class ClientHome: Sendable {
    static let password = "correct horse battery staple"
    let folder: TestFolder
    let server: ProsodyServer
    private let authorityFile: String

    init() throws {
        folder = try TestFolder()
        let certificates = try TestCertificates(in: folder.path)
        authorityFile = certificates.authorityFile
        let certificate = try certificates.makeServerCertificate(for: ["localhost"])
        server = try ProsodyServer(
            folder: folder.path + "/server", domain: "localhost",
            certificateFile: certificate.certificateFile, keyFile: certificate.keyFile)
        for user in ["alice", "bob"] { try server.addAccount(user, password: Self.password) }
        try server.start(deadline: .now + .seconds(30))
    }

    deinit { server.close(grace: .seconds(5)) }

    struct Ending {
        var status: Int32?
        var output: String
        var complaint: String
    }

    /// A command that runs.
    struct Running {
        let process: ChildProcess

        /// The next message that it shows.
        func shown() throws -> String {
            try #require(try process.output?.readLine(deadline: .now + .seconds(30)))
        }

        /// What it has shown beyond that, up to its end.
        func rest() throws -> [String] {
            try (process.output?.readToEnd(deadline: .now + .seconds(30)) ?? "").split(separator: "\n")
                .map(String.init)
        }

        func complains(until words: String) throws {
            _ = try process.errors?.readText(until: words, deadline: .now + .seconds(30))
        }
    }

    func start(
        _ command: String, as user: String, _ words: [String] = [], password: String = ClientHome.password
    ) throws -> Running {
        Running(
            process: try ChildProcess(
                BuiltProduct.path("pushwake"),
                [
                    command, "--jid", "\(user)@localhost", "--store", "\(folder.path)/\(user).db",
                    "--host", "127.0.0.1", "--port", String(server.startTLSPort), "--ca", authorityFile,
                ] + words, environment: .inheriting(["PUSHWAKE_PASSWORD": password]), input: .pipe,
                output: .pipe, errors: .pipe))
    }

    /// Runs a command to its end.
    func run(
        _ command: String, as user: String, _ words: [String] = [], password: String = ClientHome.password
    ) throws -> Ending {
        let running = try start(command, as: user, words, password: password).process
        let output = try running.output?.readToEnd(deadline: .now + .seconds(60)) ?? ""
        let complaint = try running.errors?.readToEnd(deadline: .now + .seconds(10)) ?? ""
        return Ending(
            status: try running.waitUntilExit(deadline: .now + .seconds(10)).status, output: output,
            complaint: complaint)
    }

    func listen(_ user: String, _ words: [String] = []) throws -> Running {
        let running = try start("listen", as: user, words)
        try running.complains(until: "listening as")
        return running
    }
}
