import Handlers
import PubSub
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import TestServers

/// Everything that is asked of Prosody and ejabberd; the suites are extensions.
@Suite(
    .ownThread,
    .realServers(prosody: { options in
        // Prosody lets only administrators of the service make nodes there.
        let administrators = (1...100).map { "\"user\($0)@\(RealServers.domain)\"" }
        options.addedConfiguration =
            "admins = { \(administrators.joined(separator: ", ")) }\npubsub_max_items = 2000"
    }), .serialized, .timeLimit(.minutes(5)))
enum OperationsOnServers {}

extension RealHome {
    convenience init(_ kind: ServerKind, server: (any TestServer)? = nil) throws {
        try self.init(RealScene(kind, server: server)) { folder in
            try HandlerStore(
                path: folder + "/store.db",
                registry: HandlerRegistry(PubSubService.handlers + Notes.handlers),
                schemas: Account.schemas + [Notes.schema], synchronous: .normal)
        }
    }

    /// The service beside the users' own nodes.
    // A constant that is an address.
    var service: JID { try! JID("pubsub.\(RealServers.domain)") }

    func connected() async throws -> Account {
        let account = try account(.startTLS)
        try await account.connect()
        return account
    }

    /// An independent client with an account of its own.
    func peer() throws -> SlixmppPeer { try scene.peer(PackageResources.operations_peer_py) }

    var notes: [String] { get throws { try store.step { step in try Notes.all(in: step) } } }

    /// Waits until the program has noted so much; each look is a round trip to the server.
    func waitForNotes(_ count: Int, on account: Account) async throws {
        try await eventually("\(count) notes instead of \(try notes)") {
            if try notes.count >= count { return true }
            try await account.caughtUp()
            return false
        }
    }
}

/// Runs a test with a home that is closed in any case.
func withHome(
    _ kind: ServerKind, server: (any TestServer)? = nil, _ body: (RealHome) async throws -> Void
) async throws {
    try await closing(RealHome(kind, server: server), after: body)
}

/// An independent user of PubSub; see operations_peer.py.
extension SlixmppPeer {
    /// Has it do something at a node and waits for what that brought.
    func ask<Result: Decodable>(
        _ name: String, _ service: JID, _ node: String, as type: Result.Type = Result.self
    ) throws -> Result {
        try ask(name, ["service": service, "node": node], as: type)
    }

    /// Has it do something at a node and waits until it is done.
    func tell(_ name: String, _ service: JID, _ node: String, _ arguments: Arguments) throws {
        try tell(name, arguments.merging(["service": service, "node": node]) { $1 })
    }

    /// What it has seen of nodes, with all that was sent to it before.
    var events: [String] {
        get throws {
            try tell("sync")
            return try records("event").map { $0.body ?? "" }
        }
    }
}
