import Testing

import XMPPCore

@Test("X3 a stream header, a stanza and the end become three events")
func happyPath() throws {
    let parser = try StreamParser()
    let header = Serializer.streamHeader(to: "example.org", from: "a@example.org")
    let iq = IQ(
        type: .get, to: try JID("example.org"), id: "1", payload: Element("ping", namespace: Namespaces.ping))
    var events = try parser.parse(header)
    events += try parser.parse(Serializer().bytes(iq.element))
    events += try parser.parse(Serializer.streamEnd)
    #expect(events.count == 3)
    #expect(events[1] == .element(iq.element))
    #expect(events[2] == .closed)
    print(String(decoding: Serializer().bytes(iq.element), as: UTF8.self), events[0])
}
