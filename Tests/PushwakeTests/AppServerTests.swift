import Foundation
import Glibc
import Handlers
import PushwakeCommands
import Simulation
import Synchronization
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import TestServers
import XMPPTestKit

/// A server that wakes a worker as a phone's platform does, with real servers and processes.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(10)))
struct AppServerTests {
    private let home: PushHome

    init() throws { home = try PushHome() }

    @Test(
        "W1 W2 a message for an account whose program is gone wakes a worker, which stores it; strangers wake nobody",
        arguments: ServerKind.allCases)
    func wakes(kind: ServerKind) throws {
        let server = try home.start(kind)
        defer { server.close() }
        let service = try home.appServer(
            server, worker: [BuiltProduct.path("pushwake")] + home.worker(server))
        #expect(try service.next("connected") != nil)
        // Main registers for pushes, and goes without a word to the server.
        let main = try ChildProcess(
            BuiltProduct.path("pushwake"),
            home.arguments("main", server) + [
                "--interval", "60000", "--push-service", PushHome.service, "--push-node", "phone-1",
            ], environment: .inheriting(home.secrets), input: .pipe, output: .pipe)
        _ = try main.output?.readLine(deadline: .now + .seconds(30)) { $0 == "connected" }
        main.signal(SIGKILL)
        _ = try main.waitUntilExit(deadline: .now + .seconds(10))

        try home.say("hello worker", server)
        #expect(try service.next("push")?.node == "phone-1")
        // An earlier push, for what main left behind, may have woken one before; the push that counts may come before
        // that worker has ended, and is then told before its end.
        repeat {
            #expect(try service.next("started")?.node == "phone-1")
            let ended = try #require(try service.next("ended"))
            #expect(ended.status == 0, "\(ended)")
        } while try home.bodies().isEmpty
        #expect(try home.bodies() == ["hello worker"])

        for (node, secret) in [("phone-1", "right"), ("phone-1", "wrong"), ("phone-9", "right")] {
            #expect(try home.publish(node, secret, server) == .itemNotFound)
            #expect(try service.next("refused")?.from?.hasPrefix("eve@localhost/") == true)
        }
        service.process.signal(SIGTERM)
        let rest = try service.rest()
        #expect(!rest.contains { $0.event == "started" }, "\(rest)")
    }

    @Test(
        "W2 an app server whose server restarts connects again; a wrong secret is reported",
        arguments: ServerKind.allCases)
    func reconnects(kind: ServerKind) throws {
        let server = try home.start(kind)
        defer { server.close() }
        let service = try home.appServer(server, worker: ["true"])
        #expect(try service.next("connected") != nil)
        server.close()
        #expect(try service.next("disconnected") != nil)
        try server.start()
        #expect(try service.next("connected") != nil)
        service.process.signal(SIGTERM)

        let wrong = try home.appServer(server, worker: ["true"], secret: "wrong")
        let reason = try wrong.next("disconnected")?.reason ?? ""
        #expect(!reason.isEmpty && !reason.contains("hush"), "\(reason)")
        wrong.process.signal(SIGTERM)
    }

    @Test(
        "W1 W2 W6 workers woken by the server's pushes, killed at random, lose and repeat nothing",
        arguments: ServerKind.allCases)
    func simulation(kind: ServerKind) throws {
        let world = try RealServerWorld(kind, folder: home.folder.path, hasPush: true)
        defer { world.close() }
        let simulation = SimulationRun(
            .init(rounds: 4, kills: 10, seed: 21), world: world, folder: home.folder.path,
            program: try BuiltProduct.path("pushwake"), complain: { print($0) })
        let verdict = try simulation.run { _, _ in }
        #expect(verdict.isGood, "\(verdict)")
        // The last worker of each round, unless the peer was made to pause: nothing is pushed then.
        #expect(verdict.pushes > 0)
        #expect(world.push?.refused == 0)
    }

    // MARK: The starter

    @Test("W2 pushes during a worker's run lead to one more run, however many they were")
    func coalesces() throws {
        let log = StarterLog()
        let gate = home.folder.path + "/gate"
        mkfifo(gate, 0o600)
        let starter = WorkerStarter(["cat", gate], limit: .seconds(60)) { log.add($0) }
        try starter.wake("a")
        try log.wait { $0.started == 1 }
        for _ in 0..<50 { try starter.wake("a") }
        // The worker reads the gate until somebody has opened and closed it.
        try Data().write(to: URL(filePath: gate))
        try log.wait { $0.ended == 1 && $0.started == 2 }
        try Data().write(to: URL(filePath: gate))
        try log.wait { $0.ended == 2 }
        try starter.wake("a")
        try log.wait { $0.started == 3 }
        try Data().write(to: URL(filePath: gate))
        try log.wait { $0.ended == 3 }
        #expect(log.counts.started == 3)
    }

