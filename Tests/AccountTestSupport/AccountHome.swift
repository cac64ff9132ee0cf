package import Handlers
package import TestServers
package import TestSupport
import XMPPAccount
package import XMPPTestKit

extension RealHome {
    /// A home whose store has the tables and the handlers of ``TestApp``.
    ///
    /// - Parameters:
    ///   - schemas: The tables of the store beside those of ``TestApp``.
    ///   - handlers: The handlers of the store beside those of ``TestApp``.
    ///   - other: Another home of the same account: another client of it.
    package convenience init(
        _ kind: ServerKind, schemas: [Schema] = Account.coreSchemas,
        handlers: [any DurableHandler.Type] = [], server: (any TestServer)? = nil,
        certificates: TestCertificates? = nil, as other: RealHome? = nil
    ) throws {
        let scene = try RealScene(kind, server: server, certificates: certificates)
        try self.init(scene, jid: other?.jid) { folder in
            try TestEngine.open(
                folder + "/app.db", registry: HandlerRegistry(TestApp.handlers + handlers),
                schemas: schemas + [TestApp.schema], time: .system)
        }
    }
}

/// Runs a test with a home whose accounts are closed in any case.
package func withHome(
    _ kind: ServerKind, server: (any TestServer)? = nil, certificates: TestCertificates? = nil,
    _ body: (RealHome) async throws -> Void
) async throws {
    try await closing(RealHome(kind, server: server, certificates: certificates), after: body)
}
