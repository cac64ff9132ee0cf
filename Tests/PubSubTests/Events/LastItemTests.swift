import Handlers
import TestThreads
import Testing
import XMPPCore

@testable import PubSub
@testable import XMPPAccount

/// Items that a service shows again.
@Suite(.ownThread) struct LastItemTests {
    private let juliet = "juliet@capulet.example"
    private let node = EventAccount.node

    private func items(_ values: String...) -> [String] {
        values.map { "a \(juliet) \(node): items \($0)" }
    }

    @Test("P5 the last item that is sent on presence changes nothing the second time")
    func secondTime() async throws {
        let account = try EventAccount()
        try account.listen()
        for id in ["m1", "m2", "m3"] { try account.receive(event: EventAccount.nick("Jule"), id: id) }
        #expect(try account.notes == items("current=Jule"))
        await account.close()
    }

    @Test("P5 another content is new, and so is the old one after it")
    func changed() async throws {
        let account = try EventAccount()
        try account.listen()
        for name in ["Jule", "Julie", "Julie", "Jule"] { try account.receive(event: EventAccount.nick(name)) }
        #expect(try account.notes == items("current=Jule", "current=Julie", "current=Jule"))
        await account.close()
    }

    @Test("P5 the order of attributes is none of the content: a service may show them in another one")
    func attributes() async throws {
        let account = try EventAccount()
        try account.listen()
        for attributes in ["bytes='1' id='x' type='image/png'", "type='image/png' id='x' bytes='1'"] {
            try account.receive(
                event:
                    "<items node='\(node)'><item id='x'><m xmlns='urn:x'><info \(attributes)/></m></item></items>"
            )
        }
        #expect(try account.notes == items("x="))
        await account.close()
    }

    @Test(
        "P5 one id twice in an event is reported twice if the contents differ; the last one is what is known")
    func sameIDTwice() async throws {
        let account = try EventAccount()
        try account.listen()
        func item(_ name: String) -> String {
            "<item id='1'><nick xmlns='\(Namespaces.nick)'>\(name)</nick></item>"
        }
        try account.receive(event: "<items node='\(node)'>\(item("x"))\(item("y"))\(item("y"))</items>")
        try account.receive(event: "<items node='\(node)'>\(item("y"))</items>")
        #expect(try account.notes == items("1=x,1=y"))
        await account.close()
    }

    @Test("P5 the same item of another publisher, and under another id, is another one")
    func others() async throws {
        let account = try EventAccount()
        try account.listen()
        try account.receive(event: EventAccount.nick("x"))
        try account.receive(event: EventAccount.nick("x"), from: "nurse@capulet.example")
        try account.receive(event: EventAccount.nick("x", id: "other"))
        #expect(try account.notes.count == 3)
        await account.close()
    }

    @Test("P5 of several items those that were seen are left out")
    func partly() async throws {
        let account = try EventAccount()
        try account.listen()
        let nick = "<nick xmlns='\(Namespaces.nick)'>x</nick>"
        try account.receive(event: "<items node='\(node)'><item id='1'>\(nick)</item></items>")
        try account.receive(
            event: "<items node='\(node)'><item id='1'>\(nick)</item><item id='2'>\(nick)</item></items>")
        #expect(try account.notes == items("1=x", "2=x"))
        await account.close()
    }

    @Test(
        "P5 what was retracted, purged or deleted is new when it is published again",
        arguments: [
            "<items node='N'><retract id='current'/></items>", "<purge node='N'/>", "<delete node='N'/>",
        ])
    func goneBetween(xml: String) async throws {
        let account = try EventAccount()
        try account.listen()
        try account.receive(event: EventAccount.nick("x"))
        try account.receive(event: xml.replacing("'N'", with: "'\(node)'"))
        try account.receive(event: EventAccount.nick("x"))
        #expect(try account.notes.count == 3)
        #expect(try account.notes.last == items("current=x").first)
        await account.close()
    }

    @Test("P5 what has no id or no content is news each time: it may have changed")
    func withoutContent() async throws {
        let account = try EventAccount()
        try account.listen()
        for _ in 0..<2 {
            try account.receive(event: "<items node='\(node)'><item id='current'/></items>")
            try account.receive(event: EventAccount.nick("x", id: nil))
            try account.receive(event: "<items node='\(node)'/>")
        }
        #expect(try account.notes.count == 6)
        await account.close()
    }

