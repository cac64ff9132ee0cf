import Handlers
@testable import IQTracker
@testable import Omemo
import PubSub
import TestThreads
import Testing
@testable import XMPPAccount
import XMPPCore

/// What servers and peers do wrong, by accident or on purpose.
@Suite(.ownThread) struct BrokenOnPurposeTests {
    private let juliet = "juliet@capulet.lit"
    private let romeo = "romeo@montague.lit"

    private func pair() throws -> (World, World.Client, World.Client) {
        let world = World()
        let (a, b) = (try world.add(juliet + "/a"), try world.add(romeo + "/a"))
        try world.settle()
        return (world, a, b)
    }

    private func hasContent(_ stanza: Element) -> Bool {
        stanza.elements.contains { $0.name == "encrypted" && $0.child("payload", $0.namespace) != nil }
    }

    // MARK: Lists

    @Test("O4 a message to somebody without devices is given up with the reason, and nothing of it leaves")
    func noDevices() async throws {
        let (world, a, _) = try pair()
        try a.send("one", to: "nobody@capulet.lit")
        try world.settle()
        #expect(try a.heard() == ["not sent 0 the user has no OMEMO device"])
        #expect(a.sent == [])
        #expect(try a.texts("SELECT target FROM omemo_waiting") == [])
        await world.close()
    }

    @Test(
        "O2 O4 a list that cannot be had is not read as empty: the one that is known serves, else the reason is told"
    )
    func listError() async throws {
        let (world, a, b) = try pair()
        try a.send("one", to: romeo)
        try world.settle()
        world.answer = { request, node in
            node.contains("devices") || node.contains("devicelist")
                ? request.errorReply(StanzaError(.remoteServerTimeout)) : world.usualAnswer(request, node)
        }
        // Another session: everything must be asked for again.
        try a.step { _ = try $0.execute("UPDATE session SET number = number + 1") }
        try a.send("two", to: romeo)
        try a.send("three", to: "mercutio@verona.lit")
        try world.settle()
        #expect(try b.heard() == ["one blind", "two blind"])
        #expect(try a.heard() == ["not sent 0 the device list is not known: remote-server-timeout"])
        await world.close()
    }

    @Test(
        "O4 a list that never comes is asked for three times; the message waits meanwhile and is then given up"
    )
    func listTimeout() async throws {
        let (world, a, _) = try pair()
        world.answer = { _, _ in nil }
        try a.send("one", to: romeo)
        for attempt in 1...3 {
            #expect(try a.texts("SELECT target FROM omemo_waiting") == [romeo], "attempt \(attempt)")
            try world.carry()
            for id in try a.texts("SELECT stanza_id FROM request") { try expire(id, a) }
        }
        #expect(try a.heard() == ["not sent 0 the device list is not known: no answer came in time"])
        #expect(try a.texts("SELECT target FROM omemo_waiting") == [])
        #expect(a.sent == [])
        await world.close()
    }

    private func expire(_ id: String, _ client: World.Client) throws {
        try client.step { step in
            guard let request = try client.account.requests.take(id: id, in: step) else { return }
            let iq = IQ(
                type: .error, from: request.peer, id: id, payload: StanzaError(.remoteServerTimeout).element)
            try step.end(
                request.handler, .timeout, with: IQReply(account: client.account, iq: iq, outcome: .timeout))
        }
    }

    @Test("O4 what was asked for in a session that is lost is asked for again, and the message goes")
    func sessionLost() async throws {
        let (world, a, b) = try pair()
        try a.send("one", to: romeo)
        for _ in 0..<3 {
            try a.step { step in
                try step.execute("DELETE FROM outbox")
                for id in try step.all(
                    "SELECT stanza_id FROM request", read: { (row) throws(HandlerError) in row.text(0) })
                {
                    guard let request = try a.account.requests.take(id: id, in: step) else { continue }
                    try step.invalidate(request.handler, reason: .sessionLost, environment: a.account)
                }
            }
        }
        try world.settle()
        #expect(try b.heard() == ["one blind"])
        await world.close()
    }

