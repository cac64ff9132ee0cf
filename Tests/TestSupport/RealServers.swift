import Synchronization
package import Testing
package import TestServers
package import XMPPTestKit

/// One Prosody and one ejabberd for all tests of a suite, started when the first test wants them.
///
///     @Suite(.ownThread, .realServers, .serialized) enum RealServerTests {}
///
/// Each test makes accounts of its own, so that tests do not meet.
package final class RealServers: Sendable {
    @TaskLocal static var suite: RealServers?

    package static let domain = "localhost"
    package static let password = "correct horse battery staple"

    package let folder: TemporaryFolder
    package let certificates: TestCertificates
    private let options: Options
    private let running = Mutex<[ServerKind: any TestServer]>([:])
    private let numbers = Mutex(0)

    /// What of all servers of a suite differs from the usual.
    struct Options: Sendable {
        var prosody: @Sendable (inout ProsodyOptions) -> Void
        var ejabberd: @Sendable (inout EjabberdOptions) -> Void
    }

    init(_ options: Options) throws {
        self.options = options
        folder = try TemporaryFolder()
        certificates = try TestCertificates(in: folder.path)
    }

    /// Those of the suite in which this is asked.
    package static var current: RealServers {
        get throws {
            guard let suite else { throw NoServers() }
            return suite
        }
    }

    /// A test that wants servers stands in a suite that has none.
    struct NoServers: Error, CustomStringConvertible {
        var description: String { "the test stands outside of a suite with the trait .realServers" }
    }

    /// The one that all tests of the suite share.
    package func server(_ kind: ServerKind) throws -> any TestServer {
        try running.withLock { running in
            if let server = running[kind] { return server }
            let names = ["pubsub", "conference"].map { "\($0).\(Self.domain)" }
            let server = try makeServer(kind, name: kind.rawValue, names: names)
            running[kind] = server
            return server
        }
    }

    /// A server of a test's own, whose options differ; the test closes it.
    ///
    /// - Parameter names: Further names in its certificate.
    package func special(
        _ kind: ServerKind, names: [String] = [], prosody: (inout ProsodyOptions) -> Void = { _ in },
        ejabberd: (inout EjabberdOptions) -> Void = { _ in }
    ) throws -> any TestServer {
        try makeServer(
            kind, name: "\(kind)-\(freshNumber())", names: names, prosody: prosody, ejabberd: ejabberd)
    }

    private func makeServer(
        _ kind: ServerKind, name: String, names: [String],
        prosody: (inout ProsodyOptions) -> Void = { _ in },
        ejabberd: (inout EjabberdOptions) -> Void = { _ in }
    ) throws -> any TestServer {
        let server = try kind.makeServer(
            folder: "\(folder.path)/\(name)", domain: Self.domain,
            certificate: certificates.makeServerCertificate(for: [Self.domain] + names, name: name),
            prosody: { value in
                options.prosody(&value)
                prosody(&value)
            },
            ejabberd: { value in
                options.ejabberd(&value)
                ejabberd(&value)
            })
        try server.start()
        return server
    }

    /// A number that no other test has.
    package func freshNumber() -> Int {
        numbers.withLock { numbers in
            numbers += 1
            return numbers
        }
    }

    /// A name that no other test uses.
    package func freshUser() -> String { "user\(freshNumber())" }

    func close() {
        for server in running.withLock({ $0.values }) { server.close() }
    }
}

/// Gives all tests of a suite the same servers and ends these after the last test.
package struct RealServersTrait: SuiteTrait, TestScoping {
    let options: RealServers.Options
    package var isRecursive: Bool { false }

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        let servers = try RealServers(options)
        defer { servers.close() }
        try await RealServers.$suite.withValue(servers) { try await function() }
    }
}

extension Trait where Self == RealServersTrait {
    package static var realServers: Self { realServers() }

    /// Servers whose options differ from the usual.
    package static func realServers(
        prosody: @escaping @Sendable (inout ProsodyOptions) -> Void = { _ in },
        ejabberd: @escaping @Sendable (inout EjabberdOptions) -> Void = { _ in }
    ) -> Self {
        RealServersTrait(options: .init(prosody: prosody, ejabberd: ejabberd))
    }
}
