import TestThreads
import Testing
import XMPPCore

@testable import XMPPAccount

@Suite(.ownThread) struct DelayTests {
    private func stamped(_ message: Message) throws -> Element? {
        let xml = Delay.stamped(
            Serializer().bytes(message.element), at: Timestamp(milliseconds: 1_763_676_000_123))
        let parser = try StreamParser()
        _ = try parser.parse(Serializer.streamHeader(to: "example.org"))
        guard case .element(let element) = try parser.parse(xml).first else { return nil }
        return element
    }

    @Test("S9 a message that is sent again keeps its id and content and says when it was first sent")
    func stamp() throws {
        let element = try #require(try stamped(Message(to: JID("you@example.com"), id: "m1", body: "a < b")))
        #expect(element["id"] == "m1")
        #expect(try Message(element: element).body == "a < b")
        #expect(element.child("delay", Namespaces.delay)?["stamp"] == "2025-11-20T22:00:00.123Z")
    }

    @Test("S9 a message without content is stamped too")
    func emptyElement() throws {
        let element = try #require(try stamped(Message(to: JID("you@example.com"), id: "m1")))
        #expect(element.elements.count == 1)
        #expect(element.child("delay", Namespaces.delay) != nil)
    }

    @Test("S9 a second loss does not add a second stamp")
    func onlyOnce() throws {
        let message = Message(to: try JID("you@example.com"), id: "m1", body: "hi")
        let once = Delay.stamped(Serializer().bytes(message.element), at: Timestamp(milliseconds: 0))
        #expect(Delay.stamped(once, at: Timestamp(milliseconds: 99_000)) == once)
    }
}
