import AccountTestSupport
import TestThreads
import Testing
import XMPPCore

@testable import XMPPAccount
@testable import XMPPModules

/// Copies whose message leaves out an address: it is the account's.
@Suite(.ownThread) struct CarbonAddressTests {
    private static let stranger = "mallory@localhost/x"

    private func copy(_ kind: String, from: String?, to: String?) -> String {
        """
        <message from='\(FedAccount.own)' to='\(FedAccount.full)'><\(kind) xmlns='\(Namespaces.carbons)'>\
        <forwarded xmlns='\(Namespaces.forward)'><message xmlns='jabber:client' id='c1' type='chat'\
        \(from.map { " from='\($0)'" } ?? "")\(to.map { " to='\($0)'" } ?? "")><body>x</body></message>\
        </forwarded></\(kind)></message>
        """
    }

    @Test(
        "X37 an absent address in a copy is the account's",
        arguments: [
            ("sent", "alice@localhost/other", "romeo@localhost"), ("sent", nil, "romeo@localhost"),
            ("sent", "alice@localhost/other", nil), ("sent", nil, nil),
            ("received", "romeo@localhost/a", "alice@localhost"), ("received", "romeo@localhost/a", nil),
            ("received", nil, "alice@localhost"), ("received", nil, nil),
        ] as [(String, String?, String?)])
    func absent(kind: String, from: String?, to: String?) async throws {
        try await withFed(CarbonsModule()) { fed in
            let refusal = try fed.receive(copy(kind, from: from, to: to))
            #expect(refusal == nil)
            let isOwn = from?.hasPrefix("romeo") != true
            #expect(try fed.store.notes("kind") == ["c1: news\(isOwn ? " of its own" : "")"])
        }
    }

    @Test("X37 a copy of what somebody else sent or received is none, whatever it leaves out")
    func strangers() async throws {
        try await withFed(CarbonsModule()) { fed in
            for (kind, from, to) in [
                ("sent", Self.stranger, nil), ("sent", Self.stranger, "alice@localhost"),
                ("received", nil, Self.stranger), ("received", "romeo@localhost/a", Self.stranger),
            ] as [(String, String?, String?)] {
                let refusal = try fed.receive(copy(kind, from: from, to: to))
                #expect(refusal != nil)
            }
            #expect(try fed.store.notes("message").isEmpty)
        }
    }
}
