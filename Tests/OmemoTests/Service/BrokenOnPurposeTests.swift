import Handlers
@testable import IQTracker
@testable import Omemo
import PubSub
import TestThreads
import Testing
@testable import XMPPAccount
import XMPPCore
@testable import XMPPModules
import XMPPTransport

/// What servers and peers do wrong, by accident or on purpose.
@Suite(.ownThread) struct BrokenOnPurposeTests {
    private func hasContent(_ stanza: Element) -> Bool {
        stanza.elements.contains { $0.name == "encrypted" && $0.child("payload", $0.namespace) != nil }
    }

    // MARK: Identities

    @Test("O7 a device that was reinstalled under its number has a new key: nobody has decided about it")
    func changedIdentity() async throws {
        let (world, a, b) = try World.pair()
        try a.send("one", to: romeo)
        try world.settle()
        try b.send("two", to: juliet)
        try world.settle()
        _ = (try a.heard(), try b.heard())
        let (device, oldKey) = try b.own
        // The same number, everything else new.
        try b.step { step in
            for table in ["prekey", "signed_prekey", "publication", "own", "session", "fetch", "duty"] {
                try step.execute("DELETE FROM omemo_\(table)")
            }
            try b.omemo.ownDevice.insert(SignalKeys.makeIdentity(device: device), in: step)
            // Its owner says that it is this device.
            try step.execute("UPDATE omemo_publication SET listed = 1")
            try b.omemo.start(in: step)
        }
        try world.settle()
        let newKey = try b.own.key
        #expect(newKey != oldKey)
        try b.send("three", to: juliet)
        try world.settle()
        #expect(try a.heard() == ["three undecided"])
        let known = try a.step { try a.omemo.identities(of: JID(romeo), in: $0) }
        // Both may have been seen first in the same millisecond, so their order says nothing.
        #expect(Set(known.map(\.key)) == [oldKey, newKey])
        let (old, new) = (known.first { $0.key == oldKey }, known.first { $0.key == newKey })
        #expect(old?.trust == .blind && new?.trust == .undecided)
        #expect(old?.devices == [] && new?.devices == [device])
        // Nothing goes to it before the user has decided.
        try a.send("four", to: romeo)
        try world.settle()
        #expect(try a.heard() == ["not sent 0 nobody has decided yet whether to trust the device's key"])
        #expect(try b.heard() == [])
        try a.step { try a.omemo.setTrust(.verified, in: newKey, of: JID(romeo), in: $0) }
        try a.send("five", to: romeo)
        try world.settle()
        #expect(try b.heard() == ["five blind"])
        await world.close()
    }

