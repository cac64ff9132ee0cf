import FoundationEssentials
import Handlers
@testable import Omemo
import PubSub
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// Accounts of one test on a real server, devices of ours in them, and peers in Python.
final class Interoperation {
    let folder: TemporaryFolder
    let server: any TestServer
    let authority: String
    let password = "secret"
    /// The bare addresses of our user and of the peers' user.
    let ours, theirs: String
    private let number: Int
    private var peers: [SlixmppPeer] = []
    private var devices: [Ours] = []

    init(_ kind: ServerKind) throws {
        let servers = try #require(PeerServers.current, "the test stands outside of OmemoOnServersTests")
        folder = try TemporaryFolder()
        server = try servers.server(kind)
        authority = servers.certificates.authorityFile
        number = servers.freshNumber()
        (ours, theirs) = ("romeo\(number)@localhost", "juliet\(number)@localhost")
        for user in ["romeo", "juliet"] { _ = try addUser(user) }
    }

    /// Makes an account.
    ///
    /// - Returns: Its bare address.
    func addUser(_ name: String) throws -> String {
        try server.addAccount("\(name)\(number)", password: password)
        return "\(name)\(number)@localhost"
    }

    /// A room's address, or that of anything else in a component.
    func address(_ name: String, at component: String) throws -> JID {
        try JID("\(name)\(number)@\(component).localhost")
    }

    fileprivate func close(after error: (any Error)?) async {
        for device in devices { await device.account.close() }
        for peer in peers {
            // Tells what it could not do, and after a failure also what it could not read.
            for record in (try? peer.log()) ?? [] {
                guard record.kind == .failed || error != nil && record.kind == .init("unreadable") else {
                    continue
                }
                Issue.record("a peer: \(record.reason ?? "")")
            }
            peer.kill()
        }
    }

    // MARK: Peers

    enum Spoken: String, CaseIterable, Sendable { case legacy, omemo2, both }

    /// Starts a peer; ready once its keys are published.
    ///
    /// - Parameters:
    ///   - jid: Its account; nil for the peers' user.
    ///   - device: The number that it takes for its device; nil: by chance.
    func peer(
        _ spoken: Spoken, jid: String? = nil, resource: String = "py", device: UInt32? = nil,
        room: JID? = nil, members: [String] = []
    ) throws -> SlixmppPeer {
        var environment = ["OMEMO_VERSIONS": spoken.rawValue]
        environment["OMEMO_DEVICE"] = device.map { "\($0)" }
        environment["OMEMO_ROOM"] = room?.description
        environment["OMEMO_MEMBERS"] = members.joined(separator: ",")
        let lines = environment.map { "os.environ['\($0)'] = '\($1)'\n" }
        let script = Array("import os\n\(lines.joined())".utf8) + PackageResources.omemo_peer_py
        let jid = "\(jid ?? theirs)/\(resource)"
        let peer = try SlixmppPeer(
            script: script, folder: "\(folder.path)/peer-\(peers.count)", jid: jid, password: password,
            host: server.host, port: server.startTLSPort, trustFile: authority)
        try peer.start(deadline: .now + .seconds(60))
        peers.append(peer)
        return peer
    }

    // MARK: Ours

    /// A device of ours, connected and with its keys on the server.
    ///
    /// - Parameter name: Names its store: the same name is the same device, in another process as it were.
    func device(_ name: String = "ours", jid: String? = nil, pageSize: Int = 250) async throws -> Ours {
        let device = try offlineDevice(name, jid: jid, pageSize: pageSize)
        try await device.account.connect()
        try await device.account.omemo.start()
        try await device.published()
        return device
    }

    func offlineDevice(_ name: String, jid: String? = nil, pageSize: Int = 250) throws -> Ours {
        var configuration = AccountConfiguration(
            jid: try JID(jid ?? ours), password: password,
            server: .init(host: server.host, port: server.startTLSPort, security: .startTLS))
        configuration.trust = .file(path: authority)
        configuration.modules =
            .standard.filter { !($0 is ArchiveModule) } + [
                ArchiveModule(pageSize: pageSize, history: nil), OmemoModule(),
            ]
        let device = try Ours(configuration, file: "\(folder.path)/\(name).db")
        devices.append(device)
        return device
    }

    /// Publishes a device list in the name of the peers' user, who has no client for that.
    func publishList(_ version: OmemoVersion, _ numbers: [UInt32]) async throws {
        let user = try offlineDevice("user-\(devices.count)", jid: theirs)
        try await user.account.connect()
        let list = OmemoDeviceList(
            version, devices: numbers.compactMap { OmemoDeviceID(rawValue: $0) }.map { .init($0) })
        try await user.account.pubsub.publish(
            PubSubItem(id: OmemoVersion.deviceListItem, payload: list.element), on: version.deviceListNode,
            requiring: [.accessModel(.open)], then: Ours.Published().durable)
        try await eventually("the list is published") { try user.notes.contains("published") }
        await user.account.close()
    }
}

/// Runs a test with accounts, devices and peers, which are closed in any case.
func withScene(_ kind: ServerKind, _ body: (Interoperation) async throws -> Void) async throws {
    let scene = try Interoperation(kind)
    do {
        try await body(scene)
    } catch {
        await scene.close(after: error)
        throw error
    }
    await scene.close(after: nil)
}

extension SlixmppPeer {
    /// The bodies that it decrypted, oldest first.
    var received: [String] { get throws { try records("received").map { $0.body ?? "" } } }
    /// Why it could not decrypt messages.
    var unreadable: [String] { get throws { try records("unreadable").map { $0.reason ?? "" } } }

    /// Says what it could not read.
    func expectReadAll(_ place: SourceLocation = #_sourceLocation) throws {
        for reason in try unreadable {
            Issue.record("a peer could not read: \(reason)", sourceLocation: place)
        }
    }

    /// How many messages came twice.
    var copies: Int { get throws { try records("copy").count } }
    /// How many messages without content it took.
    var empty: Int { get throws { try records("empty").count } }

    private func records(_ kind: String) throws -> [PeerRecord] {
        try log().filter { $0.kind == .init(kind) }
    }
}

/// Waits until a condition holds.
func eventually(
    _ what: @autoclosure () throws -> String, within duration: Duration = .seconds(30),
    _ condition: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + duration
    while try await !condition() {
        if ContinuousClock.now >= deadline { throw NotInTime(description: "not in time: \(try what())") }
        try await Task.sleep(for: .milliseconds(20))
    }
}

struct NotInTime: Error, CustomStringConvertible { let description: String }

/// The numbered texts of a sender.
func numbered(_ prefix: String, _ count: Int) -> [String] { (1...count).map { "\(prefix)-\($0)" } }

extension [String] {
    /// As they are noted when they come from a key that is trusted blindly.
    var blind: [String] { map { $0 + " blind" } }
}
