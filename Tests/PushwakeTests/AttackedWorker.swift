import Foundation
import Glibc
import Handlers
import PushwakeCommands
import Simulation
import TestSupport
import XMPPAccount
import XMPPCore
import XMPPModules
import TestServers
import XMPPTestKit

/// An account whose program is woken as a worker, and a server that sends it whatever a test wants.
final class AttackedWorker {
    /// What a phone gives an extension.
    static let mebibytes = 24
    static let time = Duration.seconds(30)
    static let account = try! JID("alice@localhost")  // A constant that is an address.
    static let friend = try! JID("juliet@capulet.lit/balcony")  // The same.

    let folder: TemporaryFolder
    let server: ScriptedServer
    private let authority: String
    private let program: String
    private let group: MemoryGroup?
    private let world = (password: "secret", peer: "peer@localhost/bot")

    /// - Parameters:
    ///   - program: The command; nil takes that of this build.
    ///   - place: Where the workers' control group is made, in which the kernel holds them to a phone's memory; nil for none.
    init(_ program: String? = nil, in place: MemoryGroup.Place? = MemoryGroup.place) throws {
        self.program = try program ?? BuiltProduct.path("pushwake")
        folder = try TemporaryFolder()
        let certificates = try TestCertificates(in: folder.path)
        authority = certificates.authorityFile
        var configuration = ScriptedServer.Configuration(
            accounts: ["alice": world.password],
            certificate: try certificates.makeServerCertificate(for: ["localhost"]))
        configuration.behavior.resumptionWindow = .seconds(3600)
        server = try ScriptedServer(configuration)
        group = try place.map { try MemoryGroup(in: $0, mebibytes: Self.mebibytes) }
        try server.start()
        Damage.write(on: server)
        try leaveHandlers()
    }

    var storePath: String { folder.path + "/store.db" }

    /// Main binds a session, leaves its standing handlers in the store, and goes.
    private func leaveHandlers() throws {
        let main = try ChildProcess(
            program, arguments("main") + ["--quiet"], environment: .inheriting(environment()), input: .pipe,
            output: .pipe)
        while let line = try main.output?.readLine(deadline: .now + .seconds(60)), line != "connected" {}
        try main.write("quit\n")
        let ending = try main.waitUntilExit(deadline: .now + .seconds(60))
        guard ending.succeeded else { throw SimulationError("main failed: \(ending)") }
    }

    private func arguments(_ command: String) -> [String] {
        [
            command, "--store", storePath, "--jid", Self.account.description, "--peer", world.peer, "--host",
            server.host, "--port", String(server.startTLSPort), "--ca", authority,
        ]
    }

    private func environment(_ more: [String: String] = [:]) -> [String: String] {
        more.merging(["PUSHWAKE_PASSWORD": world.password]) { $1 }
    }

    // MARK: Waking

    /// How a worker ended.
    struct Wake {
        let ending: ChildEnding
        let said: String
        /// The most physical memory that it had, in KiB; nil when it could not say so any more.
        let peak: Int?

        var isDone: Bool { ending.succeeded && said.contains("drained") }
        /// The processor time that it used. How long it took besides is the machine's affair while it waits for nothing else.
        var used: Duration { ending.userTime + ending.systemTime }

        /// Its peak, processor time and time, for a table.
        var figures: String {
            let seconds = [used, ending.elapsed].map {
                String(format: "%.2f s", $0 / .seconds(1))
            }
            return
                "\(String(format: "%.1f MiB", Double(peak ?? 0) / 1024)), \(seconds.joined(separator: ", "))"
        }
    }

    /// Wakes one and waits for its end.
    ///
    /// It does not leave by itself because its time by the clock on the wall is over, which says nothing on a busy machine.
    func wake(_ variables: [String: String] = [:]) throws -> Wake {
        let command = [program] + arguments("worker") + ["--time", "3600"]
        let whole = group?.entering(command) ?? command
        let process = try ChildProcess(
            whole[0], Array(whole.dropFirst()), environment: .inheriting(environment(variables)),
            output: .pipe,
            errors: .pipe)
        let said = try process.output?.readToEnd(deadline: .now + .seconds(300)) ?? ""
        let complaint = try process.errors?.readToEnd(deadline: .now + .seconds(10)) ?? ""
        let ending = try process.waitUntilExit(deadline: .now + .seconds(10))
        return Wake(
            ending: ending, said: said + complaint,
            peak: said.firstMatch(of: /peak-kib=(\d+)/).flatMap { Int($0.1) })
    }

    // MARK: What comes

    /// Puts a stanza into the account's session.
    func send(_ stanza: Element) { server.send(stanza, to: .jid(Self.account)) }

    /// A message that must be taken in, by whatever session there is or will be.
    func sendGood(_ id: String) {
        server.send(Message(to: Self.account, id: id, body: "good").element, from: Self.friend)
    }

    // MARK: What was made of it

    private func store() throws -> HandlerStore {
        try HandlerStore(
            path: storePath, registry: HandlerRegistry(SimulationApp.handlers),
            schemas: Account.schemas + [SimulationApp.schema])
    }

    /// The ids of the good messages that were taken in, in order.
    func taken() throws -> [String] {
        try store().step { step in
            try step.all("SELECT stanza_id FROM sim_received WHERE body = 'good' ORDER BY row") {
                (row) throws(HandlerError) in row.text(0)
            }
        }
    }

    /// How many messages of any kind were.
    func takenOfAll() throws -> Int64 { try store().number("SELECT count(*) FROM sim_received") }

    /// How many stanzas of the present session are counted.
    func handled() throws -> Int64 { try store().number("SELECT received FROM session") }

    /// Where the damage that is stored for the present session was met; nil for none.
    func damage() throws -> Int64? {
        let stored = try store().number("SELECT ifnull(damage_at, -1) FROM session")
        return stored < 0 ? nil : stored
    }

    /// How often the session went on over another connection.
    func resumptions() -> Int { server.log.entries.count { $0.event == .resumed } }

    /// How many stanzas the server has sent in its newest session, each once.
    func sentInSession() -> Int64 {
        let entries = server.log.entries
        let newest = entries.lazy.map(\.session).max() ?? 0
        return Int64(
            entries.count {
                $0.event == .delivered && $0.session == newest && $0.isCounted && !$0.isResent
            })
    }

    func close() { server.stop(.reset) }
}
