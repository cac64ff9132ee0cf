import Foundation
import Testing
import XMPPCore

/// RFC 7622, by table.
@Suite struct JIDTests {
    struct Valid: CustomTestStringConvertible, Sendable {
        let text: String
        let local: String?
        let domain: String
        let resource: String?
        var testDescription: String { text }

        init(_ text: String, _ local: String?, _ domain: String, _ resource: String? = nil) {
            self.text = text
            self.local = local
            self.domain = domain
            self.resource = resource
        }
    }

    static let valid: [Valid] = [
        // RFC 7622 section 3.5, table 1.
        Valid("juliet@example.com", "juliet", "example.com"),
        Valid("juliet@example.com/foo", "juliet", "example.com", "foo"),
        Valid("juliet@example.com/foo bar", "juliet", "example.com", "foo bar"),
        Valid("juliet@example.com/foo@bar", "juliet", "example.com", "foo@bar"),
        Valid("foo\\20bar@example.com", "foo\\20bar", "example.com"),
        Valid("fussball@example.com", "fussball", "example.com"),
        Valid("fu\u{DF}ball@example.com", "fu\u{DF}ball", "example.com"),
        Valid("\u{3C0}@example.com", "\u{3C0}", "example.com"),
        Valid("\u{3A3}@example.com/foo", "\u{3C3}", "example.com", "foo"),
        Valid("\u{3C3}@example.com/foo", "\u{3C3}", "example.com", "foo"),
        Valid("\u{3C2}@example.com/foo", "\u{3C2}", "example.com", "foo"),
        Valid("king@example.com/\u{265A}", "king", "example.com", "\u{265A}"),
        Valid("example.com", nil, "example.com"),
        Valid("example.com/foobar", nil, "example.com", "foobar"),
        Valid("a.example.com/b@example.net", nil, "a.example.com", "b@example.net"),
        // The split.
        Valid("evil.org/x@victim.com", nil, "evil.org", "x@victim.com"),
        Valid("a@b/c/d@e/f", "a", "b", "c/d@e/f"),
        Valid("a@b//", "a", "b", "/"),
        Valid("b/@", nil, "b", "@"),
        // The domain.
        Valid("a@EXAMPLE.org.", "a", "example.org"),
        Valid("localhost", nil, "localhost"),
        Valid("127.0.0.1", nil, "127.0.0.1"),
        Valid("a@192.0.2.1/r", "a", "192.0.2.1", "r"),
        Valid("[::1]", nil, "[::1]"),
        Valid("a@[2001:DB8::1]/r", "a", "[2001:db8::1]", "r"),
        Valid("[::ffff:192.0.2.1]", nil, "[::ffff:192.0.2.1]"),
        Valid("[1:2:3:4:5:6:7:8]", nil, "[1:2:3:4:5:6:7:8]"),
        Valid("[::]", nil, "[::]"),
        Valid("[1::]", nil, "[1::]"),
        Valid("M\u{DC}NCHEN.example", nil, "m\u{FC}nchen.example"),
        Valid("xn--mnchen-3ya.example", nil, "xn--mnchen-3ya.example"),
        Valid("a\u{3002}example", nil, "a.example"),
        Valid("\u{FF45}xample.org", nil, "example.org"),
        Valid("under_score.example", nil, "under_score.example"),
        // The localpart.
        Valid("Juliet@example.com", "juliet", "example.com"),
        Valid("a!#$%()*+,-.;=?[\\]^_`{|}~@b", "a!#$%()*+,-.;=?[\\]^_`{|}~", "b"),
        Valid("\u{FF21}lice@b", "alice", "b"),
        Valid("\u{6F22}\u{5B57}@b", "\u{6F22}\u{5B57}", "b"),
        Valid("\u{1C8A0}@b", "\u{1C8A0}", "b"),
        // The resource.
        Valid("a@b/Balcony", "a", "b", "Balcony"),
        Valid("a@b/ ", "a", "b", " "),
        Valid("a@b/ x ", "a", "b", " x "),
        Valid("a@b/x\u{A0}y\u{3000}z", "a", "b", "x y z"),
        Valid(
            "a@b/\u{1F469}\u{200D}\u{1F469}\u{200D}\u{1F467}\u{FE0F}", "a", "b",
            "\u{1F469}\u{200D}\u{1F469}\u{200D}\u{1F467}\u{FE0F}"),
        Valid("a@b/\u{301}", "a", "b", "\u{301}"),
    ]

