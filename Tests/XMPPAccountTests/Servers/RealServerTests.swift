import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import TestServers
import XMPPTestKit

/// Everything that is tested against Prosody and ejabberd; the suites are extensions.
@Suite(
    .ownThread, .realServers, .serialized,
    // Some thousand broken lines need more than any other test.
    .timeLimit(.minutes(TornPositions.areAll ? 240 : 5)))
enum RealServerTests {}

/// Whether lines break after each byte, as in `make torture`, and not only after some.
enum TornPositions {
    static let areAll = ProcessInfo.processInfo.environment["TORN_POSITIONS"] == "all"
    /// How many lines share them, as most of the time goes by in waiting.
    static let lines = areAll ? 4 : 1
}

extension RealHome {
    /// - Parameter other: Another home of the same account: another client of it.
    convenience init(
        _ kind: ServerKind, server: (any TestServer)? = nil, certificates: TestCertificates? = nil,
        as other: RealHome? = nil
    ) throws {
        let scene = try RealScene(kind, server: server, certificates: certificates)
        try self.init(scene, jid: other?.jid) { folder in
            try HandlerStore(
                path: folder + "/app.db", registry: TestApp.registry,
                schemas: Account.schemas + [TestApp.schema], synchronous: .normal)
        }
    }
}

/// Runs a test with a home whose accounts are closed in any case.
func withHome(
    _ kind: ServerKind, server: (any TestServer)? = nil, certificates: TestCertificates? = nil,
    _ body: (RealHome) async throws -> Void
) async throws {
    try await closing(RealHome(kind, server: server, certificates: certificates), after: body)
}