    @Test(
        "W3 a worker that takes too long is killed; a program that does not exist is reported, and the next push tries again"
    )
    func limits() throws {
        let log = StarterLog()
        let slow = WorkerStarter(["sleep", "600"], limit: .milliseconds(50)) { log.add($0) }
        try slow.wake("a")
        try log.wait { $0.overtime == 1 && $0.killed == 1 }
        let missing = WorkerStarter([home.folder.path + "/gone"], limit: .seconds(1)) { log.add($0) }
        try missing.wake("a")
        try log.wait { $0.failed == 1 }
        try missing.wake("a")
        try log.wait { $0.failed == 2 }
    }

    // MARK: Files

    @Test("W2 a file of devices that others can read is refused, and so is one that cannot be understood")
    func devices() throws {
        let open = home.folder.path + "/open.json"
        try Data("[]".utf8).write(to: URL(filePath: open))
        chmod(open, 0o644)
        #expect(try home.complaint(devices: open).contains("chmod 600"))
        chmod(open, 0o600)
        try Data("{}".utf8).write(to: URL(filePath: open))
        #expect(try home.complaint(devices: open).contains("must be a JSON list"))
        try Data(#"[{"account":"a@b","node":"","secret":"x"}]"#.utf8).write(to: URL(filePath: open))
        chmod(open, 0o600)
        #expect(try home.complaint(devices: open).contains("needs a node, a secret and an account"))
    }
}

/// Counts what a starter tells.
private final class StarterLog: Sendable {
    struct Counts {
        var started = 0
        var ended = 0
        var killed = 0
        var overtime = 0
        var failed = 0
    }

    private let state = Mutex(Counts())
    var counts: Counts { state.withLock { $0 } }

    func add(_ event: WorkerStarter.Event) {
        state.withLock { counts in
            switch event {
            case .started: counts.started += 1
            case .ended(_, _, let ending):
                counts.ended += 1
                if ending.signal == SIGKILL { counts.killed += 1 }
            case .overtime: counts.overtime += 1
            case .failed: counts.failed += 1
            }
        }
    }

    func wait(_ condition: (Counts) -> Bool) throws {
        let end = ContinuousClock.now + .seconds(30)
        while !condition(counts) {
            try #require(ContinuousClock.now < end, "it has not come: \(counts)")
            usleep(1000)
        }
    }
}

/// Servers with a component for pushes, and what an app server needs.
private final class PushHome: Sendable {
    static let service = "push.localhost"
    static let password = "correct horse battery staple"
    let folder: TemporaryFolder
    let store: String
    let secrets = [
        "PUSHWAKE_PASSWORD": password, "PUSHWAKE_PUSH_SECRET": "right", "PUSHWAKE_COMPONENT_SECRET": "hush",
    ]
    private let certificate: TestCertificates.ServerCertificate
    private let authority: String

    init() throws {
        folder = try TemporaryFolder()
        store = folder.path + "/store.db"
        let certificates = try TestCertificates(in: folder.path)
        certificate = try certificates.makeServerCertificate(for: ["localhost"])
        authority = certificates.authorityFile
    }

    func start(_ kind: ServerKind) throws -> any TestServer {
        let server = try kind.makeServer(
            folder: folder.path + "/server", certificate: certificate,
            prosody: { $0.components = [Self.service: "hush"] },
            ejabberd: { $0.components = [Self.service: "hush"] })
        for user in ["alice", "bob", "eve"] { try server.addAccount(user, password: Self.password) }
        try server.start()
        return server
    }

    // MARK: Processes

    func arguments(_ command: String, _ server: any TestServer) -> [String] {
        [
            command, "--store", store, "--jid", "alice@localhost", "--peer", "bob@localhost/peer", "--host",
            "127.0.0.1", "--port", String(server.startTLSPort), "--ca", authority,
        ]
    }

    func worker(_ server: any TestServer) -> [String] { arguments("worker", server) }

    struct Line: Decodable {
        var event: String
        var node: String?
        var from: String?
        var reason: String?
        var status: Int32?
        var pid: Int32?
    }

    struct Service {
        let process: ChildProcess

