package import Handlers
package import XMPPAccount
package import XMPPCore
package import TestServers
package import XMPPTestKit

/// Accounts of one test on a real server, of ours and of clients that share no code with us, and what is to be closed at
/// the end.
package final class RealScene: Sendable, TestResource {
    package let server: any TestServer
    package let certificates: TestCertificates
    package let folder: TemporaryFolder
    package let servers: RealServers
    /// What every account of ours logged, the XML in both directions with it.
    package let log = KeptLog()
    private let accounts = Kept<[Account]>([])
    private let opened = Kept<[SlixmppPeer]>([])

    /// - Parameters:
    ///   - server: One of the test's own; nil takes the suite's.
    ///   - certificates: That server's, if they are not the suite's either.
    package init(
        _ kind: ServerKind, server: (any TestServer)? = nil, certificates: TestCertificates? = nil
    ) throws {
        servers = try RealServers.current
        self.server = try server ?? servers.server(kind)
        self.certificates = certificates ?? servers.certificates
        folder = try TemporaryFolder()
    }

    /// Makes an account on the server.
    ///
    /// - Parameter user: Its name, which no other test uses; nil takes a fresh one.
    package func addUser(_ user: String? = nil) throws -> JID {
        let user = user ?? servers.freshUser()
        try server.addAccount(user, password: RealServers.password)
        return try JID(local: user, domain: RealServers.domain)
    }

    // MARK: Ours

    package typealias Security = AccountConfiguration.Server.Security

    package func port(_ security: Security) -> UInt16 {
        security == .directTLS ? server.directTLSPort : server.startTLSPort
    }

    /// - Parameter port: The server's own if it is nil.
    package func configuration(
        of jid: JID, _ security: Security = .directTLS, port: UInt16? = nil
    ) -> AccountConfiguration {
        var configuration = AccountConfiguration(
            jid: jid, password: RealServers.password,
            server: .init(host: server.host, port: port ?? self.port(security), security: security))
        configuration.trust = .file(path: certificates.authorityFile)
        configuration.log = log.log
        return configuration
    }

    /// An account as another process would make it.
    package func account(_ configuration: AccountConfiguration, store: HandlerStore) throws -> Account {
        let account = try Account(configuration, store: store)
        accounts.withLock { $0.append(account) }
        return account
    }

    // MARK: Others

    /// Starts an independent client.
    ///
    /// - Parameters:
    ///   - script: On `peer.py`; nil takes the one of the simulation.
    ///   - jid: Its account, with the password of all; nil makes one.
    package func peer(
        _ script: [UInt8]? = nil, as jid: JID? = nil, resource: String = "peer",
        environment: [String: String] = [:], deadline: ContinuousClock.Instant = .now + .seconds(60)
    ) throws -> SlixmppPeer {
        let peer = try SlixmppPeer(
            script: script, folder: "\(folder.path)/peer-\(servers.freshNumber())",
            jid: try (jid ?? addUser()).with(resource: resource), password: RealServers.password,
            host: server.host, port: server.startTLSPort, trustFile: certificates.authorityFile,
            environment: environment)
        opened.withLock { $0.append(peer) }
        try peer.start(deadline: deadline)
        return peer
    }

    /// Every client that was started.
    package var peers: [SlixmppPeer] { opened.withLock { $0 } }

    package func close() async {
        for account in accounts.withLock({ $0 }) {
            await account.close()
            log.expectNoSecrets(of: account)
        }
        for peer in peers { peer.kill() }
    }
}