    @Test("O7 after a verification new devices wait for a decision; refused ones never get anything")
    func verification() async throws {
        let world = World()
        let a = try world.add(juliet + "/a")
        let first = try world.add(romeo + "/a")
        world.isPushing = true
        try world.settle()
        try a.send("one", to: romeo)
        try world.settle()
        try a.step { try a.omemo.setTrust(.verified, in: first.own.key, of: JID(romeo), in: $0) }
        let second = try world.add(romeo + "/b")
        try world.settle()
        try a.send("two", to: romeo)
        try world.settle()
        #expect(try first.heard() == ["one blind", "two blind"])
        #expect(try second.heard() == ["failed not-for-this-device"])
        #expect(try a.heard() == ["sent 1 nobody has decided yet whether to trust the device's key"])
        try a.step { try a.omemo.setTrust(.untrusted, in: second.own.key, of: JID(romeo), in: $0) }
        try a.send("three", to: romeo)
        try second.send("four", to: juliet)
        try world.settle()
        #expect(try a.heard() == ["sent 1 the device's key is not trusted", "four untrusted"])
        #expect(try second.heard() == ["failed not-for-this-device"])
        let stranger = try SignalKeys.makeIdentity(device: first.own.device).key
        #expect(throws: OmemoError.self) {
            try a.step { try a.omemo.setTrust(.verified, in: stranger, of: JID(romeo), in: $0) }
        }
        await world.close()
    }

    // MARK: Messages

    @Test("O5 of a message with thousands of keys for this device none is tried, and the step goes on")
    func manyKeys() async throws {
        let (world, a, b) = try World.pair()
        try a.send("one", to: romeo)
        try world.settle()
        _ = try b.heard()
        let device = try b.own.device
        for version in OmemoVersion.allCases {
            // A good one, of a session that this device does not have.
            let (one, other) = (try Device(1), try Device(2))
            try one.start(with: other.bundle(version))
            _ = try other.decrypt(one.encrypt("hello", version), version)
            let good = Crypto.base64(try other.encrypt("hello", version).bytes)
            let keys = String(repeating: "<key rid='\(device)'>\(good)</key>", count: 5000)
            let list = version == .legacy ? keys : "<keys jid='\(romeo)'>\(keys)</keys>"
            let xml = """
                <message from='\(juliet)/a' id='many-\(version)'><encrypted xmlns='\(version)'><header sid='77'>\(list)</header>\
                <payload>AAAA</payload></encrypted></message>
                """
            try world.receive(Element(parsing: xml, defaultNamespace: Namespaces.client), b)
        }
        #expect(try b.heard() == ["failed malformed", "failed malformed"])
        await world.close()
    }

    @Test("O5 noise, huge keys and strange elements are handled and never fail the step")
    func noise() async throws {
        let (world, a, b) = try World.pair()
        try a.send("one", to: romeo)
        try world.settle()
        _ = try b.heard()
        let template = try #require(a.sent.first { hasContent($0) })
        let device = try b.own.device
        let long = Crypto.base64([UInt8](repeating: 7, count: 200_000))
        for (index, text) in ["", "!", "AAAA", long, Crypto.base64([UInt8](repeating: 0x33, count: 60))]
            .enumerated()
        {
            for kex in ["true", "false"] {
                for version in OmemoVersion.allCases {
                    let keys =
                        version == .legacy
                        ? "<key rid='\(device)' prekey='\(kex)'>\(text)</key><iv>\(text.prefix(16))</iv>"
                        : "<keys jid='\(romeo)'><key rid='\(device)' kex='\(kex)'>\(text)</key></keys>"
                    var stanza = template
                    stanza["id"] = "n\(index)\(kex)\(version)"
                    let xml = """
                        <encrypted xmlns='\(version)'><header sid='77'>\(keys)</header><payload>AAAA</payload></encrypted>
                        """
                    stanza.children = [.element(try Element(parsing: xml))]
                    try world.receive(stanza, b)
                }
            }
        }
        let heard = try b.heard()
        #expect(heard.count == 20)
        #expect(heard.allSatisfy { $0.hasPrefix("failed ") })
        try a.send("two", to: romeo)
        try world.settle()
        #expect(try b.heard() == ["two blind"])
        await world.close()
    }

    @Test("O5 only the own server may wrap a message in a carbon copy")
    func forgedCarbon() async throws {
        let (world, a, b) = try World.pair()
        try a.send("one", to: romeo)
        try world.settle()
        _ = try b.heard()
        try a.send("two", to: romeo)
        b.isOnline = false
        try world.settle()
        let message = try #require(b.inbox.first)
        b.inbox = []
        b.isOnline = true
        let forwarded = Element("forwarded", namespace: Namespaces.forward, children: [message])
        for (from, isTaken) in [("evil@verona.lit", false), (romeo, true)] {
            let wrapper = Element(
                "message", namespace: Namespaces.client, attributes: ["from": from, "id": from],
                children: [Element("received", namespace: Namespaces.carbons, children: [forwarded])])
            let refusal = try world.receive(wrapper, b, isRefused: !isTaken)
            #expect((refusal == nil) == isTaken)
            #expect(try b.heard() == (isTaken ? ["two blind"] : []))
        }
        await world.close()
    }

    @Test("O5 a message from the archive that was read live is not read twice")
    func archive() async throws {
        let (world, a, b) = try World.pair()
        for text in ["one", "two"] {
            try a.send(text, to: romeo)
            try world.settle()
        }
        let missed = a.sent.filter(hasContent)
        _ = try b.heard()
        try b.step { try b.account.archive.catchUp(JID(romeo), in: $0) }
        let query = try #require(try b.texts("SELECT query FROM archive_query").first)
        for (index, message) in missed.enumerated() {
            let forwarded = Element("forwarded", namespace: Namespaces.forward, children: [message])
            let result = Element(
                "result", namespace: Namespaces.mam, attributes: ["id": "r\(index)", "queryid": query],
                children: [forwarded])
            try world.receive(
                Element(
                    "message", namespace: Namespaces.client,
                    attributes: ["from": romeo, "id": "mam\(index)"],
                    children: [result]), b)
        }
        #expect(try b.heard() == [])
        #expect(try b.texts("SELECT CAST(count(*) AS TEXT) FROM omemo_duty WHERE done_at IS NULL") == ["0"])
        await world.close()
    }

    @Test(
        "O5 a listener that fails undoes the ratchet: the message is quarantined, still encrypted, and not lost"
    )
    func failingListener() async throws {
        let (world, a, b) = try World.pair()
        try a.send("one", to: romeo)
        try world.settle()
        try a.send("two", to: romeo)
        b.isOnline = false
        try world.settle()
        b.isOnline = true
        let before = try b.texts("SELECT hex(record) FROM omemo_session")
        try b.step { _ = try $0.execute("ALTER TABLE note RENAME TO hidden") }
        let message = try #require(b.inbox.first)
        b.inbox = []
        try b.step { step in
            let handlers: [HandlerID<MessageReceived>] = try b.account.listeners.handlers(
                of: "message", in: step)
            let handler = try #require(handlers.first)
            let context = MessageReceived(account: b.account, message: try Message(element: message))
            guard case .retrying = try step.call(handler, with: context) else {
                Issue.record("the failing listener was not noticed")
                return
            }
        }
        #expect(try b.texts("SELECT hex(record) FROM omemo_session") == before)
        try b.step { _ = try $0.execute("ALTER TABLE hidden RENAME TO note") }
        b.inbox = [message]
        try world.settle()
        #expect(try b.heard() == ["one blind", "two blind"])
        await world.close()
    }

    @Test("O6 ratchet and ciphertext are undone together")
    func undone() async throws {
        let (world, a, b) = try World.pair()
        try a.send("one", to: romeo)
        try world.settle()
        let before = try a.texts("SELECT hex(record) FROM omemo_session")
        struct GivenUp: Error {}
        #expect(throws: GivenUp.self) {
            try a.step { step in
                try a.omemo.send(OmemoContent(body: "never"), to: JID(romeo), in: step)
                throw GivenUp()
            }
        }
        #expect(try a.texts("SELECT hex(record) FROM omemo_session") == before)
        #expect(try a.texts("SELECT CAST(xml AS TEXT) FROM outbox") == [])
        try a.send("two", to: romeo)
        try world.settle()
        #expect(try b.heard() == ["one blind", "two blind"])
        await world.close()
    }

    @Test("O5 a program without a device neither sends nor fails on what arrives")
    func withoutDevice() async throws {
        let world = World()
        let a = try world.add(juliet + "/a")
        let b = try world.add(romeo + "/b", starts: false)
        try world.settle()
        #expect(throws: OmemoError.self) { try b.send("one", to: juliet) }
        try a.send("one", to: romeo)
        try world.settle()
        #expect(try a.heard() == ["not sent 0 the user has no OMEMO device"])
        await world.close()
    }
}
