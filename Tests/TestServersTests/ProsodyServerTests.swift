import FoundationEssentials
import Glibc
import TestThreads
import TestSupport
import Testing
import TestServers
import XMPPTestKit

@Suite(.ownThread) struct ProsodyServerTests {
    private let files: CertificateFolder

    init() throws { files = try CertificateFolder() }

    private var soon: ContinuousClock.Instant { .now + .seconds(20) }

    private func client(_ server: ProsodyServer, starttls: Bool = false) throws -> RawClient {
        try RawClient(server, authority: files.authority, starttls: starttls)
    }

    @Test("W6 Prosody starts, offers STARTTLS and direct TLS with its certificate, and names its version")
    func startsAndSpeaks() throws {
        let server = try files.prosody("one")
        try server.start()
        defer { server.close() }
        for starttls in [true, false] {
            let features = try client(server, starttls: starttls).open()
            for expected in [
                "SCRAM-SHA-256", "urn:xmpp:sasl:2", "urn:xmpp:bind:0", "urn:xmpp:sm:3", "urn:xmpp:fast:0",
            ] {
                #expect(
                    features.contains(expected), "STARTTLS \(starttls): \(expected) is missing in \(features)"
                )
            }
        }
        #expect(server.version.wholeMatch(of: /prosody \d+\.\d+\.\d+/) != nil, "\(server.version)")
        #expect(!server.log.contains("\terror\t"), "\(server.log)")
    }

    @Test("W6 two Prosodys run side by side on their own ports with their own accounts")
    func sideBySide() throws {
        let servers = [try files.prosody("one"), try files.prosody("two")]
        try servers[0].addAccount("romeo", password: "first")
        try servers[1].addAccount("romeo", password: "second")
        for server in servers { try server.start() }
        #expect(Set(servers.flatMap { [$0.startTLSPort, $0.directTLSPort, $0.componentPort] }).count == 6)
        #expect(try client(servers[0]).logIn("romeo", "first") == "success")
        #expect(try client(servers[1]).logIn("romeo", "first") == "failure")
        #expect(try client(servers[1]).logIn("romeo", "second") == "success")
    }

    @Test("W6 an account may be made while Prosody runs, with any password")
    func accountWhileRunning() throws {
        let server = try files.prosody("one")
        try server.start()
        let password = #"quote " backslash \ ]] ü"#
        try server.addAccount("a.b-c", password: password)
        #expect(try client(server).logIn("a.b-c", password) == "success")
        #expect(try client(server).logIn("a.b-c", password) == "success", "after it was hashed")
        #expect(try client(server).logIn("a.b-c", "other") == "failure")
    }

    @Test("W6 a closed Prosody leaves no process and no listener, and starts again on its data and ports")
    func closesAndRestarts() throws {
        let server = try files.prosody("one")
        try server.addAccount("romeo", password: "secret")
        try server.start()
        let ports = [server.startTLSPort, server.directTLSPort]
        let processID = try #require(server.processID)
        #expect(try client(server).logIn("romeo", "secret") == "success")
        server.close()
        #expect(server.processID == nil)
        #expect(Glibc.kill(processID, 0) != 0)
        #expect(throws: ChildProcessError.self) { try client(server).open() }

        try server.start()
        #expect([server.startTLSPort, server.directTLSPort] == ports)
        #expect(try client(server).logIn("romeo", "secret") == "success")
        server.kill()
        #expect(server.processID == nil)
        try server.start()
        #expect(try client(server).logIn("romeo", "secret") == "success")
    }

    @Test("W6 a dropped Prosody leaves no process")
    func dropped() throws {
        var server: ProsodyServer? = try files.prosody("one")
        try server?.start()
        let processID = try #require(server?.processID)
        server = nil
        #expect(Glibc.kill(processID, 0) != 0)
    }

    @Test("W6 a frozen Prosody keeps its connections, and answers when it thaws")
    func freezes() throws {
        let server = try files.prosody("one")
        try server.start()
        let client = try client(server)
        _ = try client.open()
        server.freeze()
        try client.write("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='NONE'/>")
        #expect(throws: ChildProcessError.self) {
            _ = try client.read(until: "invalid-mechanism", deadline: .now + .milliseconds(100))
        }
        server.thaw()
        #expect(try client.read(until: "invalid-mechanism").contains("<failure"))
    }

    @Test("W6 the hash of the passwords and the modules follow the options")
    func options() throws {
        var options = ProsodyOptions()
        options.passwordHash = .sha1
        options.removedModules = ["sasl2_fast", "smacks", "sasl2_sm"]
        let server = try files.prosody("one", options: options)
        try server.start()
        let features = try client(server).open()
        #expect(features.contains("SCRAM-SHA-1<"))
        #expect(!features.contains("SCRAM-SHA-256"))
        #expect(!features.contains("urn:xmpp:sm:3"))
        #expect(!features.contains("urn:xmpp:fast:0"))
    }

    @Test("W6 an external component connects with its secret")
    func component() throws {
        var options = ProsodyOptions()
        options.components = ["push.\(files.domain)": "hush"]
        let server = try files.prosody("one", options: options)
        try server.start()
        // Bash speaks TCP without any other program; the handshake is that of XEP-0114 section 3.
        let script = """
            exec 3<>/dev/tcp/127.0.0.1/\(server.componentPort)
            printf "%s" "<stream:stream xmlns='jabber:component:accept' \
            xmlns:stream='http://etherx.jabber.org/streams' to='push.\(files.domain)'>" >&3
            read -r -d '>' declaration <&3
            read -r -d '>' header <&3
            id=$(sed -E "s/.* id='([^']*)'.*/\\1/" <<<"$header")
            printf "<handshake>%s</handshake>" "$(printf "%s" "${id}hush" | sha1sum | cut -c1-40)" >&3
            read -r -d '>' answer <&3
            echo "$answer>"
            """
        let client = try ChildProcess("bash", ["-c", script], output: .pipe)
        #expect(try client.output?.readLine(deadline: soon) == "<handshake/>")
    }

    @Test("W6 a Prosody that cannot start says why")
    func cannotStart() throws {
        var options = ProsodyOptions()
        options.addedConfiguration = "this is no Lua"
        let server = try files.prosody("one", options: options)
        let error = #expect(throws: TestServerError.self) { try server.start() }
        #expect(error?.code == .startFailed)
        #expect(error?.message.contains("prosody.cfg.lua") == true, "\(String(describing: error))")
        #expect(server.processID == nil)
    }

    @Test("W6 a running Prosody is not started twice")
    func notTwice() throws {
        let server = try files.prosody("one")
        try server.start()
        let processID = server.processID
        let error = #expect(throws: TestServerError.self) { try server.start() }
        #expect(error?.code == .wrongState)
        #expect(server.processID == processID)
    }

    @Test("W6 a reserved port is given to nobody else and a listener can be put on it")
    func reservedPorts() throws {
        let ports = try (0..<200).map { _ in try LoopbackPort() }
        #expect(Set(ports.map(\.number)).count == ports.count)
        #expect(!ports.contains { $0.isListening })
    }
}
