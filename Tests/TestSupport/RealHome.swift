package import Handlers
package import XMPPAccount
package import XMPPCore
package import TestServers

/// An account of its own on a real server, and the store that every process of that account opens.
///
/// Each target says what is in the store, in an initializer of its own.
package final class RealHome: Sendable, TestResource {
    package typealias Security = AccountConfiguration.Server.Security

    package let scene: RealScene
    package let jid: JID
    package let store: HandlerStore

    /// - Parameter store: What opens the store in that folder.
    package init(
        _ scene: RealScene, jid: JID? = nil, store: (_ folder: String) throws -> HandlerStore
    ) throws {
        self.scene = scene
        self.jid = try jid ?? scene.addUser()
        self.store = try store(scene.folder.path)
    }

    package var server: any TestServer { scene.server }
    package var folder: TemporaryFolder { scene.folder }
    package var log: KeptLog { scene.log }
    package func port(_ security: Security) -> UInt16 { scene.port(security) }

    /// The account as another process would make it.
    package func account(
        _ security: Security = .directTLS, port: UInt16? = nil,
        _ change: (inout AccountConfiguration) -> Void = { _ in }
    ) throws -> Account {
        var configuration = scene.configuration(of: jid, security, port: port)
        change(&configuration)
        return try scene.account(configuration, store: store)
    }

    /// How often a session was resumed, and how often one was started.
    package var sessions: [Int64] {
        get throws {
            try store.step { step in
                try step.first("SELECT resumed_count, bound_count FROM session") {
                    (row) throws(HandlerError) in
                    [row.integer(0), row.integer(1)]
                } ?? [0, 0]
            }
        }
    }

    package func close() async { await scene.close() }
}