    @Test("O2 a device that is taken off its own list puts itself back, and stops when that goes on and on")
    func loopGuard() async throws {
        let (world, a, _) = try pair()
        func evict() throws {
            let list = OmemoDeviceList(.omemo2, devices: [])
            _ = try a.step { step in
                _ = try a.omemo.learn(list, of: JID(juliet), in: step)
                try a.omemo.goOn(with: JID(juliet), .omemo2, in: step)
            }
            world.nodes["\(juliet) \(OmemoVersion.omemo2.deviceListNode)"] = nil
            try world.settle()
        }
        let device = try a.own.device.rawValue
        // The first announcement was one of three.
        for _ in 0..<2 {
            try evict()
            #expect(world.list(juliet, .omemo2) == [device])
        }
        try evict()
        #expect(world.list(juliet, .omemo2) == nil)
        let failure = try a.step { try a.omemo.publicationFailure(.omemo2, in: $0) }
        #expect(failure?.contains("keeps removing") == true)
        // Ten minutes later it may try again.
        world.clock.now += OmemoAnnouncement.window + 1
        try a.start()
        try world.settle()
        #expect(world.list(juliet, .omemo2) == [device])
        await world.close()
    }

    @Test("O2 a number that another device has already is not taken, on whichever list it stands")
    func collision() async throws {
        for version in OmemoVersion.allCases {
            let world = World()
            let a = try world.add(juliet + "/a", starts: false)
            try a.step { try a.omemo.start(in: $0) }
            let first = try a.own.device
            let list = OmemoDeviceList(version, devices: [.init(first)])
            world.nodes["\(juliet) \(version.deviceListNode)"] = [("current", list.element)]
            try world.settle()
            let second = try a.own.device
            #expect(second != first)
            #expect(world.list(juliet, version) == [first.rawValue, second.rawValue])
            await world.close()
        }
    }

    @Test("O2 a removed device gets nothing any more; one that comes back does, with the trust it had")
    func removed() async throws {
        let world = World()
        let a = try world.add(juliet + "/a")
        let romeos = [try world.add(romeo + "/a"), try world.add(romeo + "/b")]
        world.isPushing = true
        try world.settle()
        try a.send("one", to: romeo)
        try world.settle()
        for client in romeos { #expect(try client.heard() == ["one blind"]) }
        func list(_ clients: [World.Client]) throws {
            for version in OmemoVersion.allCases {
                let list = OmemoDeviceList(version, devices: try clients.map { .init(try $0.own.device) })
                try a.step { _ = try a.omemo.learn(list, of: JID(romeo), in: $0) }
            }
        }
        try list([romeos[0]])
        try a.send("two", to: romeo)
        try world.settle()
        #expect(try romeos[0].heard() == ["two blind"])
        #expect(try romeos[1].heard() == ["failed not-for-this-device"])
        try list(romeos)
        try a.send("three", to: romeo)
        try world.settle()
        #expect(try romeos[1].heard() == ["three blind"])
        await world.close()
    }

    // MARK: Bundles

    @Test(
        "O4 a device whose bundle is missing, malformed or signed wrongly is left out and named; the others read"
    )
    func brokenBundle() async throws {
        let breakings: [(OmemoBundle) -> Element?] = [
            { _ in nil },
            { _ in Element("bundle", namespace: "urn:x") },
            { bundle in
                OmemoBundle(
                    version: bundle.version, identityKey: bundle.identityKey,
                    signedPreKey: bundle.signedPreKey,
                    signature: bundle.signature.map { $0 ^ 1 }, preKeys: bundle.preKeys
                ).element
            },
            { bundle in
                OmemoBundle(
                    version: bundle.version, identityKey: bundle.identityKey,
                    signedPreKey: bundle.signedPreKey,
                    signature: bundle.signature, preKeys: []
                ).element
            },
        ]
        for (index, breaking) in breakings.enumerated() {
            let world = World()
            let a = try world.add(juliet + "/a")
            let romeos = [try world.add(romeo + "/a"), try world.add(romeo + "/b")]
            world.isPushing = true
            try world.settle()
            let device = try romeos[1].own.device
            for version in OmemoVersion.allCases {
                let bundle = try world.bundle(romeos[1], version)
                let key = "\(romeo) \(version.bundleNode(device))"
                world.nodes[key]?.removeAll { $0.id == version.bundleItem(device) }
                if let broken = breaking(bundle) {
                    world.nodes[key]?.append((version.bundleItem(device), broken))
                }
            }
            try a.send("one", to: romeo)
            try world.settle()
            #expect(try romeos[0].heard() == ["one blind"], "\(index)")
            let note = try a.heard()
            #expect(
                note.count == 1 && note[0].hasPrefix("sent 1 the device's keys are not known: "),
                "\(index) \(note)")
            await world.close()
        }
    }

