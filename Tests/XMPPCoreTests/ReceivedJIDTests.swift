import TestThreads
import Testing

@testable import XMPPCore

/// Addresses that a server lets through although RFC 7622 refuses them.
@Suite(.ownThread) struct ReceivedJIDTests {
    static let kept: [(text: String, local: String?, domain: String, resource: String?)] = [
        ("♥nurse@localhost", "♥nurse", "localhost", nil),
        ("♥Nurse@LOCALHOST/Ward", "♥nurse", "localhost", "Ward"),
        ("★★★@example.org/a", "★★★", "example.org", "a"),
        ("☎4711@example.org", "☎4711", "example.org", nil),
        ("a±b@example.org", "a±b", "example.org", nil),
        ("😀@example.org", "😀", "example.org", nil),
        ("a\u{5D0}@example.org", "a\u{5D0}", "example.org", nil),
        ("a@xn--ls8h.la", "a", "💩.la", nil),
        ("a@💩.la", "a", "💩.la", nil),
        ("a@-host.example", "a", "-host.example", nil),
        ("a@host-.example.", "a", "host-.example", nil),
        ("a@xn--zzzzzz99999.example", "a", "xn--zzzzzz99999.example", nil),
        ("a@b/\u{E000}", "a", "b", "\u{E000}"),
    ]

    @Test(
        "X30 an address that a server lets through is read, and reading it again gives the same",
        arguments: kept)
    func keeps(text: String, local: String?, domain: String, resource: String?) throws {
        #expect(throws: JIDError.self) { try JID(text) }
        let jid = try JID(received: text)
        #expect(jid.local?.string == local)
        #expect(jid.domain.string == domain)
        #expect(jid.resource?.string == resource)
        #expect(try JID(received: jid.description) == jid)
        #expect(try JID(coded: jid.coded) == jid)
    }

    @Test("X30 what a program may write is read in the same way", arguments: JIDTests.valid.map(\.text))
    func same(text: String) throws {
        let (strict, received) = (try JID(text), try JID(received: text))
        #expect(strict == received)
        #expect(strict.description.utf8.elementsEqual(received.description.utf8))
    }

    @Test(
        "X30 what could be taken for another address is refused",
        arguments: [
            "", "@a", "a@", "a@b/", "♥ nurse@b", "♥\u{3000}x@b", "♥'x@b", "♥&x@b", "♥:x@b", "♥<x@b",
            "♥\u{7F}@b", "♥\u{9F}@b",
            "♥\u{E000}@b", "♥＠x@b", "♥／x@b", "a@b..c", "a@-x:5222", "a@-x y", "a@-[x]", "a@b/\u{7F}",
            "a@-\u{FF0F}x", "\u{2665}" + String(repeating: "x", count: 1021) + "@b",
            "a@-" + String(repeating: "x", count: 1023),
        ])
    func refused(text: String) {
        #expect(throws: JIDError.self) { try JID(received: text) }
    }

    @Test("X30 an address that is kept is never one that a program can write")
    func distinct() throws {
        for (text, _, _, _) in Self.kept {
            let kept = try JID(received: text)
            #expect(throws: JIDError.self) { try JID(kept.description) }
        }
    }
}
