import AccountTestSupport
import TestServers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPModules

/// Everything about modules that is tested against Prosody and ejabberd; the suites are extensions.
@Suite(.ownThread, .realServers, .serialized, .timeLimit(.minutes(HostKills.timeLimit)))
enum RealServerTests {}

extension RealHome {
    /// A home whose store has the tables of this library's modules.
    ///
    /// - Parameters:
    ///   - server: One of the test's own; nil takes the suite's.
    ///   - other: Another home of the same account: another client of it.
    convenience init(
        modulesOn kind: ServerKind, server: (any TestServer)? = nil, as other: RealHome? = nil
    ) throws {
        try self.init(
            kind, schemas: Account.schemas, handlers: ModulesApp.handlers, server: server, as: other)
    }
}

/// Runs a test with a home whose store has the tables of this library's modules.
func withModulesHome(_ kind: ServerKind, _ body: (RealHome) async throws -> Void) async throws {
    try await closing(RealHome(modulesOn: kind), after: body)
}
