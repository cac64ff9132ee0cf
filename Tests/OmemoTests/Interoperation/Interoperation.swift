import FoundationEssentials
import Handlers
@testable import Omemo
import PubSub
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import TestServers

/// Accounts of one test on a real server, devices of ours in them, and peers in Python.
final class Interoperation: TestResource {
    /// The bare addresses of our user and of the peers' user.
    let ours, theirs: String
    private let scene: RealScene
    private let number: Int
    /// How many devices of ours there were.
    private var devices = 0

    init(_ kind: ServerKind) throws {
        scene = try RealScene(kind)
        number = scene.servers.freshNumber()
        ours = try scene.addUser("romeo\(number)").description
        theirs = try scene.addUser("juliet\(number)").description
    }

    var folder: TemporaryFolder { scene.folder }
    var server: any TestServer { scene.server }
    var authority: String { scene.certificates.authorityFile }

    /// Makes an account.
    ///
    /// - Returns: Its bare address.
    func addUser(_ name: String) throws -> String { try scene.addUser("\(name)\(number)").description }

    /// A room's address, or that of anything else in a component.
    func address(_ name: String, at component: String) throws -> JID {
        try JID("\(name)\(number)@\(component).\(RealServers.domain)")
    }

    func close() async {
        await scene.close()
        // They tell what they could not do.
        for peer in scene.peers { peer.report(.failed) }
    }

    /// Tells after a failure also what the peers could not read.
    fileprivate func reportUnreadable() {
        for peer in scene.peers { peer.report("unreadable") }
    }

    // MARK: Peers

    enum Spoken: String, CaseIterable, Sendable { case legacy, omemo2, both }

    /// Starts a peer; ready once its keys are published.
    ///
    /// - Parameters:
    ///   - jid: Its account; nil for the peers' user.
    ///   - device: The number that it takes for its device; nil: a random one.
    func peer(
        _ spoken: Spoken, jid: String? = nil, resource: String = "py", device: UInt32? = nil,
        room: JID? = nil, members: [String] = []
    ) throws -> SlixmppPeer {
        var environment = ["OMEMO_VERSIONS": spoken.rawValue]
        environment["OMEMO_DEVICE"] = device.map { "\($0)" }
        environment["OMEMO_ROOM"] = room?.description
        environment["OMEMO_MEMBERS"] = members.joined(separator: ",")
        return try scene.peer(
            PackageResources.omemo_peer_py, as: JID(jid ?? theirs), resource: resource,
            environment: environment)
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
        var configuration = try scene.configuration(of: JID(jid ?? ours), .startTLS)
        configuration.modules =
            .standard.filter { !($0 is ArchiveModule) } + [
                ArchiveModule(pageSize: pageSize, history: nil), OmemoModule(),
            ]
        devices += 1
        return try Ours(file: "\(folder.path)/\(name).db") { store in
            try scene.account(configuration, store: store)
        }
    }

    /// Publishes a device list in the name of the peers' user, who has no client for that.
    func publishList(_ version: OmemoVersion, _ numbers: [UInt32]) async throws {
        let user = try offlineDevice("user-\(devices)", jid: theirs)
        try await user.account.connect()
        let list = OmemoDeviceList(
            version, devices: numbers.compactMap { OmemoDeviceID(rawValue: $0) }.map { .init($0) })
        try await user.account.send(
            .pubsub(
                .publish(
                    PubSubItem(id: OmemoVersion.deviceListItem, payload: list.element),
                    on: version.deviceListNode, requiring: [.accessModel(.open)])),
            then: Ours.Published().durable)
        try await eventually("the list is published") { try user.notes.contains("published") }
        await user.account.close()
    }
}

/// Runs a test with accounts, devices and peers, which are closed in any case.
func withScene(_ kind: ServerKind, _ body: (Interoperation) async throws -> Void) async throws {
    try await closing(Interoperation(kind)) { scene in
        do {
            try await body(scene)
        } catch {
            scene.reportUnreadable()
            throw error
        }
    }
}

extension SlixmppPeer {
    /// Records what it wrote down of a kind as issues.
    fileprivate func report(_ kind: PeerRecord.Kind) {
        for record in (try? records(kind)) ?? [] { Issue.record("a peer: \(record.reason ?? "")") }
    }

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
}

/// The numbered texts of a sender.
func numbered(_ prefix: String, _ count: Int) -> [String] { (1...count).map { "\(prefix)-\($0)" } }

extension [String] {
    /// As they are noted when they come from a key that is trusted blindly.
    var blind: [String] { map { $0 + " blind" } }
}