    @Test("P5 a handler that was added or replaced has not seen what others have; the same one stays")
    func eachHandler() async throws {
        let account = try EventAccount()
        try account.listen(tag: "first")
        try account.receive(event: EventAccount.nick("x"))
        try account.listen(as: "second", tag: "second")
        try account.listen(tag: "first")
        try account.receive(event: EventAccount.nick("x"))
        try account.listen(tag: "third")
        try account.receive(event: EventAccount.nick("x"))
        #expect(
            try account.notes
                == ["first", "second", "third"].map { "\($0) \(juliet) \(node): items current=x" }
        )
        await account.close()
    }

    @Test("P5 what is kept of the items is bounded, for each node and for all")
    func bounded() async throws {
        let account = try EventAccount()
        try account.listen()
        for id in 0..<200 { try account.receive(event: EventAccount.nick("x", id: "i\(id)")) }
        #expect(
            try account.number("SELECT count(*) FROM pubsub_seen_item") == Int64(SeenItemTable.itemsPerNode))
        _ = try account.takeNotes()
        // The newest are those that are shown again.
        try account.receive(event: EventAccount.nick("x", id: "i199"))
        #expect(try account.notes.isEmpty)
        await account.close()
    }

    @Test("S17 an item that changes is the newest one again, so that others make way before it")
    func changedItem() async throws {
        let account = try EventAccount()
        try account.listen()
        for id in 0..<SeenItemTable.itemsPerNode {
            try account.receive(event: EventAccount.nick("x", id: "i\(id)"))
        }
        try account.receive(event: EventAccount.nick("y", id: "i0"))
        try account.receive(event: EventAccount.nick("x", id: "another"))
        _ = try account.takeNotes()
        try account.receive(event: EventAccount.nick("y", id: "i0"))
        #expect(try account.takeNotes().isEmpty)
        try account.receive(event: EventAccount.nick("x", id: "i1"))
        #expect(try account.takeNotes().count == 1)
        await account.close()
    }

    @Test("X20 an item whose id is long is recognized by a digest, and taken back by it")
    func longIDs() async throws {
        let account = try EventAccount()
        try account.listen()
        let longest = String(repeating: "i", count: SeenItemTable.longestID)
        let ids = [longest, longest + "i", longest + String(repeating: "i", count: 100_000)]
        for _ in 0..<10 {
            for id in ids { try account.receive(event: EventAccount.nick("x", id: id)) }
        }
        #expect(try account.takeNotes().count == 3)
        #expect(
            try account.number("SELECT max(length(item)) FROM pubsub_seen_item")
                == Int64(SeenItemTable.longestID + 1))
        // A digest is nobody's id.
        try account.receive(event: EventAccount.nick("x", id: SeenItemTable.key(ForeignText(ids[1])).string))
        #expect(try account.takeNotes().count == 1)
        let retract = "<items node='\(node)'><retract id='\(ids[2])'/></items>"
        try account.receive(event: retract)
        #expect(try account.number("SELECT count(*) FROM pubsub_seen_item") == 3)
        await account.close()
    }

    @Test("P5 what is kept over all publishers is bounded for each of two handlers that see the same items")
    func boundedTogether() async throws {
        let account = try EventAccount()
        try account.listen(tag: "first")
        try account.listen(as: "second", tag: "second")
        let handlers = try account.step { step in
            try step.all("SELECT handler FROM listener") { (row) throws(HandlerError) in
                AnyHandlerID(rawValue: row.integer(0))
            }
        }
        let item = PubSubItem(id: "current", payload: Element("e", namespace: "urn:x"))
        try account.step { step in
            for number in 0..<(SeenItemTable.items + 500) {
                let publisher = try JID("u\(number)@capulet.example")
                for handler in handlers {
                    _ = try SeenItemTable(handler: handler).recordNews([item], at: publisher, in: step)
                }
            }
        }
        for handler in handlers {
            let count = try account.number(
                "SELECT count(*) FROM pubsub_seen_item WHERE handler = \(handler.rawValue)")
            #expect(count >= SeenItemTable.items && count < SeenItemTable.items + 64)
        }
        await account.close()
    }
}