        /// The next line of that kind; the others before it are passed over.
        func next(_ event: String) throws -> Line? {
            var others: [String] = []
            do {
                while let text = try process.output?.readLine(deadline: .now + .seconds(60)) {
                    let line = try? JSONDecoder().decode(Line.self, from: Data(text.utf8))
                    // A worker writes to the same place.
                    if let line, line.event == event { return line }
                    others.append(text)
                }
            } catch {
                Issue.record("There was no '\(event)' but: \(others)")
                throw error
            }
            return nil
        }

        func rest() throws -> [Line] {
            (try process.output?.readToEnd(deadline: .now + .seconds(30)) ?? "").split(separator: "\n")
                .compactMap {
                    try? JSONDecoder().decode(Line.self, from: Data($0.utf8))
                }
        }
    }

    func appServer(_ server: any TestServer, worker: [String], secret: String = "hush") throws -> Service {
        let devices = folder.path + "/devices.json"
        try Data(#"[{"account":"alice@localhost","node":"phone-1","secret":"right"}]"#.utf8).write(
            to: URL(filePath: devices))
        chmod(devices, 0o600)
        return Service(
            process: try ChildProcess(
                BuiltProduct.path("pushwake"),
                [
                    "app-server", "--component", Self.service, "--port", String(server.componentPort),
                    "--devices",
                    devices, "--json", "--",
                ] + worker,
                environment: .inheriting(secrets.merging(["PUSHWAKE_COMPONENT_SECRET": secret]) { $1 }),
                output: .pipe))
    }

    func complaint(devices: String) throws -> String {
        let ending = try ProgramEnding(
            of: "pushwake", ["app-server", "--component", Self.service, "--devices", devices, "--", "true"],
            environment: secrets)
        #expect(ending.status == 1)
        return ending.complaint
    }

    /// What workers have stored.
    func bodies() throws -> [String] {
        try StoreReader(path: store).read { snapshot in
            try snapshot.all("SELECT body FROM sim_received") { (row) throws(HandlerError) in row.text(0) }
        }
    }

    /// Bob says something to alice.
    func say(_ text: String, _ server: any TestServer) throws {
        let process = try ChildProcess(
            BuiltProduct.path("pushwake"),
            [
                "send", "alice@localhost", text, "--jid", "bob@localhost", "--store", folder.path + "/bob.db",
                "--host",
                "127.0.0.1", "--port", String(server.startTLSPort), "--ca", authority,
            ], environment: .inheriting(secrets))
        #expect(try process.waitUntilExit(deadline: .now + .seconds(60)).status == 0)
    }

    /// Eve, who is no server, publishes what a server would.
    ///
    /// - Returns: With what she is refused.
    func publish(_ node: String, _ secret: String, _ server: any TestServer) throws -> OpenName<StanzaError>?
    {
        var configuration = AccountConfiguration(jid: try JID("eve@localhost"), password: Self.password)
        configuration.server = .init(host: "127.0.0.1", port: server.startTLSPort, security: .startTLS)
        configuration.trust = .file(path: authority)
        let store = try HandlerStore(
            path: folder.path + "/eve.db", registry: .discovered(), schemas: Account.schemas)
        let account = try Account(configuration, store: store)
        let payload = try Element(
            parsing: """
                <pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='\(node)'><item>\
                <notification xmlns='urn:xmpp:push:0'/></item></publish><publish-options>\
                <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
                <value>http://jabber.org/protocol/pubsub#publish-options</value></field>\
                <field var='secret'><value>\(secret)</value></field></x></publish-options></pubsub>
                """)
        let request = IQ(type: .set, to: try JID(Self.service), id: StanzaID.random(), payload: payload)
        return try blocking {
            try await account.connect()
            do {
                _ = try await account.request(.iq(request))
                await account.close()
                return nil
            } catch let error as StanzaError {
                await account.close()
                return error.condition
            }
        }
    }

    /// Lets a test that has a thread of its own wait for what is async.
    private func blocking<R: Sendable>(_ body: @escaping @Sendable () async throws -> R) throws -> R {
        let done = DispatchSemaphore(value: 0)
        let result = Mutex<Result<R, any Error>?>(nil)
        Task {
            do {
                let value = try await body()
                result.withLock { $0 = .success(value) }
            } catch {
                result.withLock { $0 = .failure(error) }
            }
            done.signal()
        }
        done.wait()
        // It is set before the signal.
        return try result.withLock { $0 }!.get()
    }
}
