import FoundationEssentials
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules

/// What the commands show of what comes, and what they do beside each other, against a Prosody.
@Suite(.ownThread, .timeLimit(.minutes(3)))
struct ClientShownTests {
    private let home: ClientHome

    init() throws { home = try ClientHome() }

    /// An account of the library, for what the command does not send.
    private func account(_ user: String) async throws -> Account {
        let store = try HandlerStore(
            path: home.folder.path + "/library-\(user).db", registry: HandlerRegistry(),
            schemas: Account.schemas)
        let account = try Account(home.configuration(of: user), store: store)
        try await account.connect()
        return account
    }

    @Test(
        "X37 listen shows what a message is about, its subject, and the time with its zone; no text steers the terminal"
    )
    func kinds() async throws {
        let listener = try home.start("listen", as: "alice", environment: ["TZ": "Asia/Kolkata"])
        try listener.complains(until: "listening as")
        let bob = try await account("bob")
        let alice = try JID("alice@localhost")
        func send(_ body: String?, _ children: [Element] = []) async throws -> String {
            _ = try await bob.send(Message(to: alice, id: StanzaID.random(), body: body, children: children))
            let line = try listener.shown()
            let parts = line.split(separator: " ", maxSplits: 1).map(String.init)
            #expect(parts[0].hasSuffix("+05:30") && parts[0].utf8.count == 22, "\(line)")
            return parts[1]
        }
        let subject = Element("subject", namespace: Namespaces.client, text: "Night")
        let encrypted = Element("encrypted", namespace: "eu.siacs.conversations.axolotl")
        #expect(try await send("\u{202E}But soft", [subject]) == #"bob@localhost: [Night] \u{202E}But soft"#)
        #expect(
            try await send("But\nlight", [MessageCorrection(of: "m1").element])
                == "bob@localhost corrects a message: But")
        #expect(try listener.shown() == "    light")
        #expect(
            try await send(nil, [MessageReactions(["👍", "🎉"], to: "m1").element])
                == "bob@localhost reacts: 👍 🎉")
        #expect(
            try await send(nil, [MessageReactions([], to: "m1").element])
                == "bob@localhost takes a reaction back")
        #expect(
            try await send("gone", [MessageRetraction(of: "m1").element])
                == "bob@localhost retracts a message")
        #expect(
            try await send("no OMEMO?", [encrypted])
                == "bob@localhost (encrypted, not readable here): no OMEMO?")
        await bob.close()
        listener.process.signal(15)
    }

    @Test(
        "X37 X14 a private message of a room is shown as one, and an invitation once, also one that came before"
    )
    func roomsInListen() async throws {
        let (bob, room) = (try await account("bob"), try JID("verona@conference.localhost"))
        #expect(try await bob.rooms.join(room, as: "Robert").outcome == .joined)
        try await bob.perform {
            try bob.rooms.invite(JID("alice@localhost"), into: room, reason: "Come", in: $0)
        }
        try await bob.caughtUp()
        for isFirst in [true, false] {
            let listener = try home.listen("alice")
            if isFirst {
                let shown = try listener.shown()
                #expect(
                    shown.hasSuffix(
                        "\(room) Robert invites into the room (Come): 'pushwake join \(room)'"), "\(shown)")
            }
            #expect(try home.run("send", as: "bob", ["alice@localhost", "next"], store: "other").status == 0)
            let shown = try listener.shown()
            #expect(shown.hasSuffix("bob@localhost: next"), "\(shown)")
            listener.process.killAndWait()
        }
        let alice = try home.start("join", as: "alice", ["\(room)", "--json"])
        try alice.complains(until: "in \(room) as alice")
        try alice.complains(until: "there: Robert, alice")
        try await bob.send(Message(to: room.with(resource: "alice"), body: "hush"))
        let line = try alice.shown()
        for part in [#""private":true"#, #""nick":"Robert""#, #""body":"hush""#] {
            #expect(line.contains(part), "\(line)")
        }
        try await bob.perform { try bob.rooms.setSubject("Masks", of: room, in: $0) }
        try alice.complains(until: "Robert sets the subject: Masks")
        try await bob.perform { _ = try bob.rooms.leave(room, in: $0) }
        try alice.complains(until: "Robert goes: left")
        await bob.close()
        alice.process.closeInput()
        #expect(try alice.process.waitUntilExit(deadline: .now + .seconds(30)).status == 0)
    }

    @Test("W4 X10 X14 roster and join beside a listen of the same account go out over its stream")
    func besideListen() async throws {
        let owner = try home.listen("alice")
        let added = try home.run("roster", as: "alice", ["add", "bob@localhost", "--name", "Bob"])
        #expect(added.status == 0, "\(added)")
        #expect(try home.run("roster", as: "alice").output.contains("bob@localhost (Bob)"))
        let stranger = try home.run("roster", as: "alice", ["remove", "nobody@localhost"])
        #expect(stranger.complaint == "pushwake: nobody@localhost is not in the roster\n")
        let room = "padua@conference.localhost"
        let alice = try home.start("join", as: "alice", [room])
        try alice.complains(until: "in \(room) as alice")
        let bob = try home.start("join", as: "bob", [room, "--nick", "Robert"])
        try bob.complains(until: "in \(room) as Robert")
        try alice.process.write("hello\n")
        #expect(try bob.shown().hasSuffix("\(room) alice: hello"))
        try bob.process.write("good morning\n")
        #expect(try alice.shown().hasSuffix("\(room) Robert: good morning"))
        // What is not of the room is shown by listen, and nothing of the room is.
        #expect(try home.run("send", as: "bob", ["alice@localhost", "psst"], store: "other").status == 0)
        #expect(try owner.shown().hasSuffix("bob@localhost: psst"))
        // Once listen has ended, join has the stream.
        owner.process.killAndWait()
        try bob.process.write("still there?\n")
        #expect(try alice.shown().hasSuffix("\(room) Robert: still there?"))
        for person in [alice, bob] {
            person.process.closeInput()
            #expect(try person.process.waitUntilExit(deadline: .now + .seconds(30)).status == 0)
        }
    }

    @Test(
        "X37 a short command leaves nothing of the account available",
        arguments: ["login", "send", "roster", "refused"])
    func leavesNoSession(command: String) async throws {
        let other = try await account("alice")
        let words =
            ["send": ["bob@localhost", "hello"], "refused": ["remove", "nobody@localhost"]][command] ?? []
        let ending = try home.run(command == "refused" ? "roster" : command, as: "alice", words)
        #expect(ending.status == (command == "refused" ? 1 : 0), "\(ending)")
        try await eventually("nobody is there but this one") {
            try await other.caughtUp()
            return try other.store.read { try other.roster.presence(of: JID("alice@localhost"), in: $0) }
                .count <= 1
        }
        await other.close()
    }

    @Test(
        "X14 a room with a password is joined with that of a file or of an invitation, and without says what to do"
    )
    func password() async throws {
        let (bob, room) = (try await account("bob"), try JID("mantua@conference.localhost"))
        #expect(try await bob.rooms.join(room, as: "Robert", configures: true).outcome == .joined)
        let form = DataForm(
            .submit,
            [
                .init("muc#roomconfig_passwordprotectedroom", "1"),
                .init("muc#roomconfig_roomsecret", "rosaline"),
            ])
        try await bob.request(.room(room).configure(form))
        let refused = try home.run("join", as: "alice", ["\(room)"])
        #expect(refused.status == 1 && refused.complaint.contains("--room-password-file"), "\(refused)")
        let file = home.folder.path + "/room-password"
        try Data("rosaline\n".utf8).write(to: URL(filePath: file))
        func joins(_ words: [String]) throws {
            let alice = try home.start("join", as: "alice", ["\(room)"] + words)
            try alice.complains(until: "in \(room) as alice")
            alice.process.closeInput()
            #expect(try alice.process.waitUntilExit(deadline: .now + .seconds(30)).status == 0)
        }
        try joins(["--room-password-file", file])
        try await bob.perform { try bob.rooms.invite(JID("alice@localhost"), into: room, in: $0) }
        let listener = try home.listen("alice")
        #expect(try listener.shown().contains("invites into the room"))
        listener.process.killAndWait()
        try joins([])
        await bob.close()
    }
}
