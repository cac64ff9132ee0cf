import FoundationEssentials
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import TestServers

@testable import Upload

/// Everything that is uploaded to Prosody and ejabberd; the suites are extensions.
@Suite(
    .ownThread,
    .realServers(
        prosody: { $0.largestUpload = largestUpload },
        ejabberd: { $0.largestUpload = largestUpload }), .serialized, .timeLimit(.minutes(8)))
enum UploadsOnServers {}

/// The largest file that they take.
let largestUpload = 10_000_000

extension RealHome {
    /// - Parameter name: Of a file with a pattern, beside the store.
    func file(_ name: String, _ count: Int) throws -> (path: String, digest: String) {
        let bytes = pattern(count)
        let path = folder.path + "/" + name
        try Data(bytes).write(to: URL(filePath: path))
        return (path, digest(bytes))
    }

    func connected() async throws -> Account {
        let account = try account(.startTLS) { $0.modules = [UploadModule(privateHosts: ["localhost"])] }
        try await account.connect()
        return account
    }

    var noted: [String] { get throws { try store.texts("SELECT text FROM noted ORDER BY row") } }
}

/// Runs a test with a home that is closed in any case.
func withHome(_ kind: ServerKind, _ body: (RealHome) async throws -> Void) async throws {
    let home = try RealHome(RealScene(kind)) { folder in
        try HandlerStore(
            path: folder + "/store.db", registry: HandlerRegistry([Noted.self]),
            schemas: Account.schemas + UploadModule.schemas + [OfflineHome.tables], synchronous: .normal)
    }
    try await closing(home, after: body)
}

/// An independent reader of files; see upload_peer.py.
extension SlixmppPeer {
    /// The texts of the messages that it got, and what was attached to them.
    func links() throws -> [(text: String, attachment: String?)] {
        try tell("sync")
        return try records("link").map { ($0.body ?? "", $0.reason) }
    }

    /// The SHA-256 of the file behind a link, and its size.
    func read(_ link: String) throws -> (digest: String, size: String) {
        let answer = try ask("read", ["link": link], as: [String].self)
        return (answer[0], answer[1])
    }
}
