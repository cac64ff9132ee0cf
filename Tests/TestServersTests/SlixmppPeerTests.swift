import FoundationEssentials
import Glibc
import TestThreads
import TestSupport
import Testing
import XMPPCore
import TestServers

@Suite(.ownThread) struct SlixmppPeerTests {
    private let files: CertificateFolder
    private let server: ProsodyServer
    private var soon: ContinuousClock.Instant { .now + .seconds(30) }

    init() throws {
        files = try CertificateFolder()
        server = try files.prosody("prosody")
        for user in ["romeo", "juliet"] { try server.addAccount(user, password: "secret") }
        try server.start()
    }

    private func peer(
        _ user: String, password: String = "secret", trusting trustFile: String? = nil, python: String? = nil
    ) throws -> SlixmppPeer {
        try SlixmppPeer(
            folder: "\(files.folder.path)/\(user)", jid: JID("\(user)@\(files.domain)/peer"),
            password: password, port: server.startTLSPort, trustFile: trustFile ?? files.authority,
            python: python)
    }

    @Test("W6 what one slixmpp peer sends, another receives and writes down, once each and in order")
    func messages() throws {
        let (romeo, juliet) = (try peer("romeo"), try peer("juliet"))
        for peer in [romeo, juliet] { try peer.start() }
        #expect(try romeo.jid.description == "romeo@\(files.domain)/peer")
        try romeo.sendMessages(to: "juliet@\(files.domain)", count: 300, prefix: "burst")
        try romeo.sendMessages(to: "juliet@\(files.domain)/peer", count: 20, rate: 200, prefix: "paced")
        #expect(try romeo.waitUntilSent(prefix: "paced", deadline: soon) == 20)
        #expect(try romeo.waitUntilSent(prefix: "burst", deadline: soon) == 300)
        #expect(romeo.close()?.succeeded == true)
        // A message that the closing peer wrote is with the server; that it has arrived only the log can
        // tell.
        #expect(
            becomesTrue(before: soon) { (try? juliet.log().filter { $0.kind == .received }.count) == 320 })
        let sent = try romeo.log().filter { $0.kind == .sent }
        let received = try juliet.log().filter { $0.kind == .received }
        for prefix in ["burst", "paced"] {
            let expected = (1...(prefix == "burst" ? 300 : 20)).map { "\(prefix)-\($0)" }
            #expect(sent.compactMap(\.id).filter { $0.hasPrefix(prefix) } == expected)
            #expect(received.compactMap(\.id).filter { $0.hasPrefix(prefix) } == expected)
        }
        #expect(
            received.allSatisfy {
                $0.from == "romeo@\(files.domain)/peer" && $0.id?.hasSuffix("-\($0.body ?? "")") == true
            })
        #expect(try romeo.log().last?.kind == .quit)
    }

    @Test("W6 a line that the peer is still writing is not read before its end is there")
    func unfinishedLine() throws {
        let romeo = try peer("romeo")
        let file = "\(romeo.folder)/peer.log"
        let whole = #"{"kind": "quit", "time": 1}"# + "\n"
        try (whole + whole.dropLast(12)).write(toFile: file, atomically: false, encoding: .utf8)
        #expect(try romeo.log().count == 1)
        try (whole + whole).write(toFile: file, atomically: false, encoding: .utf8)
        #expect(try romeo.log().count == 2)
    }

    @Test("W6 the slixmpp peer answers requests as each one wants, and writes down every one")
    func requests() throws {
        let juliet = try peer("juliet")
        try juliet.start()
        let client = try RawClient(server, authority: files.authority)
        #expect(try client.logIn("romeo", "secret") == "success")
        try client.bind("raw")
        for (number, want) in ["result", "error", "silence", "result"].enumerated() {
            try client.write(
                "<iq type='get' id='q\(number)' to='juliet@\(files.domain)/peer'>"
                    + "<question xmlns='urn:durable-handlers:sim:0' n='\(number)' want='\(want)'/></iq>")
        }
        var answers = ""
        for _ in 0..<3 { answers += try client.read(until: "</iq>") }
        #expect(answers.ranges(of: "<answer").count == 2)
        #expect(answers.ranges(of: "<item-not-found").count == 1)
        #expect(answers.contains("id='q1'") && !answers.contains("id='q2'"))
        juliet.close()
        let log = try juliet.log()
        #expect(log.filter { $0.kind == .request }.map(\.want) == ["result", "error", "silence", "result"])
        #expect(log.filter { $0.kind == .request }.allSatisfy { $0.from == "romeo@\(files.domain)/raw" })
        #expect(log.filter { $0.kind == .answer }.map(\.id) == ["q0", "q1", "q3"])
    }

    @Test("W6 a message that bounces is written down as bounced with its condition")
    func bounces() throws {
        let romeo = try peer("romeo")
        try romeo.start()
        try romeo.sendMessages(to: "nobody@\(files.domain)", count: 1, prefix: "lost")
        #expect(becomesTrue(before: soon) { (try? romeo.log().contains { $0.kind == .bounced }) == true })
        let bounced = try #require(try romeo.log().first { $0.kind == .bounced })
        #expect(bounced.id == "lost-1" && bounced.condition == "service-unavailable")
        #expect(try !romeo.log().contains { $0.kind == .received })
    }

    @Test("W6 a stopped sender tells how much it has sent")
    func stopping() throws {
        let romeo = try peer("romeo")
        try romeo.start()
        try romeo.sendMessages(to: "juliet@\(files.domain)", count: 1_000_000, rate: 100, prefix: "many")
        #expect(
            becomesTrue(before: soon) { (try? romeo.log().filter { $0.kind == .sent }.count > 2) == true })
        try romeo.stopSending()
        let count = try romeo.waitUntilSent(prefix: "many", deadline: soon)
        romeo.close()
        #expect(try romeo.log().filter { $0.kind == .sent }.count == count)
    }

    @Test("W6 a slixmpp peer with a wrong password says so")
    func wrongPassword() throws {
        let error = #expect(throws: TestServerError.self) { try peer("romeo", password: "wrong").start() }
        #expect(error?.code == .startFailed)
        #expect(error?.message.contains("refused the login") == true, "\(String(describing: error))")
    }

    @Test("W6 a slixmpp peer does not log in where the certificate is not trusted")
    func untrusted() throws {
        let other = try CertificateFolder()
        let error = #expect(throws: TestServerError.self) {
            try peer("romeo", trusting: other.authority).start()
        }
        #expect(error?.code == .startFailed)
        #expect(error?.message.contains("certificate") == true, "\(String(describing: error))")
    }

    @Test("W6 a Python without slixmpp is distinguished from a failed login, and the remedy is named")
    func noSlixmpp() throws {
        // A machine's own Python may have it, as a package of the system; an environment of this test has none.
        let environment = "\(files.folder.path)/bare"
        for folder in ["", "/bin"] { try #require(mkdir(environment + folder, 0o700) == 0) }
        try files.folder.write(
            "home = /usr/bin\ninclude-system-site-packages = false\n", to: "bare/pyvenv.cfg")
        let python = "\(environment)/bin/python3"
        try #require(symlink("/usr/bin/python3", python) == 0)
        let error = #expect(throws: TestServerError.self) { try peer("romeo", python: python).start() }
        #expect(error?.code == .notInstalled)
        #expect(error?.message.contains("make setup") == true, "\(String(describing: error))")
    }

    @Test("W6 a slixmpp peer whose server dies ends and writes down why")
    func serverDies() throws {
        let romeo = try peer("romeo")
        try romeo.start()
        server.kill()
        #expect(becomesTrue(before: soon) { romeo.processID == nil })
        #expect(try romeo.log().last?.kind == .failed)
        let error = #expect(throws: TestServerError.self) {
            try romeo.sendMessages(to: "juliet@\(files.domain)", count: 1, prefix: "late")
        }
        #expect(error?.code == .wrongState)
    }

    @Test("W6 a closed or killed slixmpp peer leaves no process and keeps its log")
    func leavesNothing() throws {
        let romeo = try peer("romeo")
        for end in [{ _ = romeo.close() }, romeo.kill] {
            try romeo.start()
            let processID = try #require(romeo.processID)
            end()
            #expect(Glibc.kill(processID, 0) != 0)
        }
        #expect(try romeo.log().filter { $0.kind == .ready }.count == 2)
    }
}
