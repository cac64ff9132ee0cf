import Foundation
import TestThreads
import Testing
import HandlersTestKit
import ParserVerifier

@testable import XMPPCore

/// RFC 7622, by table.
@Suite(.ownThread) struct JIDTests {
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

    /// RFC 3492 section 7.1 (D).
    private static let hebrew = String(
        String.UnicodeScalarView(
            [
                0x5DC, 0x5DE, 0x5D4, 0x5D4, 0x5DD, 0x5E4, 0x5E9, 0x5D5, 0x5D8, 0x5DC, 0x5D0, 0x5DE, 0x5D3,
                0x5D1,
                0x5E8, 0x5D9, 0x5DD, 0x5E2, 0x5D1, 0x5E8, 0x5D9, 0x5EA,
            ].compactMap { Unicode.Scalar(UInt32($0)) }))
    /// 120 octets here, 45 in DNS.
    private static let longLabel = String(repeating: "\u{4E2D}", count: 40)

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
        // A-labels (RFC 7622 section 3.2.2), the first two from RFC 3492 section 7.1.
        Valid("xn--mnchen-3ya.example", nil, "m\u{FC}nchen.example"),
        Valid(
            "a@XN--IHQWCRB4CV8A8DQG056PQJYE", "a",
            "\u{4ED6}\u{4EEC}\u{4E3A}\u{4EC0}\u{4E48}\u{4E0D}\u{8BF4}\u{4E2D}\u{6587}"),
        Valid("xn--4dbcagdahymbxekheh6e0a7fei0b", nil, Self.hebrew),
        Valid("xn--strae-oqa.example", nil, "stra\u{DF}e.example"),
        Valid("ab--cd.example", nil, "ab--cd.example"),
        Valid("axn--b.example", nil, "axn--b.example"),
        Valid("a\u{FF61}example", nil, "a.example"),
        Valid("bu\u{308}cher.example", nil, "b\u{FC}cher.example"),
        Valid(Self.longLabel + ".example", nil, Self.longLabel + ".example"),
        Valid("a\u{3002}example", nil, "a.example"),
        Valid("\u{FF45}xample.org", nil, "example.org"),
        Valid("under_score.example", nil, "under_score.example"),
        // The localpart.
        Valid("Juliet@example.com", "juliet", "example.com"),
        Valid("a!#$%()*+,-.;=?[\\]^_`{|}~@b", "a!#$%()*+,-.;=?[\\]^_`{|}~", "b"),
        Valid("\u{FF21}lice@b", "alice", "b"),
        Valid("\u{6F22}\u{5B57}@b", "\u{6F22}\u{5B57}", "b"),
        Valid("\u{1C8A0}@b", "\u{1C8A0}", "b"),
        Valid("e\u{301}@b", "\u{E9}", "b"),
        Valid("\u{C5}@b", "\u{E5}", "b"),
        Valid("A\u{30A}\u{323}@b", "\u{1EA1}\u{30A}", "b"),
        Valid("\u{D55C}@b", "\u{D55C}", "b"),
        Valid("\u{FF76}\u{FF9E}@b", "\u{30AC}", "b"),
        Valid("col\u{B7}lega@b", "col\u{B7}lega", "b"),
        Valid("\u{375}\u{3B1}@b", "\u{375}\u{3B1}", "b"),
        Valid("\u{5D0}\u{5F3}@b", "\u{5D0}\u{5F3}", "b"),
        Valid("\u{30FB}\u{30A2}@b", "\u{30FB}\u{30A2}", "b"),
        Valid("\u{915}\u{94D}\u{200D}\u{937}@b", "\u{915}\u{94D}\u{200D}\u{937}", "b"),
        Valid(
            "\u{646}\u{627}\u{645}\u{647}\u{200C}\u{627}\u{6CC}@b",
            "\u{646}\u{627}\u{645}\u{647}\u{200C}\u{627}\u{6CC}", "b"),
        Valid("\u{5D0}1.\u{5D1}\u{5B0}@b", "\u{5D0}1.\u{5D1}\u{5B0}", "b"),
        Valid("\u{627}\u{661}@b", "\u{627}\u{661}", "b"),
        Valid("\u{3007}@b", "\u{3007}", "b"),
        // The resource.
        Valid("a@b/Balcony", "a", "b", "Balcony"),
        Valid("a@b/ ", "a", "b", " "),
        Valid("a@b/ x ", "a", "b", " x "),
        Valid("a@b/x\u{A0}y\u{3000}z", "a", "b", "x y z"),
        Valid(
            "a@b/\u{1F469}\u{200D}\u{1F469}\u{200D}\u{1F467}\u{FE0F}", "a", "b",
            "\u{1F469}\u{200D}\u{1F469}\u{200D}\u{1F467}\u{FE0F}"),
        Valid("a@b/\u{301}", "a", "b", "\u{301}"),
        Valid("a@b/Cafe\u{301}", "a", "b", "Caf\u{E9}"),
        Valid("a@b/\u{212B}\u{FB01}\u{2163}", "a", "b", "\u{C5}\u{FB01}\u{2163}"),
        Valid("a@b/\u{1112}\u{1161}\u{11AB}", "a", "b", "\u{D55C}"),
        Valid("a@b/\u{5D0}x1", "a", "b", "\u{5D0}x1"),
    ]

    @Test("X1 a valid JID is split and prepared", arguments: valid)
    func validJIDs(_ expected: Valid) throws {
        let jid = try JID(expected.text)
        // Scalars, since String's own equality is blind to the form of normalization.
        #expect(
            jid.local.map { Array($0.string.unicodeScalars) }
                == expected.local.map { Array($0.unicodeScalars) })
        #expect(Array(jid.domain.string.unicodeScalars) == Array(expected.domain.unicodeScalars))
        #expect(
            jid.resource.map { Array($0.string.unicodeScalars) }
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
        let code: ErrorCode<JIDError>
        let part: JIDError.Part
        var testDescription: String { text.count > 40 ? "\(text.prefix(20))… (\(text.utf8.count))" : text }

        init(_ text: String, _ code: ErrorCode<JIDError>, _ part: JIDError.Part) {
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
        // Compatibility characters (RFC 8264 section 9.17) and other classes that no identifier has.
        Invalid("\u{AA}@c", .forbiddenCharacter, .localpart),
        Invalid("\u{B5}@c", .forbiddenCharacter, .localpart),
        Invalid("\u{FB01}@c", .forbiddenCharacter, .localpart),
        Invalid("\u{17F}@c", .forbiddenCharacter, .localpart),
        Invalid("\u{1D41A}@c", .forbiddenCharacter, .localpart),
        Invalid("\u{F900}@c", .forbiddenCharacter, .localpart),
        Invalid("\u{958}@c", .forbiddenCharacter, .localpart),
        Invalid("\u{FFA1}@c", .forbiddenCharacter, .localpart),
        Invalid("\u{1112}\u{1161}@c", .forbiddenCharacter, .localpart),
        Invalid("\u{640}@c", .forbiddenCharacter, .localpart),
        Invalid("\u{303B}@c", .forbiddenCharacter, .localpart),
        Invalid("a\u{FE0F}@c", .forbiddenCharacter, .localpart),
        // Characters without the company that they need (RFC 5892 appendix A).
        Invalid("a\u{B7}b@c", .forbiddenCharacter, .localpart),
        Invalid("\u{B7}@c", .forbiddenCharacter, .localpart),
        Invalid("\u{375}a@c", .forbiddenCharacter, .localpart),
        Invalid("\u{5F3}\u{5D0}@c", .forbiddenCharacter, .localpart),
        Invalid("a\u{30FB}@c", .forbiddenCharacter, .localpart),
        Invalid("a\u{200D}b@c", .forbiddenCharacter, .localpart),
        Invalid("a\u{200C}b@c", .forbiddenCharacter, .localpart),
        Invalid("\u{627}\u{661}\u{6F1}@c", .forbiddenCharacter, .localpart),
        // The Bidi rule (RFC 5893).
        Invalid("\u{5D0}a@c", .mixedDirection, .localpart),
        Invalid("a\u{5D0}@c", .mixedDirection, .localpart),
        Invalid("1\u{5D0}@c", .mixedDirection, .localpart),
        Invalid("\u{5D0}.@c", .mixedDirection, .localpart),
        Invalid("\u{661}@c", .mixedDirection, .localpart),
        Invalid("\u{627}1\u{661}@c", .mixedDirection, .localpart),
        Invalid("a@\u{5D0}a.c", .mixedDirection, .domainpart),
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
        Invalid("xn--.org", .invalidLabel, .domainpart), Invalid("xn--abc-.org", .invalidLabel, .domainpart),
        Invalid("xn--a.org", .invalidLabel, .domainpart),
        Invalid("xn--99999999.org", .invalidLabel, .domainpart),
        // What they stand for is upper case, decomposed, starts with a mark, has hyphens like an A-label, runs both ways, or is an emoji.
        Invalid("xn--bcher-2pa.org", .invalidLabel, .domainpart),
        Invalid("xn--bucher-xyd.org", .invalidLabel, .domainpart),
        Invalid("xn--a-wbb.org", .invalidLabel, .domainpart),
        Invalid("xn--ab---epa.org", .invalidLabel, .domainpart),
        Invalid("xn--a-zhc.org", .mixedDirection, .domainpart),
        Invalid("xn--mnchen-3ya\u{FC}.org", .invalidLabel, .domainpart),
        Invalid("xn--i-7iq.ws", .invalidLabel, .domainpart),

        Invalid("\u{301}a.org", .invalidLabel, .domainpart),
        Invalid("ab--\u{E9}.org", .invalidLabel, .domainpart),
        Invalid(String(repeating: "\u{E9}", count: 60) + ".org", .invalidLabel, .domainpart),
        Invalid("\u{AA}.org", .forbiddenCharacter, .domainpart),
        Invalid("a\u{B7}b.org", .forbiddenCharacter, .domainpart),
        Invalid("a\u{FF0F}b", .forbiddenCharacter, .domainpart),
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
        Invalid("a@b/\u{2028}", .forbiddenCharacter, .resourcepart),
        Invalid("a@b/\u{E000}", .forbiddenCharacter, .resourcepart),
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
        #expect(
            Array(composed.description.utf8) == Array(decomposed.description.utf8),
            "a database compares bytes")
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

    /// What the text of a JID says when it is read in the plainest way: split, nothing prepared.
    private func plainSplit(_ text: String) -> (hasLocal: Bool, hasResource: Bool) {
        let slash = text.utf8.firstIndex(of: UInt8(ascii: "/"))
        let bare = text[..<(slash ?? text.endIndex)]
        return (bare.utf8.contains(UInt8(ascii: "@")), slash != nil)
    }

    /// Reads, writes and reads again; nil when the text is refused.
    @discardableResult
    private func roundTrip(_ text: String) throws -> JID? {
        guard let jid = try? JID(text) else { return nil }
        let written = jid.description
        let again = try JID(written)
        #expect(Array(again.description.utf8) == Array(written.utf8), "\(text)")
        #expect(again == jid && again.local == jid.local && again.resource == jid.resource, "\(text)")
        let split = plainSplit(text)
        #expect((jid.local != nil, jid.resource != nil) == split, "\(text)")
        #expect(try JID(local: jid.local, domain: jid.domain, resource: jid.resource) == jid)
        return jid
    }

    @Test("X1 random parts survive a round trip, and random text never becomes a JID that reads differently")
    func randomRoundTrip() throws {
        var generator = SeededGenerator(seed: 7622)
        let alphabet =
            Array(
                ("aZ0.-_@/[]:\\ \u{E9}\u{DF}\u{130}\u{3A3}\u{6F22}\u{301}\u{308}\u{200D}\u{1F600}\u{FF21}\u{3002}\u{212A}&\""
                    + "\u{5D0}\u{661}\u{B7}l\u{1100}\u{FF76}\u{FF9E}\u{94D}\u{FF0F}\u{FF20}\u{0}xn")
                    .unicodeScalars
            ).map(String.init) + ["xn--", "xn--mnchen-3ya", "::1", "e\u{301}"]
        var valid = 0
        for _ in 0..<TestScale.of(60_000, part: 15_000) {
            let count = Int.random(in: 0...12, using: &generator)
            let text = (0..<count).map { _ in alphabet.randomElement(using: &generator) ?? "" }.joined()
            if try roundTrip(text) != nil { valid += 1 }
        }
        #expect(valid > 250)
    }

    @Test("X1 random text of all of Unicode and random bytes never become a JID that reads differently")
    func randomUnicode() throws {
        var generator = SeededGenerator(seed: 8264)
        for _ in 0..<TestScale.of(20_000, part: 5000) {
            var view = String.UnicodeScalarView()
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                guard let scalar = Unicode.Scalar(UInt32.random(in: 0...0x3FFFF, using: &generator)) else {
                    continue
                }
                view.append(scalar)
            }
            let text = String(view)
            for form in [text + "@b", text, "a@b/" + text, text + "@" + text + "/" + text] {
                try roundTrip(form)
            }
            let bytes = (0..<8).map { _ in UInt8.random(in: 0...255, using: &generator) }
            try roundTrip(String(decoding: bytes, as: UTF8.self))
        }
    }

    @Test(
        "X1 every code point is refused or prepared for good, in each part: normalized, lower case, the same when read again"
    )
    func everyCodePoint() throws {
        var allowed = [0, 0, 0]
        for value in UInt32(0)...0x323FF {
            guard let scalar = Unicode.Scalar(value), value < 0x3400 || value > 0xABFF || value % 64 == 0,
                value < 0x20000 || value % 64 == 0
            else { continue }
            let text = "\u{5D0}\(scalar)\u{5D1}"
            for (index, form) in ["x\(scalar)y@b", "x\(scalar)y", "a@b/x\(scalar)y", "\(text)@\(text)"]
                .enumerated()
            {
                guard let jid = try? JID(form) else { continue }
                if index < 3 { allowed[index] += 1 }
                let written = jid.description
                let again = try JID(written)
                #expect(written.utf8.elementsEqual(again.description.utf8), "U+\(String(value, radix: 16))")
                #expect(isComposed(written), "U+\(String(value, radix: 16))")
                #expect(
                    jid.local.map { $0.string == $0.string.lowercased() } ?? true,
                    "U+\(String(value, radix: 16))")
            }
        }
        // Letters, marks and digits; the domain lacks the other ASCII, and the resource has the symbols too.
        #expect(allowed[1] > 10_000 && allowed[0] > allowed[1] && allowed[2] > allowed[0])
    }

    @Test(
        "X1 a Tibetan vowel that is two marks is put in order, so that the address reads again as it was",
        arguments: [("\u{F73}", "\u{F72}"), ("\u{F75}", "\u{F74}"), ("\u{F81}", "\u{F80}")])
    func vowelOfTwoMarks(vowel: String, second: String) throws {
        // More marks than the standard library gets at once.
        for count in [1, Composer.shortRun + 10] {
            let accents = String(repeating: "\u{301}", count: count)
            let jid = try JID("a@b/x\(accents)\(vowel)")
            #expect(jid.resource == ForeignText("x\u{F71}\(second)\(accents)"))
            #expect(try JID(jid.description) == jid)
        }
    }

    @Test("X1 what a resource may not hold, and its spaces, are those of the Unicode character database")
    func resourceCharacters() {
        let wrong = (UInt32(0)...0x10FFFF).compactMap(Unicode.Scalar.init).filter { scalar in
            let category = scalar.properties.generalCategory
            let isForbidden =
                [.control, .lineSeparator, .paragraphSeparator, .privateUse].contains(category)
                || scalar.properties.isNoncharacterCodePoint
            return JIDPreparation.isForbiddenInResource(scalar) != isForbidden
                || JIDPreparation.isSpace(scalar) != (category == .spaceSeparator)
        }
        #expect(wrong.isEmpty)
    }

    private func isComposed(_ text: String) -> Bool {
        var span = text.utf8Span
        return span.checkForNFC(quickCheck: false)
    }
}
