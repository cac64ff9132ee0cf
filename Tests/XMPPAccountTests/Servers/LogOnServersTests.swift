import AccountTestSupport
import TestSupport
import Testing
import XMPPAccount
import TestServers

extension RealServerTests {
    /// What the log shows of sessions with real servers. That it shows no secret is checked for every account of every test
    /// here, when its home is closed; PLAIN, EXTERNAL and ANONYMOUS stand in ``MechanismsOnServersTests``.
    @Suite struct LogOnServersTests {
        @Test(
            "X16 logins by password, by token and in the older profile are in the log, and no secret of theirs",
            arguments: ServerKind.allCases)
        func logins(kind: ServerKind) async throws {
            try await withHome(kind) { home in
                for isExtensible in [true, true, false] {
                    let account = try home.account(.startTLS) { $0.usesExtensibleLogin = isExtensible }
                    try await account.connect()
                    try await account.caughtUp()
                    await account.close()
                }
                let logins = home.log.logins
                #expect(logins.count == 3)
                #expect(
                    logins.first?.hasPrefix("SCRAM-SHA-") == true
                        && logins.first?.hasSuffix("(SASL2)") == true)
                #expect(logins.dropFirst().first?.hasPrefix("HT-SHA-256-") == true)
                #expect(
                    logins.last?.hasPrefix("SCRAM-SHA-") == true && logins.last?.hasSuffix("-PLUS") == true)
                for shown in [
                    "sent <authenticate ", "<initial-response>…</initial-response>", "received <challenge ",
                    "sent <response ", "received <success ", "sent <auth ", "sent <resume ",
                    "received <resumed ",
                    "received <stream:features>", "sent <starttls ", "received <proceed ", "token='…'",
                ] {
                    #expect(home.log.holds(shown), "\(shown)")
                }
                let tokens = Secrets.tokens(in: home.store)
                #expect(!tokens.isEmpty && !tokens.contains { home.log.holds($0) })
            }
        }
    }
}
