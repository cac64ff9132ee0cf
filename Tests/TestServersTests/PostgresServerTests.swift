import FoundationEssentials
import Glibc
import TestSupport
import TestThreads
import Testing
import TestServers
import XMPPTestKit

@Suite(.ownThread) struct PostgresServerTests {
    private var soon: ContinuousClock.Instant { .now + .seconds(40) }

    private func started(_ options: PostgresOptions = PostgresOptions()) throws -> PostgresServer {
        let server = try PostgresServer(options: options)
        try server.start()
        return server
    }

    /// A query in a session of its own, which may wait for as long as its object lives.
    private func session(_ sql: String, on server: PostgresServer) throws -> ChildProcess {
        try ChildProcess(
            "psql", ["-X", "-q", "-A", "-t", "-d", server.connection(), "-c", sql], output: .pipe,
            errors: .null)
    }

    /// Waits until a session of the server waits for an event, such as `PgSleep`.
    private func waitForSession(in event: String, on server: PostgresServer) throws {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = '\(event)'"
        #expect(
            try becomesTrue(before: soon) { try server.query(sql) != "0" }, "no session waits for \(event)")
    }

    /// The processes of a running server, the postmaster first, each with its name.
    private func processes(of server: PostgresServer) throws -> [Int32] {
        let postmaster = try #require(server.processID)
        let others = try server.query("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        let all = [postmaster] + others.split(separator: "\n").compactMap { Int32($0) }
        try #require(all.count > 4, "\(others)")
        return all
    }

    /// Whether there is a shared memory segment of System V with this id.
    private func isThere(_ segment: Int32) -> Bool {
        var status = shmid_ds()
        return shmctl(segment, IPC_STAT, &status) == 0
    }

    private func segment(of server: PostgresServer) throws -> Int32 {
        let file = try String(contentsOfFile: "\(server.dataFolder)/postmaster.pid", encoding: .utf8)
        let lines = file.split(separator: "\n", omittingEmptySubsequences: false)
        let segment = try #require(lines[6].split(separator: " ").last.flatMap { Int32($0) })
        try #require(isThere(segment), "\(segment): \(String(cString: strerror(errno)))")
        return segment
    }

    @Test("W6 PostgreSQL answers through its socket without a password, and over TCP only with it")
    func routes() throws {
        let server = try PostgresServer.shared
        #expect(try server.query("SELECT 6 * 7, 'b'") == "42|b")
        let ways = try [PostgresServer.Route.socket, .tcp].map { route in
            try server.query("SELECT inet_server_port() IS NULL, current_setting('ssl')", over: route)
        }
        #expect(ways == ["t|off", "f|off"])
        let wrong = server.connection(over: .tcp).replacing(PostgresServer.password, with: "guessed")
        let client = try ChildProcess("psql", ["-X", "-d", wrong, "-c", "SELECT 1"], errors: .pipe)
        #expect(
            try client.errors?.readToEnd(deadline: soon).contains("password authentication failed") == true)
    }

    @Test("W6 PostgreSQL over TLS has its certificate, and a client that trusts another authority leaves")
    func encrypted() throws {
        let folder = try TemporaryFolder()
        let certificates = try TestCertificates(in: folder.path)
        var options = PostgresOptions()
        options.certificate = try certificates.makeServerCertificate(for: ["localhost"])
        let server = try started(options)
        let sql = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        #expect(try server.query(sql, over: .tls(authorityFile: certificates.authorityFile)) == "t")
        #expect(try server.query(sql, over: .tcp) == "f")
        let others = try TemporaryFolder()
        let other = try TestCertificates(in: others.path)
        let error = #expect(throws: TestServerError.self) {
            try server.query(sql, over: .tls(authorityFile: other.authorityFile))
        }
        #expect(error?.message.contains("SSL error") == true, "\(String(describing: error))")

        options.certificate = try certificates.makeServerCertificate(for: ["localhost"], flaw: .wrongName)
        let wrong = try started(options)
        let mismatch = #expect(throws: TestServerError.self) {
            try wrong.query(sql, over: .tls(authorityFile: certificates.authorityFile))
        }
        #expect(
            mismatch?.message.contains("does not match host name") == true, "\(String(describing: mismatch))")
    }

    @Test("W6 a database of the shared server is empty, of its test alone, and goes with its last reference")
    func sharedDatabases() throws {
        let server = try PostgresServer.shared
        #expect(try PostgresServer.shared === server)
        let first = try server.makeDatabase()
        var second: TestDatabase? = try server.makeDatabase()
        try first.query("CREATE TABLE note(text TEXT); INSERT INTO note VALUES ('here')")
        #expect(try first.query("SELECT text FROM note") == "here")
        let error = #expect(throws: TestServerError.self) { try second?.query("SELECT text FROM note") }
        #expect(error?.code == .refused)
        #expect(error?.message.contains("\"note\" does not exist") == true, "\(String(describing: error))")
        let copy = try server.makeDatabase(from: first.name)
        #expect(try copy.query("SELECT text FROM note") == "here")

        let name = try #require(second?.name)
        // A session that a test left open is no obstacle.
        let left = try session("SELECT 1", on: server)
        let open = try ChildProcess(
            "psql", ["-X", "-d", second?.connection() ?? "", "-c", "SELECT pg_sleep(600)"], errors: .null)
        try waitForSession(in: "PgSleep", on: server)
        second = nil
        #expect(try server.query("SELECT count(*) FROM pg_database WHERE datname = '\(name)'") == "0")
        #expect(try open.waitUntilExit(deadline: soon).succeeded == false)
        try left.waitUntilExit(deadline: soon)
    }

    @Test("W6 settings are those of the options, and commits are synced unless the options say otherwise")
    func settings() throws {
        var options = PostgresOptions()
        options.fsync = false
        options.settings = ["idle_in_transaction_session_timeout": "7s", "cluster_name": #"it's \ here"#]
        let server = try started(options)
        let names = ["fsync", "idle_in_transaction_session_timeout", "cluster_name"]
        let sql = "SELECT \(names.map { "current_setting('\($0)')" }.joined(separator: ", "))"
        #expect(try server.query(sql) == #"off|7s|it's \ here"#)
        let usual = "SELECT current_setting('fsync'), current_setting('synchronous_commit')"
        #expect(try PostgresServer.shared.query(usual) == "on|on")
    }

    @Test("W6 a closed PostgreSQL leaves no process, and starts again on its data and port")
    func closesAndRestarts() throws {
        let server = try started()
        try server.query("CREATE TABLE note(text TEXT); INSERT INTO note VALUES ('kept')")
        let sleeper = try session("SELECT pg_sleep(600)", on: server)
        try waitForSession(in: "PgSleep", on: server)
        let (port, processes, segment) = (server.port, try processes(of: server), try segment(of: server))
        let begin = ContinuousClock.now
        server.close()
        #expect(begin.duration(to: .now) < .seconds(20), "a client must not keep it from ending")
        #expect(server.processID == nil)
        for process in processes { #expect(hasEnded(process, deadline: soon)) }
        #expect(!isThere(segment))
        try sleeper.waitUntilExit(deadline: soon)
        try server.start()
        #expect(server.port == port)
        #expect(try server.query("SELECT text FROM note", over: .tcp) == "kept")
        #expect(!server.log.contains("not properly shut down"), "\(server.log)")
    }

    @Test("W6 a killed PostgreSQL loses all its processes and its memory at once, and no commit")
    func killed() throws {
        let server = try started()
        try server.query("CREATE TABLE note(text TEXT); INSERT INTO note VALUES ('committed')")
        // In the middle of its transaction.
        let sleeper = try session(
            "WITH x AS (INSERT INTO note VALUES ('open') RETURNING 1) SELECT pg_sleep(600) FROM x", on: server
        )
        try waitForSession(in: "PgSleep", on: server)
        // A session that computes does not notice the end of its postmaster.
        let busy = try session("DO $$ BEGIN LOOP END LOOP; END $$", on: server)
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'DO %'"
        #expect(try becomesTrue(before: soon) { try server.query(sql) == "1" })
        let (processes, segment) = (try processes(of: server), try segment(of: server))
        server.kill()
        for process in processes {
            #expect(kernelState(of: process).map { $0.state == "Z" } ?? true, "\(process) lives")
        }
        #expect(!isThere(segment))
        #expect(
            !server.log.contains("shutting down"), "it must not have had the time for that: \(server.log)")
        for client in [sleeper, busy] { try client.waitUntilExit(deadline: soon) }
        try server.start()
        #expect(server.log.contains("not properly shut down"))
        #expect(try server.query("SELECT text FROM note") == "committed")
    }

    @Test("W6 a dropped PostgreSQL leaves no process, no folder and no memory")
    func dropped() throws {
        var server: PostgresServer? = try started()
        let processes = try processes(of: #require(server))
        let folder = try #require(server?.folder)
        let segment = try segment(of: #require(server))
        server = nil
        for process in processes { #expect(hasEnded(process, deadline: soon)) }
        #expect(!FileManager.default.fileExists(atPath: folder))
        #expect(!isThere(segment))
    }

    /// A program that has a server.
    private struct Owner {
        let program: ChildProcess
        let connection: String
        let postmaster: Int32
        let folder: String

        init(deadline: ContinuousClock.Instant) throws {
            program = try ChildProcess(BuiltProduct.path("postgres-program"), input: .pipe, output: .pipe)
            connection = try #require(try program.output?.readLine(deadline: deadline))
            let words = try #require(try program.output?.readLine(deadline: deadline)).split(separator: " ")
            (postmaster, folder) = (try #require(Int32(words[0])), String(words[1]))
        }

        /// The shell that removes the folder.
        var guardian: Int32? { program.descendants.first { kernelState(of: $0)?.name == "sh" } }
    }

    @Test("W6 all processes of PostgreSQL end with the process that started it, even by SIGKILL")
    func processesEndWithParent() throws {
        let owner = try Owner(deadline: soon)
        defer { try? FileManager.default.removeItem(atPath: owner.folder) }
        let words = ["-X", "-q", "-A", "-t", "-d", owner.connection, "-c"]
        let sleeper = try ChildProcess(
            "psql", words + ["SELECT pg_backend_pid()", "-c", "SELECT pg_sleep(600)"], output: .pipe,
            errors: .null)
        let backend = try #require(Int32(try sleeper.output?.readLine(deadline: soon) ?? ""))
        #expect(kernelState(of: backend)?.name == "postgres")
        let others = try ChildProcess("psql", words + ["SELECT pid FROM pg_stat_activity"], output: .pipe)
        let listed = try #require(try others.output?.readToEnd(deadline: soon))
        let processes = [owner.postmaster] + listed.split(separator: "\n").compactMap { Int32($0) }
        #expect(processes.count > 4 && processes.contains(backend))
        // A server also ends some seconds after its folder was removed. This folder stays.
        let guardian = try #require(owner.guardian)
        Glibc.kill(guardian, SIGKILL)
        #expect(hasEnded(guardian, deadline: soon))
        owner.program.signal(SIGKILL)
        for process in processes { #expect(hasEnded(process, deadline: soon), "\(process) lives") }
        #expect(FileManager.default.fileExists(atPath: owner.folder))
        try sleeper.waitUntilExit(deadline: soon)
    }

    @Test("W6 the folder of PostgreSQL goes with the process that made it, even by SIGKILL and SIGHUP")
    func folderGoesWithParent() throws {
        let owner = try Owner(deadline: soon)
        let guardian = try #require(owner.guardian)
        Glibc.kill(guardian, SIGHUP)
        #expect(FileManager.default.fileExists(atPath: owner.folder))
        owner.program.signal(SIGKILL)
        #expect(becomesTrue(before: soon) { !FileManager.default.fileExists(atPath: owner.folder) })
        #expect(hasEnded(guardian, deadline: soon))
        #expect(hasEnded(owner.postmaster, deadline: soon))
    }

    @Test("W6 a standby receives the rows of its primary, which waits for a synchronous one")
    func replicates() throws {
        let primary = try started()
        try primary.query("CREATE TABLE note(text TEXT); INSERT INTO note VALUES ('before')")
        let standby = try primary.makeStandby(name: "second", synchronous: true)
        try primary.query("INSERT INTO note VALUES ('after')")
        let rows = try becomesTrue(before: soon) {
            try standby.query("SELECT string_agg(text, ' ') FROM note") == "before after"
        }
        #expect(rows, "\(standby.log)")
        #expect(throws: TestServerError.self) { try standby.query("INSERT INTO note VALUES ('refused')") }

        standby.kill()
        let commit = try session("INSERT INTO note VALUES ('waiting')", on: primary)
        try waitForSession(in: "SyncRep", on: primary)
        try standby.start()
        #expect(try commit.waitUntilExit(deadline: soon).succeeded)
        standby.kill()
        try primary.setSynchronousStandbys([])
        try primary.query("INSERT INTO note VALUES ('alone')")
    }

    @Test(
        "W6 a promoted standby has every acknowledged commit of its dead primary, and can get a standby itself"
    )
    func promoted() throws {
        let primary = try started()
        let standby = try primary.makeStandby(name: "second", synchronous: true)
        try primary.query("CREATE TABLE note(text TEXT); INSERT INTO note VALUES ('acknowledged')")
        primary.kill()
        try standby.promote()
        #expect(try standby.query("SELECT text FROM note") == "acknowledged")
        try standby.query("INSERT INTO note VALUES ('new')")
        let third = try standby.makeStandby(name: "third")
        #expect(try third.query("SELECT count(*) FROM note") == "2")
        #expect(try standby.query("SHOW synchronous_standby_names").isEmpty)
        // It stays a primary when it starts again.
        third.close()
        standby.close()
        try standby.start()
        try standby.query("INSERT INTO note VALUES ('again')")
    }

    @Test("W6 a PostgreSQL that cannot start says why, and a running one is not started twice")
    func cannotStart() throws {
        var options = PostgresOptions()
        options.settings = ["no_such_setting": "1"]
        let server = try PostgresServer(options: options)
        let error = #expect(throws: TestServerError.self) { try server.start() }
        #expect(error?.code == .startFailed)
        #expect(error?.message.contains("no_such_setting") == true, "\(String(describing: error))")
        #expect(server.processID == nil)

        let running = try PostgresServer.shared
        let processID = running.processID
        #expect(throws: TestServerError.self) { try running.start() }
        #expect(running.processID == processID)
    }
}
