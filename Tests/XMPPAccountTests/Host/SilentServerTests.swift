import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore

@testable import XMPPAccount

/// Accounts of a server that takes connections and says nothing, beside those of one that works.
@Suite(.serialized, .ownThread, .timeLimit(.minutes(10))) struct SilentServerTests {
    /// `HOST_SILENT=640 HOST_GOOD=100` in `make torture`.
    private static let silent = number("HOST_SILENT") ?? 24
    private static let good = number("HOST_GOOD") ?? 4
    private static let isWhole = number("HOST_SILENT") != nil

    private static func number(_ variable: String) -> Int? {
        ProcessInfo.processInfo.environment[variable].flatMap { Int($0) }
    }

    @Test("A4 a silent server holds up its own accounts, and no account of another one by more than a second")
    func silence() async throws {
        try await withRig { configuration in
            for number in 0..<Self.good { configuration.accounts["u\(number)"] = "secret" }
        } _: { rig in
            var limits = AccountHost.Configuration()
            if !Self.isWhole { limits.openings = 4 }
            let host = try AccountHost(limits)
            let result: Result<Void, any Error>
            do {
                result = .success(try await silence(rig, host))
            } catch { result = .failure(error) }
            await host.close()
            try result.get()
        }
    }

    private func silence(_ rig: AccountRig, _ host: AccountHost) async throws {
        let store = try rig.store()
        var accounts: [Account] = []
        for number in 0..<Self.good {
            let account = try host.add(try good(rig, number), store: store)
            try await account.listen()
            accounts.append(account)
            host.connect(account)
        }
        for account in accounts { try await account.connect(retrying: true) }
        let alone = try await outage(accounts, rig)
        // It is never accepted from, but the kernel answers for it.
        let listener = try Listener(backlog: 4096)
        for number in 0..<Self.silent {
            host.connect(try host.add(try silent(listener, number), store: store))
        }
        let server = ServerPlace(try silent(listener, 0))
        try await eventually("its openings wait", within: .seconds(120)) {
            let count = host.services.gate.count(of: server)
            return count.inside == host.configuration.openings && count.inside + count.waiting == Self.silent
        }
        for _ in 0..<3 {
            let beside = try await outage(accounts, rig)
            print("accounts of another server are back after \(beside), alone after \(alone)")
            // In full it is measured alone on the machine. Without places of its own the small one would wait for ever.
            #expect(beside < alone + (Self.isWhole ? .seconds(1) : .seconds(10)))
        }
        #expect(host.services.gate.count(of: server).inside == host.configuration.openings)
    }

    /// Breaks all lines of the server that works.
    ///
    /// - Returns: The time until all of its accounts have a stream again.
    private func outage(_ accounts: [Account], _ rig: AccountRig) async throws -> Duration {
        let start = ContinuousClock.now
        let index = rig.server.log.entries.count
        rig.server.dropConnections()
        try await eventually("all are back", within: .seconds(60)) {
            rig.server.log.entries(from: index).count { $0.event == .resumed } == accounts.count
        }
        let time = ContinuousClock.now - start
        for account in accounts { try await account.caughtUp() }
        return time
    }

    private func good(_ rig: AccountRig, _ number: Int) throws -> AccountConfiguration {
        let jid = try JID("u\(number)@localhost")
        return rig.configuration {
            let (server, trust) = ($0.server, $0.trust)
            $0 = AccountConfiguration(jid: jid, password: "secret", server: server)
            $0.trust = trust
        }
    }

    private func silent(_ listener: Listener, _ number: Int) throws -> AccountConfiguration {
        var configuration = AccountConfiguration(
            jid: try JID("s\(number)@silent.test"), password: "secret",
            server: .init(host: "127.0.0.1", port: listener.port, security: .directTLS))
        if !Self.isWhole { configuration.connectTimeout = .seconds(86_400) }
        return configuration
    }
}
