import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
@testable import XMPPAccount
import XMPPCore
import XMPPTransport
import TestServers

extension RealServerTests {
    /// How many times the client must wait for the server: over a long line that is what connecting costs.
    ///
    /// A round trip for TCP comes before the first flight.
    @Suite struct FlightTests {
        typealias Security = AccountConfiguration.Server.Security

        /// Opens streams one after the other, as processes that follow each other do.
        private final class Line {
            let home: RealHome
            let account: Account
            let proxy: LoopbackProxy
            private let memory: LoginMemory

            init(
                _ home: RealHome, _ security: Security, delay: Duration = .milliseconds(40),
                _ change: (inout AccountConfiguration) -> Void = { _ in }
            ) throws {
                self.home = home
                proxy = try LoopbackProxy(to: home.port(security), delay: delay)
                account = try home.account(security, port: proxy.port, change)
                memory = LoginMemory()
            }

            /// Opens a stream, commits what came of it and breaks the line.
            ///
            /// - Returns: The flights up to the session, and whether it was resumed.
            func open() async throws -> (flights: Int, isResumed: Bool) {
                let opener = StreamOpener(
                    configuration: account.configuration, login: try StoredLogin(account),
                    memory: memory, resource: "flight.\(StanzaID.random())")
                let opened = try await opener.opened()
                let flights = try #require(proxy.records.last).flights
                let account = account
                let isResumed = try account.store.step { step in
                    try account.logins.learn(opened.learned, in: step)
                    guard case .bound(let session, _) = opened.outcome else { return true }
                    try account.sessions.start(session, in: step)
                    return false
                }
                opened.connection.closeDirty()
                return (flights, isResumed)
            }
        }

        private func report(_ kind: ServerKind, _ what: String, _ flights: Int) {
            print("flights on \(kind), \(what): \(flights) after the TCP connect")
        }

        @Test(
            "X7 from connect to resumed takes three round trips on direct TLS: TCP, TLS, login and resumption",
            arguments: ServerKind.allCases)
        func threeRoundTrips(kind: ServerKind) async throws {
            try await withHome(kind) { home in
                let line = try Line(home, .directTLS)
                let first = try await line.open()
                report(kind, "direct TLS, first login", first.flights)
                #expect(!first.isResumed)
                let second = try await line.open()
                report(kind, "direct TLS, token, resumed", second.flights)
                #expect(second.isResumed)
                #expect(second.flights == 2)
                let passages = try #require(line.proxy.records.last).passages
                #expect(passages.first?.isFromClient == true && passages.contains { !$0.isFromClient })
                #expect(try await line.open().flights == 2, "a token is good for more than one login")
                // Prosody gives a new token with every resumption, ejabberd leaves the old one.
                let count = try home.store.number("SELECT count FROM fast_token")
                #expect(count == (kind == .prosody ? 0 : 2))
            }
        }

        @Test(
            "X7 over STARTTLS the token costs one flight more; without token and newer profile it is the fewest that SCRAM allows",
            arguments: ServerKind.allCases)
        func others(kind: ServerKind) async throws {
            try await withHome(kind) { home in
                let starttls = try Line(home, .startTLS)
                _ = try await starttls.open()
                let token = try await starttls.open()
                report(kind, "STARTTLS, token, resumed", token.flights)
                #expect(token.isResumed && token.flights == 3)
            }
            try await withHome(kind) { home in
                let password = try Line(home, .directTLS) { $0.usesTokens = false }
                _ = try await password.open()
                let second = try await password.open()
                report(kind, "direct TLS, SASL2 by password, resumed", second.flights)
                #expect(second.isResumed && second.flights == 3)
            }
            try await withHome(kind) { home in
                let classic = try Line(home, .directTLS) { $0.usesExtensibleLogin = false }
                let first = try await classic.open()
                report(kind, "direct TLS, RFC 6120, first login", first.flights)
                let second = try await classic.open()
                report(kind, "direct TLS, RFC 6120, resumed", second.flights)
                #expect(second.isResumed && second.flights == 4)
            }
        }

        @Test(
            "X7 a new session is bound inside the login where that is wanted", arguments: ServerKind.allCases)
        func bindsInline(kind: ServerKind) async throws {
            try await withHome(kind) { home in
                let line = try Line(home, .directTLS) { $0.bindsInline = true }
                let first = try await line.open()
                report(kind, "direct TLS, SASL2 and Bind 2, first login", first.flights)
                #expect(first.flights == 4)
                let account = line.account
                try home.store.step { step in try account.sessions.lose(in: step) }
                let second = try await line.open()
                report(kind, "direct TLS, token and Bind 2, new session", second.flights)
                #expect(!second.isResumed && second.flights == 2)
                #expect(try await line.open().isResumed, "the session bound inline can be resumed")
            }
        }
    }
}
