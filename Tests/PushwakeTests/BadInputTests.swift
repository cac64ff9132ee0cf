import FoundationEssentials
import Glibc
import Handlers
import PushwakeCommands
import Simulation
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import TestServers
import XMPPTestKit

/// Bad input ends a command with a sentence on standard error that says what to do, status 1, and nothing lost.
@Suite(.ownThread, .timeLimit(.minutes(3)))
struct BadInputTests {
    private let folder: TemporaryFolder
    private var store: String { folder.path + "/store.db" }

    init() throws { folder = try TemporaryFolder() }

    /// Runs a worker, or another command, to its end.
    private func run(
        _ command: String = "worker", on world: EmbeddedWorld? = nil, port: UInt16? = nil,
        password: String? = nil, options: [String] = []
    ) throws -> ProgramEnding {
        let process = try ChildProcess(
            BuiltProduct.path("pushwake"),
            [
                command, "--store", store, "--jid", "alice@localhost", "--peer", "bob@localhost/peer",
                "--host", "127.0.0.1",
                "--port", String(port ?? world?.port ?? 1), "--ca", world?.authorityFile ?? "none",
            ] + options,
            environment: .inheriting(["PUSHWAKE_PASSWORD": password ?? world?.password ?? "none"]),
            input: .pipe,
            errors: .pipe)
        return try ProgramEnding(of: process)
    }

