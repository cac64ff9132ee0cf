import TestThreads
import Testing
import XMPPCore

@testable import Upload

/// Requests for slots and what comes back, without an account.
@Suite(.ownThread) struct SlotTests {
    private func slot(_ put: String, headers: String = "", get: String = "https://get.example/f") throws
        -> UploadSlot
    {
        try UploadSlot(
            Element(
                parsing:
                    "<slot xmlns='urn:xmpp:http:upload:0'><put url='\(put)'>\(headers)</put><get url='\(get)'/></slot>"
            ))
    }

    /// The code of the error that reading it throws; nil when it is read.
    private func refusal(_ body: () throws -> UploadSlot) -> ErrorCode<UploadError>? {
        do {
            _ = try body()
            return nil
        } catch { return (error as? UploadError)?.code }
    }

    @Test("X27 the slot of XEP-0363, example 7, is read: another host for GET, both headers in order")
    func example() throws {
        let element = try Element(
            parsing: """
                <slot xmlns='urn:xmpp:http:upload:0'>
                  <put url='https://upload.montague.tld/4a771ac1-f0b2-4a4a-9700-f2a26fa2bb67/tr%C3%A8s%20cool.jpg'>
                    <header name='Authorization'>Basic Base64String==</header>
                    <header name='Cookie'>foo=bar; user=romeo</header>
                  </put>
                  <get url='https://download.montague.tld/4a771ac1-f0b2-4a4a-9700-f2a26fa2bb67/tr%C3%A8s%20cool.jpg' />
                </slot>
                """)
        let slot = try UploadSlot(element)
        #expect(
            slot.put
                == "https://upload.montague.tld/4a771ac1-f0b2-4a4a-9700-f2a26fa2bb67/tr%C3%A8s%20cool.jpg")
        #expect(
            slot.get
                == "https://download.montague.tld/4a771ac1-f0b2-4a4a-9700-f2a26fa2bb67/tr%C3%A8s%20cool.jpg")
        #expect(
            slot.headers == [
                .init(name: "Authorization", value: "Basic Base64String=="),
                .init(name: "Cookie", value: "foo=bar; user=romeo"),
            ])
        #expect(slot.host == "upload.montague.tld")
    }

    @Test(
        "X27 a slot whose address is not plain https is refused",
        arguments: [
            "", "http://h/f", "https://", "https:///f", "https://:443/f", "ftp://h/f", "file:///etc/passwd",
            "https:/h/f", "//h/f", "https://user:secret@h/f", "https://h/f#fragment", "https://h/a b",
            "https://h/\\f",
            "https://h/très", "https://h/&#10;X-Evil:1", "https://h/{1-9}", " https://h/f", "gopher://h/f",
        ])
    func addresses(_ address: String) {
        #expect(refusal { try slot(address) } == .invalidSlot)
        #expect(refusal { try slot("https://h/f", get: address) } == .invalidSlot)
    }

    @Test("X27 an address may be in any case and have a port, and is bounded")
    func bounds() throws {
        #expect(try slot("HTTPS://h:8443/f?a=b").put == "HTTPS://h:8443/f?a=b")
        let room = UploadSlot.longestAddress - "https://h/".utf8.count
        #expect(refusal { try slot("https://h/" + String(repeating: "a", count: room)) } == nil)
        #expect(refusal { try slot("https://h/" + String(repeating: "a", count: room + 1)) } == .invalidSlot)
        let limit = UploadSlot.longestHeader
        let header = { (count: Int) in
            "<header name='Cookie'>\(String(repeating: "c", count: count))</header>"
        }
        #expect(refusal { try slot("https://h/f", headers: header(limit)) } == nil)
        #expect(refusal { try slot("https://h/f", headers: header(limit + 1)) } == .invalidSlot)
        let many = { (count: Int) in String(repeating: "<header name='X'>1</header>", count: count) }
        #expect(refusal { try slot("https://h/f", headers: many(UploadSlot.headerLimit)) } == nil)
        #expect(
            refusal { try slot("https://h/f", headers: many(UploadSlot.headerLimit + 1)) } == .invalidSlot)
    }

    @Test("X27 only Authorization, Cookie and Expires are kept, in any case, in order, without newlines")
    func headers() throws {
        let headers = """
            <header name='eXpires'>never</header><header name='Host'>evil</header><header name='Content-Length'>1</header>
            <header name='Cook&#10;ie'>a=1&#13;&#10;Host: evil</header><header name='Cookie'>b=2</header><header>x</header>
            <header name='Authorization: x&#10;Host'>evil</header><header name='Authorization'/>
            """
        #expect(
            try slot("https://h/f", headers: headers).headers == [
                .init(name: "Expires", value: "never"), .init(name: "Cookie", value: "a=1Host: evil"),
                .init(name: "Cookie", value: "b=2"),
            ])
        #expect(
            refusal { try slot("https://h/f", headers: "<header name='Cookie'>é</header>") } == .invalidSlot)
    }

    @Test("X27 the name of a header is bounded before it is compared with anything")
    func headerNames() throws {
        let header = { (name: String) in "<header name='\(name)'>1</header>" }
        let limit = UploadSlot.longestHeaderName
        // 100 KB of combining marks: comparing them as a String takes seconds, each time.
        let marks = String(repeating: "\u{301}", count: 50_000)
        let start = ContinuousClock.now
        for name in [marks, "Cookie" + marks, String(repeating: "a", count: limit + 1)] {
            #expect(refusal { try slot("https://h/f", headers: header(name)) } == .invalidSlot)
        }
        #expect(ContinuousClock.now - start < .seconds(5))
        #expect(try slot("https://h/f", headers: header(String(repeating: "a", count: limit))).headers == [])
        // Letters only have two cases.
        #expect(try slot("https://h/f", headers: header("COOKIE")).headers.count == 1)
        for name in ["Cook\u{C9}e", "Coo\u{212A}ie", "\u{43}ookie\u{301}", "Cookie ", "cooki"] {
            #expect(try slot("https://h/f", headers: header(name)).headers == [], "\(name)")
        }
    }

    @Test("X27 an answer without a slot is refused")
    func missing() throws {
        #expect(refusal { try UploadSlot(nil) } == .invalidSlot)
        for xml in [
            "<slot xmlns='urn:xmpp:http:upload:0'/>",
            "<slot xmlns='urn:xmpp:http:upload:0'><put url='https://h/f'/></slot>",
            "<slot xmlns='urn:other'><put url='https://h/f'/><get url='https://h/f'/></slot>",
            "<slot xmlns='urn:xmpp:http:upload:0'><put/><get/></slot>",
        ] {
            let element = try Element(parsing: xml)
            #expect(refusal { try UploadSlot(element) } == .invalidSlot, "\(xml)")
        }
    }

    @Test("X27 the request is that of XEP-0363, example 5")
    func request() throws {
        let element = SlotRequest.element(name: "très cool.jpg", size: 23456, type: "image/jpeg")
        let example = try Element(
            parsing:
                "<request xmlns='urn:xmpp:http:upload:0' filename='très cool.jpg' size='23456' content-type='image/jpeg' />"
        )
        #expect(element == example)
        #expect(SlotRequest.element(name: "a", size: 1, type: nil)["content-type"] == nil)
    }

    @Test("X27 refusals say what they mean: too large, quota until a time, forbidden, or try later")
    func refusals() throws {
        func failure(_ error: String) throws -> UploadError? {
            let iq = try IQ(
                element: Element(
                    parsing: "<iq type='error' id='1' xmlns='jabber:client'>\(error)</iq>",
                    defaultNamespace: Namespaces.client))
            return SlotRequest.failure(try #require(iq.error), in: iq, size: 23456)
        }
        let stanzas = "xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'"
        let large = try failure(
            """
            <error type='modify'><not-acceptable \(stanzas)/><text \(stanzas)>File too large. The maximum file size is 20000 bytes</text>
            <file-too-large xmlns='urn:xmpp:http:upload:0'><max-file-size>20000</max-file-size></file-too-large></error>
            """)
        #expect(large?.code == .tooLarge && large?.maximumSize == 20000)
        let quota = try failure(
            """
            <error type='wait'><resource-constraint \(stanzas)/><text \(stanzas)>Quota reached. You can only upload 5 files in 5 minutes</text>
            <retry xmlns='urn:xmpp:http:upload:0' stamp='2017-12-03T23:42:05Z' /></error>
            """)
        #expect(quota?.code == .quotaExceeded && quota?.retryAt?.milliseconds == 1_512_344_525_000)
        let unsaid = try failure("<error type='wait'><resource-constraint \(stanzas)/></error>")
        #expect(unsaid?.code == .quotaExceeded && unsaid?.retryAt == nil)
        let forbidden = try failure("<error type='auth'><forbidden \(stanzas)/></error>")
        #expect(forbidden?.code == .refused && forbidden?.condition == "forbidden")
        #expect(try failure("<error type='wait'><internal-server-error \(stanzas)/></error>") == nil)
        let odd = try failure(
            "<error type='modify'><not-acceptable \(stanzas)/><file-too-large xmlns='urn:xmpp:http:upload:0'><max-file-size>-1</max-file-size></file-too-large></error>"
        )
        #expect(odd?.code == .tooLarge && odd?.maximumSize == nil)
    }
}