    @Test("X1 a valid JID is split and prepared", arguments: valid)
    func validJIDs(_ expected: Valid) throws {
        let jid = try JID(expected.text)
        // Scalars, since String's own equality is blind to the form of normalization.
        #expect(jid.local.map { Array($0.unicodeScalars) } == expected.local.map { Array($0.unicodeScalars) })
        #expect(Array(jid.domain.unicodeScalars) == Array(expected.domain.unicodeScalars))
        #expect(
            jid.resource.map { Array($0.unicodeScalars) }
                == expected.resource.map { Array($0.unicodeScalars) })
    }

    @Test(
        "X1 preparing twice changes nothing, and the text form reads back as the same JID", arguments: valid)
    func idempotent(_ expected: Valid) throws {
        let jid = try JID(expected.text)
        let again = try JID(jid.description)
        #expect(again == jid)
        #expect(Array(again.description.utf8) == Array(jid.description.utf8))
        #expect(try JID(local: jid.local, domain: jid.domain, resource: jid.resource) == jid)
    }

    struct Invalid: CustomTestStringConvertible, Sendable {
        let text: String
        let code: JIDError.Code
        let part: JIDError.Part
        var testDescription: String { text.count > 40 ? "\(text.prefix(20))… (\(text.utf8.count))" : text }

        init(_ text: String, _ code: JIDError.Code, _ part: JIDError.Part) {
            self.text = text
            self.code = code
            self.part = part
        }
    }

    private static func long(_ count: Int) -> String { String(repeating: "x", count: count) }
    private static let longDomain = Array(repeating: String(repeating: "d", count: 63), count: 16).joined(
        separator: ".")

    static let invalid: [Invalid] = [
        // Empty parts.
        Invalid("", .empty, .domainpart), Invalid("@", .empty, .localpart), Invalid("/", .empty, .domainpart),
        Invalid("@d", .empty, .localpart), Invalid("a@", .empty, .domainpart),
        Invalid("/r", .empty, .domainpart),
        Invalid("a@b/", .empty, .resourcepart), Invalid("b/", .empty, .resourcepart),
        Invalid("@/", .empty, .localpart),
        Invalid("a@/r", .empty, .domainpart), Invalid("@example.com/", .empty, .localpart),
        Invalid(".", .empty, .domainpart),
        Invalid("a@.", .empty, .domainpart), Invalid("@d/r", .empty, .localpart),
        // Lengths in octets.
        Invalid(long(1024) + "@b", .tooLong, .localpart),
        Invalid("a@b/" + long(1024), .tooLong, .resourcepart),
        Invalid(longDomain + "x", .tooLong, .domainpart),
        Invalid(String(repeating: "\u{E9}", count: 512) + "@b", .tooLong, .localpart),
        Invalid("a@b/" + String(repeating: "\u{1F600}", count: 256), .tooLong, .resourcepart),
        Invalid(long(5_000_000) + "@b", .tooLong, .localpart),
        // RFC 7622 section 3.5, table 2.
        Invalid("\"juliet\"@example.com", .forbiddenCharacter, .localpart),
        Invalid("foo bar@example.com", .forbiddenCharacter, .localpart),
        Invalid("henry\u{2163}@example.com", .forbiddenCharacter, .localpart),
        Invalid("\u{265A}@example.com", .forbiddenCharacter, .localpart),
        // The excluded ASCII of section 3.3.1; '/' and '@' split before they could be refused.
        Invalid("a&b@c", .forbiddenCharacter, .localpart), Invalid("a'b@c", .forbiddenCharacter, .localpart),
        Invalid("a:b@c", .forbiddenCharacter, .localpart), Invalid("a<b@c", .forbiddenCharacter, .localpart),
        Invalid("a>b@c", .forbiddenCharacter, .localpart),
        Invalid("a\u{FF20}b@c", .forbiddenCharacter, .localpart),
        Invalid("a\tb@c", .forbiddenCharacter, .localpart),
        Invalid("a\0b@c", .forbiddenCharacter, .localpart),
        Invalid("a\u{7F}@c", .forbiddenCharacter, .localpart),
        Invalid("a\u{A0}@c", .forbiddenCharacter, .localpart),
        Invalid("a\u{202E}b@c", .forbiddenCharacter, .localpart),
        Invalid("a\u{AD}b@c", .forbiddenCharacter, .localpart),
        Invalid("a\u{E000}@c", .forbiddenCharacter, .localpart),
        Invalid("a\u{FFFE}@c", .forbiddenCharacter, .localpart),
        Invalid("a\u{1F600}@c", .forbiddenCharacter, .localpart),
        // The domain.
        Invalid("a@b@c", .forbiddenCharacter, .domainpart),
        Invalid("a@b@c/d", .forbiddenCharacter, .domainpart),
        Invalid("a@example.org:5222", .port, .domainpart), Invalid("[::1]:5222", .port, .domainpart),
        Invalid("::1", .port, .domainpart), Invalid("a b", .forbiddenCharacter, .domainpart),
        Invalid(" example.org", .forbiddenCharacter, .domainpart),
        Invalid("example.org ", .forbiddenCharacter, .domainpart),
        Invalid("exa\nmple.org", .forbiddenCharacter, .domainpart),
        Invalid("b\0", .forbiddenCharacter, .domainpart),
        Invalid("a@<b>", .forbiddenCharacter, .domainpart),
        Invalid("a@b\u{1F600}", .forbiddenCharacter, .domainpart),
        Invalid("a@b\u{202E}c", .forbiddenCharacter, .domainpart),
        Invalid("a..b", .invalidLabel, .domainpart), Invalid(".b", .invalidLabel, .domainpart),
        Invalid("b..", .invalidLabel, .domainpart), Invalid("-b.org", .invalidLabel, .domainpart),
        Invalid("b-.org", .invalidLabel, .domainpart), Invalid(long(64) + ".org", .invalidLabel, .domainpart),
        Invalid("[", .invalidAddress, .domainpart), Invalid("[::1", .invalidAddress, .domainpart),
        Invalid("[]", .invalidAddress, .domainpart), Invalid("[::1]x", .invalidAddress, .domainpart),
        Invalid("[1::2::3]", .invalidAddress, .domainpart),
        Invalid("[1:2:3:4:5:6:7]", .invalidAddress, .domainpart),
        Invalid("[1:2:3:4:5:6:7:8:9]", .invalidAddress, .domainpart),
        Invalid("[:::]", .invalidAddress, .domainpart),
        Invalid("[1:2:3:4:5:6:7::8]", .invalidAddress, .domainpart),
        Invalid("[g::1]", .invalidAddress, .domainpart),
        Invalid("[12345::1]", .invalidAddress, .domainpart),
        Invalid("[::1.2.3]", .invalidAddress, .domainpart),
        Invalid("[::1.2.3.256]", .invalidAddress, .domainpart),
        Invalid("[1.2.3.4::]", .invalidAddress, .domainpart),
        Invalid("[127.0.0.1]", .invalidAddress, .domainpart),
        Invalid("[fe80::1%eth0]", .invalidAddress, .domainpart),
        Invalid("[:1:2:3:4:5:6:7]", .invalidAddress, .domainpart),
        // The resource.
        Invalid("a@b/x\ty", .forbiddenCharacter, .resourcepart),
        Invalid("a@b/\n", .forbiddenCharacter, .resourcepart),
        Invalid("a@b/\0", .forbiddenCharacter, .resourcepart),
        Invalid("a@b/\u{85}", .forbiddenCharacter, .resourcepart),
        Invalid("a@b/\u{FFFF}", .forbiddenCharacter, .resourcepart),
    ]

    @Test("X1 an invalid JID is an error that names the part, never another JID", arguments: invalid)
    func invalidJIDs(_ expected: Invalid) {
        do {
            let jid = try JID(expected.text)
            Issue.record("\(expected.testDescription) became \(jid)")
        } catch {
            #expect(error.code == expected.code)
            #expect(error.part == expected.part)
            #expect(error.text.utf8.count <= 256)
            #expect(error.description.contains(expected.part.rawValue))
        }
    }

    @Test("X1 each part may have 1023 octets")
    func longest() throws {
        let domain = Self.longDomain.dropLast(0)
        #expect(domain.utf8.count == 1023)
        let jid = try JID("\(Self.long(1023))@\(domain)/\(Self.long(1023))")
        #expect(jid.local?.utf8.count == 1023)
        #expect(jid.domain.utf8.count == 1023)
        #expect(jid.resource?.utf8.count == 1023)
        #expect(try JID("\(domain).").domain.utf8.count == 1023)
        #expect(try JID("a@b/" + String(repeating: "\u{E9}", count: 511) + "x").resource?.utf8.count == 1023)
    }

    @Test("X1 parts given one by one are not split again")
    func parts() throws {
        #expect(throws: JIDError.self) { try JID(local: "a@b", domain: "c") }
        #expect(throws: JIDError.self) { try JID(local: "a/b", domain: "c") }
        #expect(throws: JIDError.self) { try JID(local: "", domain: "c") }
        #expect(throws: JIDError.self) { try JID(domain: "a@c") }
        #expect(throws: JIDError.self) { try JID(domain: "c/d") }
        #expect(throws: JIDError.self) { try JID(domain: "c", resource: "") }
        #expect(try JID(local: "A", domain: "C", resource: "a/b@c").description == "a@c/a/b@c")
    }

    @Test("X1 bare, domain and full forms")
    func forms() throws {
        let jid = try JID("a@b/c")
        #expect(jid.isFull && !jid.isBare)
        #expect(jid.bare == (try JID("a@b")))
        #expect(jid.bare.isBare && !jid.bare.isFull)
        #expect(jid.domainJID == (try JID("b")))
        #expect(try jid.bare.with(resource: "d/e").description == "a@b/d/e")
        #expect(throws: JIDError.self) { try jid.with(resource: "") }
        #expect(throws: JIDError.self) { try jid.with(resource: "\u{1}") }
    }

    @Test("X1 case counts in the resource only, and normalization forms are one JID")
    func comparison() throws {
        #expect(try JID("A@B/c") == JID("a@b/c"))
        #expect(try JID("a@b/c") != JID("a@b/C"))
        #expect(try JID("a@b") != JID("a@b/c"))
        #expect(try JID("b") != JID("a@b"))
        let composed = try JID("andr\u{E9}@b\u{FC}cher.example/caf\u{E9}")
        let decomposed = try JID("andre\u{301}@bu\u{308}cher.example/cafe\u{301}")
        #expect(composed == decomposed)
        #expect(Set([composed, decomposed]).count == 1)
    }

    @Test("X1 a JID is coded as its text, and a bad text is a decoding error with the reason")
    func coding() throws {
        let jid = try JID("a@b/c \u{1F600}")
        let data = try JSONEncoder().encode([jid])
        #expect(String(decoding: data, as: UTF8.self).filter { $0 != "\\" } == "[\"a@b/c \u{1F600}\"]")
        #expect(try JSONDecoder().decode([JID].self, from: data) == [jid])
        do {
            _ = try JSONDecoder().decode([JID].self, from: Data("[\"@b\"]".utf8))
            Issue.record("'@b' was decoded")
        } catch let DecodingError.dataCorrupted(context) {
            #expect((context.underlyingError as? JIDError)?.part == .localpart)
        }
    }

    @Test("X1 messages say what to do")
    func messages() {
        #expect(message("a@example.org:5222").contains("Remove the ':'"))
        #expect(message("a b@c").contains("Remove U+0020"))
        #expect(message("a<@c").contains("Remove '<'"))
        #expect(message(Self.long(1024) + "@c").contains("1023"))
        #expect(message("@c").contains("at least one character"))
    }

    private func message(_ text: String) -> String {
        do {
            return try JID(text).description
        } catch {
            return error.description
        }
    }

    @Test("X1 random parts survive a round trip, and random text never becomes a JID that reads differently")
    func randomRoundTrip() throws {
        var generator = SeededGenerator(seed: 7622)
        let alphabet = Array(
            "aZ0.-_@/[]:\\ \u{E9}\u{DF}\u{130}\u{3A3}\u{6F22}\u{301}\u{200D}\u{1F600}\u{FF21}\u{3002}\u{212A}&\""
        ).map(String.init)
        var valid = 0
        for _ in 0..<50_000 {
            let count = Int.random(in: 0...12, using: &generator)
            let text = (0..<count).map { _ in alphabet.randomElement(using: &generator) ?? "" }.joined()
            guard let jid = try? JID(text) else { continue }
            valid += 1
            let again = try JID(jid.description)
            #expect(Array(again.description.utf8) == Array(jid.description.utf8), "\(text)")
            #expect(again == jid, "\(text)")
            let isSplitRight = (jid.resource != nil) == text.utf8.contains(UInt8(ascii: "/"))
            #expect(isSplitRight, "\(text)")
        }
        #expect(valid > 1000)
    }
}
