import AccountTestSupport
import Handlers
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import TestServers

extension RealServerTests {
    /// Lines that die without an end, with intervals that a test can wait for.
    @Suite struct DeadLineTests {
        private func account(_ home: RealHome, _ proxy: LoopbackProxy) throws -> Account {
            try home.account(port: proxy.port) {
                $0.keepAlive = .milliseconds(400)
                $0.acknowledgementTimeout = .seconds(5)
            }
        }

        @Test(
            "X21 a line that carries nothing any more is noticed, and the session goes on over another one",
            arguments: ServerKind.allCases)
        func blackHole(kind: ServerKind) async throws {
            try await withHome(kind) { home in
                let proxy = try LoopbackProxy(to: home.port(.directTLS))
                let account = try account(home, proxy)
                let events = EventReader(account)
                try await account.connect()
                try await account.caughtUp()
                proxy.strand()
                guard case .suspended(let error) = await events.until("suspended") else {
                    Issue.record("the account was closed")
                    return
                }
                #expect(error.code == .timedOut)
                await events.until("resumed")
                try await account.caughtUp()
            }
        }

        @Test(
            "X21 a line that only loses what is sent from here is noticed, however much arrives",
            arguments: ServerKind.allCases)
        func deafServer(kind: ServerKind) async throws {
            try await withHome(kind) { home in
                let proxy = try LoopbackProxy(to: home.port(.directTLS))
                let account = try account(home, proxy)
                let events = EventReader(account)
                try await account.listen()
                try await account.connect()
                try await account.caughtUp()
                let peer = try home.scene.peer()
                defer { peer.close() }
                try peer.sendMessages(to: home.jid.description, count: 3000, rate: 30, prefix: "p")
                try await eventually { try home.store.notes("message").count > 10 }
                let before = try home.store.notes("message").count
                proxy.deafen()
                guard case .suspended(let error) = await events.until("suspended") else {
                    Issue.record("the account was closed")
                    return
                }
                #expect(error.code == .timedOut)
                try peer.stopSending()
                let sent = try peer.waitUntilSent(prefix: "p", deadline: .now + .seconds(60))
                #expect(before..<3000 ~= sent, "noticed while messages still came")
                await events.until("resumed")
                try await eventually { try home.store.notes("message").count >= sent }
                try await account.caughtUp()
                let notes = try home.store.notes("message")
                #expect(notes.count == sent && Set(notes).count == sent)
            }
        }
    }
}
