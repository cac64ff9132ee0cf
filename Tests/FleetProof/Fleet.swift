import Foundation
import Platform
import Synchronization
import TestServers
import XMPPCore
import XMPPTestKit

/// A fleet: machines with a primary and its synchronous standby, an XMPP server, and a peer with a log of its own.
///
/// A machine is a process group behind two lines, to the database and to the XMPP server, with a folder of its own.
final class Fleet {
    struct Size {
        var machines = 4
        var accounts = 100
        var seconds = 90
        /// Messages in a second.
        var rate = 200
        var seed: UInt64 = 1
    }

    /// A machine, with its lines.
    final class Member {
        let database: LoopbackProxy
        let xmpp: LoopbackProxy
        var process: ChildProcess?
        var node = 0

        init(_ database: LoopbackProxy, _ xmpp: LoopbackProxy) {
            (self.database, self.xmpp) = (database, xmpp)
        }
    }

    let size: Size
    let folder: String
    let authority: String
    let server: ScriptedServer
    let peer: Peer
    private(set) var primary: PostgresServer
    private var standby: PostgresServer
    private var retired: [PostgresServer] = []
    let database: TestDatabase
    private(set) var members: [Member] = []

    init(_ size: Size) throws {
        self.size = size
        folder = NSTemporaryDirectory() + "fleet-\(UUID())"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let certificates = try TestCertificates(in: folder)
        authority = certificates.authorityFile
        var accounts = ["peer": "hidden"]
        for number in 0..<size.accounts { accounts["u\(number)"] = "secret" }
        server = try ScriptedServer(
            ScriptedServer.Configuration(
                accounts: accounts, certificate: certificates.makeServerCertificate(for: ["localhost"])))
        try server.start()
        peer = try Peer(server)
        var options = PostgresOptions()
        options.settings["fsync"] = "on"
        primary = try PostgresServer(options: options)
        try primary.start()
        database = try primary.makeDatabase()
        standby = try primary.makeStandby(name: "standby0", synchronous: true)
        for _ in 0..<size.machines {
            let member = Member(
                try LoopbackProxy(to: primary.port), try LoopbackProxy(to: server.directTLSPort))
            members.append(member)
            try start(member)
        }
    }

    func close() {
        for member in members { member.process?.killAndWait() }
        server.stop()
        for server in retired + [primary, standby] { server.kill() }
        try? FileManager.default.removeItem(atPath: folder)
    }

    func query(_ sql: String) throws -> String { try primary.query(sql, in: database.name) }

    // MARK: Machines

    func start(_ member: Member) throws {
        let process = try ChildProcess(
            BuiltProduct.path("fleet-proof"),
            [
                "machine", database.connection(over: .tcp) + " port=\(member.database.port)",
                "\(member.xmpp.port)", authority, "\(size.accounts)",
            ], output: .pipe, errors: .file("\(folder)/machines.log"))
        let line = try process.output?.readLine(deadline: .now + .seconds(60))
        (member.process, member.node) = (process, line.flatMap { Int($0) } ?? 0)
    }

    func kill(_ member: Member) {
        member.process?.killAndWait()
        member.process = nil
    }

    func freeze(_ member: Member) { member.process?.signal(Signal.stop) }
    func thaw(_ member: Member) { member.process?.signal(Signal.resume) }

    func cut(_ member: Member) {
        member.database.silence()
        member.xmpp.silence()
    }

    func join(_ member: Member) {
        member.database.resume()
        member.xmpp.resume()
    }

    // MARK: Database

    private var promotions = 0

    /// Kills the primary, promotes its standby, and gives that a standby.
    func killPrimary() throws {
        primary.kill()
        try standby.promote()
        retired.append(primary)
        primary = standby
        for member in members {
            member.database.lead(to: primary.port)
            member.database.cut()
        }
        promotions += 1
        standby = try primary.makeStandby(name: "standby\(promotions)", synchronous: true)
    }
}
