import TestThreads
import Testing

@testable import XMPPCore

/// Addresses that are one to servers that prepare by stringprep.
@Suite(.ownThread) struct JIDFormTests {
    @Test(
        "X30 what nodeprep folds and RFC 7622 keeps are forms of one address",
        arguments: [
            ("groß@localhost/a", "gross@localhost/a"), ("νίκος@localhost", "νίκοσ@localhost"),
            ("straße@conference.localhost/Ann", "strasse@conference.localhost/Ann"),
            ("ᾳ@localhost", "αι@localhost"), ("می\u{200C}خواهم@localhost", "میخواهم@localhost"),
            ("a@straße.example", "a@strasse.example"), ("a@xn--strae-oqa.example", "a@strasse.example"),
            ("a@localhost/\u{2764}\u{FE0F}", "a@localhost/\u{2764}"), ("Groß@LOCALHOST", "gross@localhost"),
            ("juliet@localhost/Balcony", "juliet@localhost/Balcony"),
        ])
    func forms(one: String, other: String) throws {
        let (one, other) = (try JID(received: one), try JID(received: other))
        #expect(one.isForm(of: other) && other.isForm(of: one))
        #expect(one.bare.isForm(of: other.bare) && one.isForm(of: one))
        #expect(one == other || one.hasOtherForm && !other.hasOtherForm)
    }

    @Test(
        "X30 what stringprep keeps apart are different addresses",
        arguments: [
            ("groß@localhost", "grosz@localhost"), ("groß@localhost/a", "gross@localhost/b"),
            ("groß@localhost", "gross@localhost/a"), ("groß@localhost", "gross@example.org"),
            ("groß@localhost", "localhost"), ("ı@localhost", "i@localhost"), ("é@localhost", "e@localhost"),
            ("а@localhost", "a@localhost"), ("a@localhost/ß", "a@localhost/ss"),
            ("a@localhost/A", "a@localhost/a"), ("♥nurse@localhost", "nurse@localhost"),
        ])
    func others(one: String, other: String) throws {
        let (one, other) = (try JID(received: one), try JID(received: other))
        #expect(!one.isForm(of: other) && !other.isForm(of: one))
    }

    @Test("X30 only ids that nobody can guess are taken for random")
    func randomIDs() {
        let id = StanzaID.random()
        #expect(StanzaID.isRandom(ForeignText(id)))
        #expect(StanzaID.isRandom(ForeignText(id + "/2")), "of a request that continues an operation")
        for text in ["1", "", String(id.dropLast()), id + "0", id.uppercased() + "x", "/" + id, "q1/2"] {
            #expect(!StanzaID.isRandom(ForeignText(text)), "\(text)")
        }
    }
}
