import IQTracker
import TestThreads
import Testing
import XMPPCore

@Suite(.ownThread) struct PeerRuleTests {
    static let own = "me@example.org/phone"

    struct Case: CustomTestStringConvertible, Sendable {
        var asked: String?
        var from: String?
        var isError = false
        /// Whether nobody could guess the id.
        var isSecret = false
        var isTaken: Bool

        var testDescription: String {
            "asked \(asked ?? "nobody"), \(isError ? "error" : "result") from \(from ?? "nobody")"
        }
    }

    static let cases: [Case] = [
        // Nobody named: the own account answers, in whatever way servers have done it.
        Case(asked: nil, from: nil, isTaken: true),
        Case(asked: nil, from: "me@example.org", isTaken: true),
        Case(asked: nil, from: "example.org", isTaken: true),
        Case(asked: nil, from: "me@example.org/phone", isTaken: true),
        Case(asked: nil, from: "me@example.org/tablet", isTaken: false),
        Case(asked: nil, from: "you@example.org", isTaken: false),
        // The own bare address.
        Case(asked: "me@example.org", from: nil, isTaken: true),
        Case(asked: "me@example.org", from: "me@example.org", isTaken: true),
        Case(asked: "me@example.org", from: "example.org", isTaken: false),
        Case(asked: "me@example.org", from: "me@example.org/phone", isTaken: false),
        // The own server.
        Case(asked: "example.org", from: "example.org", isTaken: true),
        Case(asked: "example.org", from: nil, isTaken: true),
        Case(asked: "example.org", from: "me@example.org", isTaken: false),
        Case(asked: "example.org", from: "evil.example", isTaken: false),
        // Anyone else: exactly that address.
        Case(asked: "you@example.com/desk", from: "you@example.com/desk", isTaken: true),
        Case(asked: "you@example.com/desk", from: "you@EXAMPLE.com/desk", isTaken: true),
        Case(asked: "you@example.com/desk", from: "you@example.com/Desk", isTaken: false),
        Case(asked: "you@example.com/desk", from: "you@example.com", isTaken: false),
        Case(asked: "you@example.com/desk", from: "example.com", isTaken: false),
        Case(asked: "you@example.com/desk", from: nil, isTaken: false),
        Case(asked: "you@example.com/desk", from: nil, isError: true, isTaken: true),
        Case(asked: "you@example.com/desk", from: "example.org", isError: true, isTaken: false),
    ]

    /// Stringprep and RFC 7622 write these otherwise. An answer under another form needs the request to be seen.
    static let forms: [Case] = [
        Case(asked: "groß@example.com", from: "gross@example.com", isSecret: true, isTaken: true),
        Case(
            asked: "groß@example.com", from: "gross@example.com", isError: true, isSecret: true, isTaken: true
        ),
        Case(asked: "gross@example.com", from: "groß@example.com", isSecret: true, isTaken: true),
        Case(asked: "groß@example.com/a", from: "gross@example.com/a", isSecret: true, isTaken: true),
        Case(asked: "groß@example.com", from: "gross@example.com", isTaken: false),
        Case(asked: "groß@example.com", from: "gross@example.com", isError: true, isTaken: false),
        Case(asked: "groß@example.com/a", from: "gross@example.com/b", isSecret: true, isTaken: false),
        Case(asked: "groß@example.com/a", from: "gross@example.com", isSecret: true, isTaken: false),
        Case(asked: "groß@example.com", from: "gross@evil.example", isSecret: true, isTaken: false),
        Case(asked: "groß@example.com", from: "grosz@example.com", isSecret: true, isTaken: false),
        Case(asked: "you@example.com", from: "evil@example.com", isSecret: true, isTaken: false),
        Case(asked: nil, from: "evil@example.org", isSecret: true, isTaken: false),
        Case(asked: "me@example.org", from: "evil@example.org", isSecret: true, isTaken: false),
    ]

    @Test("X30 a program may ask the own account under the address that it was configured with")
    func configured() throws {
        for asked in ["νίκος@example.org", "νίκοσ@example.org"] {
            for from in [nil, "νίκοσ@example.org"] {
                let isTaken = PeerRule.accepts(
                    from: try from.map { try JID($0) }, asked: try JID(asked),
                    account: try JID("νίκοσ@example.org/phone"), isError: false, isSecret: true)
                #expect(isTaken, "\(asked) from \(from ?? "nobody")")
            }
        }
    }

    @Test("Q2 an answer is taken only from the address that was asked", arguments: cases + forms)
    func sender(_ example: Case) throws {
        let isTaken = PeerRule.accepts(
            from: try example.from.map { try JID($0) }, asked: try example.asked.map { try JID($0) },
            account: try JID(Self.own), isError: example.isError,
            isSecret: example.isSecret)
        #expect(isTaken == example.isTaken)
    }
}
