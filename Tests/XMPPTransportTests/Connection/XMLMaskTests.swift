import TestThreads
import Testing
@testable import XMPPTransport
import XMPPCore

/// What of a stream's XML is hidden from a log.
@Suite(.ownThread) struct XMLMaskTests {
    private static let header =
        "<?xml version='1.0'?><stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>"

    private func masked(_ pieces: [[UInt8]]) -> [String] {
        var mask = XMLMask()
        var shown: [String] = []
        for piece in pieces { mask.read(piece, isShown: true) { shown.append($0) } }
        return shown
    }

    /// The lines behind those of the header, however the bytes were cut.
    private func masked(_ text: String) -> [String] {
        let bytes = Array((Self.header + text).utf8)
        let whole = masked([bytes])
        #expect(masked(bytes.map { [$0] }) == whole, "byte by byte")
        return Array(whole.dropFirst(2))
    }

    static let cases: [(xml: String, shown: String)] = [
        (
            "<message id='1'><body>hi &amp; ho</body></message>",
            "<message id='1'><body>hi &amp; ho</body></message>"
        ),
        ("<auth mechanism='PLAIN'>AHNlY3JldA==</auth>", "<auth mechanism='PLAIN'>…</auth>"),
        ("<auth mechanism='ANONYMOUS'/>", "<auth mechanism='ANONYMOUS'/>"),
        ("<response>secret</response>", "<response>…</response>"),
        ("<challenge >secret</challenge >", "<challenge >…</challenge >"),
        ("<x:success xmlns:x='u'>secret</x:success>", "<x:success xmlns:x='u'>…</x:success>"),
        (
            "<success><additional-data>secret</additional-data><authorization-identifier>a@b</authorization-identifier>"
                + "<token xmlns='urn:xmpp:fast:0' expiry='2027' token='secret'/></success>",
            "<success><additional-data>…</additional-data><authorization-identifier>a@b</authorization-identifier>"
                + "<token xmlns='urn:xmpp:fast:0' expiry='2027' token='…'/></success>"
        ),
        (
            "<authenticate mechanism='HT-SHA-256-NONE'><initial-response>secret</initial-response><fast count='3'/>"
                + "<user-agent id='1'/></authenticate>",
            "<authenticate mechanism='HT-SHA-256-NONE'><initial-response>…</initial-response><fast count='3'/>"
                + "<user-agent id='1'/></authenticate>"
        ),
        (
            "<iq><query><password>secret</password></query></iq>",
            "<iq><query><password>…</password></query></iq>"
        ),
        ("<iq><password><![CDATA[sec]]>ret</password></iq>", "<iq><password><![CDATA[…</password></iq>"),
        (
            "<iq><conference password=\"a'>b\" name='n'/></iq>",
            "<iq><conference password=\"…\" name='n'/></iq>"
        ),
        (
            "<x><field var='muc#roomconfig_roomsecret'><value>secret</value></field><field var='a'><value>b</value></field></x>",
            "<x><field var='muc#roomconfig_roomsecret'><value>…</value></field><field var='a'><value>b</value></field></x>"
        ),
        (
            "<slot><put url='https://h/secret'><header name='Authorization'>secret</header></put></slot>",
            "<slot><put url='…'><header name='Authorization'>…</header></put></slot>"
        ),
        ("<e><key rid='1'>secret</key><iv>x</iv></e>", "<e><key rid='1'>…</key><iv>x</iv></e>"),
        (
            "<a><password><b c='secret'>secret</b></password>x</a>",
            "<a><password><b c='…'>…</b></password>x</a>"
        ),
        ("<a><![CDATA[<password>]]></a>", "<a><![CDATA[<password>]]></a>"),
        ("<a b='>'><c d=\"/>\"/></a>", "<a b='>'><c d=\"/>\"/></a>"),
    ]

    @Test("X16 secrets are hidden and nothing else, however the stream is cut", arguments: cases)
    func hidden(_ example: (xml: String, shown: String)) {
        #expect(masked(example.xml) == [example.shown])
    }

    @Test("X16 each stanza is one entry, and keep-alives are none")
    func entries() {
        #expect(
            masked(" \n<a/> <b>\n</b><c><d/></c></stream:stream>") == [
                "<a/>", "<b>\n</b>", "<c><d/></c>", "</stream:stream>",
            ])
    }

    @Test("X16 the next stream on the same connection starts again")
    func nextStream() {
        let lines = masked("<features/>" + Self.header + "<auth>x</auth><message><body/></message>")
        #expect(
            lines.first == "<features/>"
                && lines.suffix(2) == ["<auth>…</auth>", "<message><body/></message>"])
    }

    @Test("X16 an element of any size is shown in parts and takes no more memory than one of them")
    func parts() {
        let text = String(repeating: "é0123456789", count: 10_000)
        let lines = masked("<message><body>\(text)</body><password>\(text)</password></message>")
        #expect(lines.joined() == "<message><body>\(text)</body><password>…</password></message>")
        #expect(lines.count > 5 && lines.allSatisfy { $0.utf8.count <= 17 << 10 })
    }

    @Test(
        "X16 a switch that is turned in the middle of a stanza waits for the next one, and the secrets stay hidden"
    )
    func switched() {
        var mask = XMLMask()
        var shown: [String] = []
        let pieces: [(String, Bool)] = [
            (Self.header + "<a>", false), ("<password>se", true), ("cret</password></a><b><token>", true),
            ("secret</tok", false),
            ("en></b><c/>", false), ("<d/>", true),
        ]
        for (piece, isShown) in pieces { mask.read(piece.utf8, isShown: isShown) { shown.append($0) } }
        #expect(shown == ["<b><token>…</token></b>", "<d/>"])
    }
}
