import Foundation
import Handlers
import Platform
import TestServers
import XMPPCore
import XMPPTestKit

/// A fleet: machines with a primary and its standbys, an XMPP server, and a peer with a log of its own.
final class Fleet {
    struct Size {
        var machines = 4
        var accounts = 1000
        var seconds = 600
        /// Messages in a second while there are faults.
        var rate = 167
        /// How long messages are sent as fast as they are answered, after the faults, in seconds.
        var calm = 20
        var seed: UInt64 = 1
        var faults = Faults.Kind.allCases
        /// Whether machines are process groups even where they could have networks of their own.
        var isWithoutNetworks = false
    }

    /// What does not die, and the databases.
    struct Servers: ~Copyable {
        let folder: String
        /// Nil where machines are process groups.
        let network: Network?
        let authority: String
        let server: ScriptedServer
        let databases: DatabaseServers
        let database: TestDatabase

        /// The connection string, without host and port.
        var connection: String {
            "dbname=\(database.name) user=\(PostgresServer.user) password='\(PostgresServer.password)' sslmode=disable connect_timeout=10"
        }
    }

    let size: Size
    let servers: Servers
    let peer: Peer
    private(set) var members: [Member] = []
    let chronicle = Chronicle()

    init(_ size: Size) throws {
        self.size = size
        let folder = NSTemporaryDirectory() + "fleet-\(UUID())"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let certificates = try TestCertificates(in: folder)
        var accounts = ["peer": "hidden"]
        for number in 0..<size.accounts { accounts["u\(number)"] = "secret" }
        let network = size.isWithoutNetworks ? nil : try? Network()
        var configuration = try ScriptedServer.Configuration(
            accounts: accounts, certificate: certificates.makeServerCertificate(for: ["localhost"]))
        if let network { configuration.address = network.address }
        let server = try ScriptedServer(configuration)
        try server.start()
        let databases = try DatabaseServers(at: network?.host)
        servers = Servers(
            folder: folder, network: network, authority: certificates.authorityFile, server: server,
            databases: databases,
            database: try databases.primary.makeDatabase())
        peer = try Peer(server)
        for number in 1...size.machines {
            let member = try Member(number, servers)
            members.append(member)
            try start(member)
        }
        chronicle.started(primary: servers.databases.primary)
    }

    func close() {
        for member in members { member.kill() }
        servers.server.stop()
        servers.databases.kill()
        try? FileManager.default.removeItem(atPath: servers.folder)
    }

    /// Runs SQL in the database.
    @discardableResult
    func query(_ sql: String) throws -> String {
        try servers.databases.primary.query(sql, in: servers.database.name)
    }

    // MARK: Faults

    func start(_ member: Member) throws {
        try member.start(servers, accounts: size.accounts)
        chronicle.started(member)
    }

    func kill(_ member: Member) {
        chronicle.ended(member)
        member.kill()
    }

    func freeze(_ member: Member) {
        chronicle.stopped(member)
        member.freeze()
    }

    func thaw(_ member: Member) {
        chronicle.wentOn(member)
        member.thaw()
    }

    func cut(_ member: Member) throws {
        chronicle.mark("half-open", "\(member.name) is cut off")
        chronicle.stopped(member)
        try member.cut()
    }

    func join(_ member: Member) throws {
        chronicle.wentOn(member)
        chronicle.mark("thawed", "\(member.name) is connected again")
        try member.join()
    }

    /// Has the connection be lost on which a machine renews its lease, while its steps go on: without the fence they would be stored.
    ///
    /// - Returns: The port from which nothing arrives any more, and the number of the node; nil when there is no such connection at
    ///   this moment.
    func silence(_ member: Member) throws -> (port: String, node: String)? {
        let node = try query("SELECT max(node) FROM machine WHERE name = '\(member.name)'")
        let port = try query(
            """
            SELECT client_port FROM pg_stat_activity JOIN node_lease ON backend = pid WHERE node = \(node) LIMIT 1
            """)
        if port.isEmpty { return nil }
        chronicle.mark("half-open", "\(member.name) renews its lease no longer")
        try member.lose(true, from: port)
        return (port, node)
    }

    func killPrimary() throws {
        chronicle.ended(primary: servers.databases.primary)
        try servers.databases.killPrimary()
        chronicle.started(primary: servers.databases.primary)
    }
}

/// Now, in milliseconds since 1970.
var now: Int64 { TimeSource.systemWall().milliseconds }
