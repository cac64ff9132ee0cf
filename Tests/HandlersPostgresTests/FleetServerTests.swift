import FoundationEssentials
import Glibc
import Handlers
import HandlersPostgres
import Platform
import TestServers
import TestSupport
import TestThreads
import Testing

/// The servers of `make fleet-server`.
@Suite(.ownThread, .timeLimit(.minutes(3))) struct FleetServerTests {
    private var soon: ContinuousClock.Instant { .now + .seconds(60) }

    /// Starts the script and waits for the connection string that it prints.
    private func start(_ folder: String) throws -> (script: ChildProcess, connection: String) {
        let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..").path
        let script = try ChildProcess(
            root + "/scripts/fleet-server.sh", environment: .inheriting(["FOLDER": folder]), input: .pipe,
            output: .pipe)
        return (script, try connection(of: script))
    }

    private func connection(of script: ChildProcess) throws -> String {
        try #require(try script.output?.readLine(deadline: soon) { $0.hasPrefix("host=") })
    }

    private func open(_ connection: String) throws -> HandlerStore {
        try HandlerStore(postgres: connection, registry: HandlerRegistry(), schemas: [notes])
    }

    @Test(
        "G8 make fleet-server prints a string that a store takes, keeps its rows at a promotion and a restart, and leaves nothing running"
    )
    func served() throws {
        let folder = "/tmp/fleet-server-\(UUID())"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let (script, connection) = try start(folder)
        let store = try open(connection)
        try store.step { try $0.write("INSERT INTO note(text) VALUES ('before')") }
        #expect(try start(folder).connection == connection)

        try script.write("promote\n")
        #expect(try self.connection(of: script) == connection)
        try store.step { try $0.write("INSERT INTO note(text) VALUES ('after')") }

        let processes = script.descendants
        try #require(processes.count >= 2)
        script.signal(Signal.interrupt)
        #expect(try script.waitUntilExit(deadline: soon).succeeded)
        for process in processes { #expect(becomesTrue(before: soon) { kill(process, 0) != 0 }) }

        let (again, sameConnection) = try start(folder)
        #expect(sameConnection == connection)
        #expect(try open(connection).texts() == ["before", "after"])
        again.signal(Signal.interrupt)
        #expect(try again.waitUntilExit(deadline: soon).succeeded)
    }
}