    @Test("O1 a device whose bundle of the current version is broken is spoken to in the legacy version")
    func otherVersion() async throws {
        let (world, a, b) = try pair()
        world.nodes["\(romeo) urn:xmpp:omemo:2:bundles"] = nil
        try a.send("one", to: romeo)
        try world.settle()
        #expect(try b.heard() == ["one blind"])
        // What the legacy version cannot carry is not sent in it.
        try a.send("two", to: romeo, elements: [Element("x", namespace: "urn:x")])
        try world.settle()
        #expect(try b.heard() == [])
        let notes = try a.heard()
        #expect(notes.count == 1 && notes[0].hasPrefix("not sent 0"))
        await world.close()
    }

    @Test("O3 a node that others made otherwise is configured, and the keys are published then; once")
    func precondition() async throws {
        let world = World()
        var configured: [String] = []
        var refusals = 0
        world.answer = { request, node in
            let name = request.payload?.firstElement?.name
            if name == "configure" { configured.append(node) }
            guard name == "publish", configured.filter({ $0 == node }).isEmpty || node.hasSuffix(":bundles")
            else {
                return world.usualAnswer(request, node)
            }
            refusals += 1
            let unmet = Element("precondition-not-met", namespace: Namespaces.pubsubErrors)
            return request.errorReply(StanzaError(.conflict, applicationCondition: unmet))
        }
        let a = try world.add(juliet + "/a")
        try world.settle()
        let device = try a.own.device
        // The legacy nodes took it; the bundles of the current version are refused for good.
        #expect(world.list(juliet, .legacy) == [device.rawValue])
        #expect(world.list(juliet, .omemo2) == nil)
        #expect(
            configured.sorted()
                == [
                    OmemoVersion.legacy.bundleNode(device), OmemoVersion.legacy.deviceListNode,
                    OmemoVersion.omemo2.bundleNode(device),
                ].sorted())
        #expect(refusals == 4)
        #expect(try a.step { try a.omemo.publicationFailure(.omemo2, in: $0) } != nil)
        await world.close()
    }

    @Test("O3 messages to prekeys that are used up or gone cannot be read, and a new session is offered")
    func usedUp() async throws {
        let (world, a, b) = try pair()
        try b.step { step in
            try step.execute("DELETE FROM omemo_prekey")
            // Nothing is published anew while the old bundle is read.
            try step.execute("UPDATE omemo_publication SET sending = revision")
        }
        try a.send("lost", to: romeo)
        try world.settle()
        #expect(try b.heard() == ["failed unknown-prekey"])
        try b.send("back", to: juliet)
        try world.settle()
        #expect(try a.heard() == ["back blind"])
        try a.send("two", to: romeo)
        try world.settle()
        #expect(try b.heard() == ["two blind"])
        await world.close()
    }

    // MARK: Identities

    @Test("O7 a device that was reinstalled under its number has a new key: nobody has decided about it")
    func changedIdentity() async throws {
        let (world, a, b) = try pair()
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

    @Test("O5 noise, huge keys and strange elements are handled and never fail the step")
    func noise() async throws {
        let (world, a, b) = try pair()
        try a.send("one", to: romeo)
        try world.settle()
        _ = try b.heard()
        let template = try #require(a.sent.first { hasContent($0) })
        let device = try b.own.device
        let long = Base64.encode([UInt8](repeating: 7, count: 200_000))
        for (index, text) in ["", "!", "AAAA", long, Base64.encode([UInt8](repeating: 0x33, count: 60))]
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
        let (world, a, b) = try pair()
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
        let (world, a, b) = try pair()
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
        "O5 a listener that fails undoes the ratchet: the message is set aside, still encrypted, and not lost"
    )
    func failingListener() async throws {
        let (world, a, b) = try pair()
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
            let handler = try #require(try b.account.listeners.handlers(of: "message", in: step).first)
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
        let (world, a, b) = try pair()
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