    private func expect(
        _ ending: ProgramEnding, says words: String..., sourceLocation: SourceLocation = #_sourceLocation
    ) {
        #expect(ending.status == 1, "\(ending)", sourceLocation: sourceLocation)
        #expect(ending.complaint.hasPrefix("pushwake: "), "\(ending)", sourceLocation: sourceLocation)
        // One sentence, not a dump.
        #expect(
            ending.complaint.split(separator: "\n").count == 1, "\(ending)", sourceLocation: sourceLocation)
        for word in words {
            #expect(ending.complaint.contains(word), "\(ending)", sourceLocation: sourceLocation)
        }
    }

    /// A store with a session in it and a request that waits.
    private func makeStore(on world: EmbeddedWorld) throws {
        let main = try ChildProcess(
            BuiltProduct.path("pushwake"),
            [
                "main", "--store", store, "--jid", "alice@localhost", "--peer", world.peer.description,
                "--host",
                "127.0.0.1", "--port", String(world.port), "--ca", world.authorityFile,
            ], environment: .inheriting(["PUSHWAKE_PASSWORD": world.password]), input: .pipe, output: .pipe)
        while let line = try main.output?.readLine(deadline: .now + .seconds(30)), line != "connected" {}
        main.killAndWait()
    }

    private func contents() throws -> [UInt8] { try [UInt8](Data(contentsOf: URL(filePath: store))) }

    // MARK: The account

    @Test(
        "X4 a port without a host is refused and not ignored",
        arguments: [["--port", "5299"], ["--direct-tls"]])
    func portWithoutHost(options: [String]) throws {
        let error = #expect(throws: UsageError.self) {
            try ConnectionOptions(
                Arguments(["--jid", "alice@localhost"] + options, of: "login"), role: .main)
        }
        #expect(error?.description.contains("add --host") == true)
    }

    @Test("X6 a wrong password is refused with advice")
    func wrongPassword() throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        expect(
            try run(on: world, password: "wrong"), says: "refused the login of alice@localhost",
            "check the address and the password")
    }

    @Test(
        "X16 with --log-xml a command shows what it decides and the XML in both directions, without the password"
    )
    func logsXML() throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        let ending = try run(on: world, options: ["--log-xml"])
        #expect(ending.status == 0)
        for words in [
            "info connection alice@localhost: connected to ",
            "info login alice@localhost: logged in by SCRAM-",
            "trace xml alice@localhost: sent <auth ", "received <success ",
            "info session alice@localhost: bound ",
        ] {
            #expect(ending.complaint.contains(words), "\(words)")
        }
        let password = Data(world.password.utf8)
        #expect(!ending.complaint.contains(world.password))
        #expect(!ending.complaint.contains(password.base64EncodedString()))
        #expect(!ending.complaint.contains(">bixhPWFsaWNl") && !ending.complaint.contains("v="))
    }

    @Test("X4 an unreachable server is named")
    func unreachable() throws {
        // A port that was free a moment ago: nobody listens.
        let world = try EmbeddedWorld(folder: folder.path)
        let port = world.port
        world.close()
        expect(try run(on: world, port: port), says: "127.0.0.1", String(port))
    }

    @Test(
        "X5 a certificate that cannot be trusted is refused and says why",
        arguments: [
            (TestCertificates.Flaw.expired, "expired"), (.wrongName, "localhost"),
            (.untrustedAuthority, "localhost"),
            (.selfSigned, "localhost"),
        ])
    func certificate(flaw: TestCertificates.Flaw, word: String) throws {
        let world = try EmbeddedWorld(folder: folder.path, flaw: flaw)
        defer { world.close() }
        expect(try run(on: world), says: "certificate", word)
    }

    @Test("X3 a server that does not speak XMPP is refused")
    func malformedXML() throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        let listener = try GarbageServer("HTTP/1.1 400 Bad Request\r\n\r\n<html><br></html>")
        expect(try run(on: world, port: listener.port), says: "stream")
    }

    // MARK: The store

    @Test("H18 a locked store is waited for, then named, and is whole afterwards")
    func locked() throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        try makeStore(on: world)
        let other = try HandlerStore(path: store, registry: HandlerRegistry())
        try other.step { _ in
            expect(try run(on: world), says: "locked by another process", store)
        }
        #expect(try run(on: world).status == 0)
    }

    @Test("H18 a store that cannot be written is named and unchanged")
    func readOnly() throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        // A folder in the file's place cannot be written by anyone, a superuser included.
        try FileManager.default.createDirectory(atPath: store, withIntermediateDirectories: false)
        expect(try run(on: world), says: store)
    }

    @Test("H18 a damaged store is named, left as it is, and not written over")
    func corrupt() throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        let garbage =
            Array("this is no database, but someone's notes\n".utf8) + [UInt8](repeating: 7, count: 5000)
        try Data(garbage).write(to: URL(filePath: store))
        expect(try run(on: world), says: "damaged or no SQLite database", "restore it")
        #expect(try contents() == garbage)
    }

    @Test("H11 a store of a newer version is refused, and nothing in it is changed")
    func newerVersion() throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        try makeStore(on: world)
        let raise = "UPDATE module_schema SET version = version + ? WHERE module = 'xmpp-account'"
        try HandlerStore(path: store, registry: HandlerRegistry()).step { step in
            _ = try step.execute(raise, 90)
        }
        expect(try run(on: world), says: "newer version", "update the program")
        try HandlerStore(path: store, registry: HandlerRegistry()).step { step in
            _ = try step.execute(raise, -90)
        }
        #expect(try run(on: world).status == 0)
    }

    // MARK: Handlers

    @Test("H12 a store with a handler that this program does not know says so at start and keeps the row")
    func unknownHandler() throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        try makeStore(on: world)
        let other = try HandlerStore(path: store, registry: HandlerRegistry())
        let id = try other.step { step in try step.bind(Stranger().durable) }
        expect(try run("main", on: world), says: "test.stranger", "start the program that bound")
        let row = try other.step { step in
            try step.first("SELECT name FROM handler WHERE id = ?", id) { (row) throws(HandlerError) in
                row.text(0)
            }
        }
        #expect(row == "test.stranger")
    }

    private struct Stranger: Handler {
        static let id = "test.stranger"
        func run(_ call: borrowing Call<Int>) throws {}
    }

    // MARK: The command line

    @Test(
        "W6 a folder that cannot be made is named, with what to do",
        arguments: ["simulate", "backlog", "storm"])
    func folder(command: String) throws {
        let ending = try ProgramEnding(
            of: "pushwake", [command, "--keep", "/proc/x"], within: .seconds(10))
        #expect(ending.status == 1)
        #expect(
            ending.complaint.contains(
                "the folder /proc/x cannot be made; let this user write there, or name another one with --keep"
            ), "\(ending)")
    }

    @Test(
        "W6 a wrong command line has status 64 and says what is wrong",
        arguments: [
            (["frobnicate"], "there is no command 'frobnicate'"),
            (["simulate", "--rounds", "x"], "--rounds must be"),
            (["simulate", "--server", "sendmail"], "--server must be"),
            (["simulate", "--server", "ejabberd", "--faults"], "--faults cannot be had with ejabberd"),
            (["worker"], "is missing"),
            (["inspect", "app.db"], "'app.db' is no option; name it with --store"),
            (["inspect", "--stoer"], "there is no option --stoer"),
            (["simulate", "extra"], "'extra' is no option"),
            (["simulate", "--faults=no"], "--faults takes no value"),
            (["simulate", "--worker-memory", "0"], "from 1 to 1000000, not '0'"),
            (["simulate", "--worker-time", "31"], "from 1 to 30, not '31'"),
            (["failpoints", "--bogus"], "there is no option --bogus"),
            (["inspect", "--store=", "--json"], "--store needs a value"),
            (["inspect", "--store", ""], "--store needs a value"),
            (["inspect", "--store", "--json"], "one that begins with -- is written --store=--json"),
            (["login", "--jid", "alice@localhost", "--host", ""], "--host needs a value"),
            (["login", "--jid", "localhost"], "--jid 'localhost' names a server and no user of it"),
            (["--version", "extra"], "'extra' is no option"),
        ])
    func usage(words: [String], complaint: String) throws {
        let ending = try ProgramEnding(of: "pushwake", words, within: .seconds(10))
        #expect(ending.status == 64)
        #expect(ending.complaint.contains(complaint), "\(ending)")
    }
}

/// Accepts one connection and sends the same text, whatever it is sent.
private final class GarbageServer {
    let port: UInt16
    private let descriptor: Int32

    init(_ text: String) throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        descriptor = listener
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        port = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(listener, address, length)
                listen(listener, 1)
                getsockname(listener, address, &length)
            }
            return UInt16(bigEndian: pointer.pointee.sin_port)
        }
        _ = try WorkerThread("reader") {
            let client = accept(listener, nil, nil)
            guard client >= 0 else { return }
            let bytes = Array(text.utf8)
            _ = send(client, bytes, bytes.count, Int32(MSG_NOSIGNAL))
            // Until the other side has read and gone.
            var byte: UInt8 = 0
            while recv(client, &byte, 1, 0) > 0 {}
            close(client)
        }
    }

    deinit {
        shutdown(descriptor, Int32(SHUT_RDWR))
        close(descriptor)
    }
}
