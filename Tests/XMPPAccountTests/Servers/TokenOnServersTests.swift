import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import Testing
import XMPPAccount
import XMPPTransport
import XMPPCore
import TestServers

extension RealServerTests {
    /// Logging in with tokens, on each real server.
    @Suite struct TokenOnServersTests {
        @Test(
            "X7 a token logs in after the password is gone from the configuration, in another process too",
            arguments: ServerKind.allCases)
        func tokenInsteadOfPassword(kind: ServerKind) async throws {
            try await withHome(kind) { home in
                let first = try home.account()
                try await first.connect()
                await first.close()
                #expect(try home.store.number("SELECT count(*) FROM fast_token WHERE count = 0") == 1)
                let second = try home.account { $0.password = "forgotten" }
                try await second.connect()
                #expect(try home.sessions == [1, 1])
                try await second.caughtUp()
                // Prosody gave another one, ejabberd left the old one.
                #expect(try home.store.number("SELECT count FROM fast_token") == (kind == .prosody ? 0 : 1))
            }
        }

        @Test(
            "X7 a token that the server does not take is dropped, and the password takes its place on the same stream",
            arguments: ServerKind.allCases)
        func refusedToken(kind: ServerKind) async throws {
            try await withHome(kind) { home in
                let account = try home.account()
                try await account.connect()
                try await account.suspend()
                try home.store.change("UPDATE fast_token SET token = 'secret-token:nonsense'")
                try await account.connect()
                #expect(try home.sessions == [1, 1])
                #expect(
                    try home.store.number("SELECT count(*) FROM fast_token WHERE token LIKE '%nonsense'") == 0
                )
                #expect(
                    try home.store.number("SELECT count(*) FROM fast_token") == 1, "a new one was asked for")
            }
        }

        @Test(
            "X7 what is sent ahead of the features does not harm when the server offers something else now",
            arguments: ServerKind.allCases)
        func staleOffer(kind: ServerKind) async throws {
            try await withHome(kind) { home in
                let account = try home.account { $0.usesTokens = false }
                try await account.connect()
                try await account.suspend()
                try home.store.change(
                    "UPDATE login SET offer = replace(offer, 'SCRAM-SHA-256', 'SCRAM-SHA-512'), pinned = NULL"
                )
                try await account.connect()
                #expect(try home.sessions == [1, 1])
            }
        }

        @Test(
            "X7 a message that waits for a new session arrives, although the login is inline",
            arguments: ServerKind.allCases)
        func offlineMessages(kind: ServerKind) async throws {
            try await withHome(kind) { home in
                let account = try home.account()
                try await account.listen()
                try await account.connect()
                try await account.logOut()
                let peer = try home.scene.peer()
                try peer.sendMessages(to: home.jid.description, count: 3, prefix: "off")
                _ = try peer.waitUntilSent(prefix: "off", deadline: .now + .seconds(20))
                peer.close()
                try await account.connect()
                try await eventually("the messages") { try home.store.notes("message").count == 3 }
            }
        }

        @Test(
            "X6 the mechanism is pinned with its channel binding and its iteration count",
            arguments: ServerKind.allCases)
        func pinned(kind: ServerKind) async throws {
            try await withHome(kind) { home in
                let account = try home.account()
                try await account.connect()
                #expect(
                    try home.store.number("SELECT count(*) FROM login WHERE pinned = 'SCRAM-SHA-256-PLUS'")
                        == 1)
                #expect(try home.store.number("SELECT iterations FROM login") >= 4096)
                try await account.suspend()
                try home.store.change("DELETE FROM fast_token")
                try home.store.change("UPDATE login SET iterations = 900000")
                let fewer = await errorOf { try await account.connect() } as? SASLError
                #expect(fewer?.code == .tooFewIterations)
                try home.store.change("UPDATE login SET pinned = 'SCRAM-SHA-512-PLUS'")
                let weaker = await errorOf { try await account.connect() } as? SASLError
                #expect(weaker?.code == .downgradeSuspected)
                #expect(weaker?.message.contains("forgetLogin()") == true)
                try await account.forgetLogin()
                try await account.connect()
            }
        }
    }
}
