import Handlers
@testable import IQTracker
@testable import Omemo
import PubSub
import TestThreads
import Testing
@testable import XMPPAccount
import XMPPCore

/// Device lists and bundles that are missing, empty, wrong or endless, by accident or on purpose.
@Suite(.ownThread) struct BrokenListsTests {
    // MARK: Lists

    @Test("O4 a message to somebody without devices is given up with the reason, and nothing of it leaves")
    func noDevices() async throws {
        let (world, a, _) = try World.pair()
        try a.send("one", to: "nobody@capulet.lit")
        try world.settle()
        #expect(try a.heard() == ["not sent 0 the user has no OMEMO device"])
        #expect(a.sent == [])
        #expect(try a.texts("SELECT target FROM omemo_waiting") == [])
        await world.close()
    }

    @Test(
        "O2 O4 a list that cannot be had is not read as empty: the one that is known serves, else the reason is reported"
    )
    func listError() async throws {
        let (world, a, b) = try World.pair()
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
        let (world, a, _) = try World.pair()
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
            let request = try #require(try client.account.requests.claim(id: ForeignText(id), in: step))
            let iq = IQ(
                type: .error, from: request.peer, id: id, payload: StanzaError(.remoteServerTimeout).element)
            try step.end(
                HandlerID(of: request.handler), .timeout,
                with: IQReply(account: client.account, iq: iq, outcome: .timeout))
        }
    }

    @Test("O4 what was asked for in a session that is lost is asked for again, and the message goes")
    func sessionLost() async throws {
        let (world, a, b) = try World.pair()
        try a.send("one", to: romeo)
        for _ in 0..<3 {
            try a.step { step in
                try step.execute("DELETE FROM outbox")
                for id in try step.all(
                    "SELECT stanza_id FROM request", read: { (row) throws(HandlerError) in row.text(0) })
                {
                    guard let request = try a.account.requests.claim(id: ForeignText(id), in: step) else {
                        continue
                    }
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
        let (world, a, _) = try World.pair()
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
        world.clock.now += OmemoAnnouncement.window.milliseconds + 1
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
            // Nothing is said under it meanwhile, nor is a session started for that.
            let peer = OmemoAddress(jid: try JID(romeo), device: first, version: .omemo2)
            let hasMore = try a.step { step in
                _ = try a.omemo.duties.add(.repair, to: peer, in: step)
                return try a.omemo.performDuties(in: step)
            }
            #expect(!hasMore)
            #expect(try a.texts("SELECT CAST(xml AS TEXT) FROM outbox WHERE xml LIKE '%montague%'") == [])
            try world.settle()
            let second = try a.own.device
            #expect(second != first)
            #expect(world.list(juliet, version) == [first.rawValue, second.rawValue])
            await world.close()
        }
    }

    @Test("O2 a removed device gets nothing any more; one that comes back does, with the trust it had")
    func removed() async throws {
        let (world, a, romeos) = try World.trio()
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

    @Test("O2 O4 a list that has become empty is believed: nothing leaves, and the reason is reported")
    func emptyList() async throws {
        let (world, a, b) = try World.pair()
        try a.send("one", to: romeo)
        try world.settle()
        #expect(try b.heard() == ["one blind"])
        for version in OmemoVersion.allCases {
            let list = OmemoDeviceList(version, devices: [])
            world.nodes["\(romeo) \(version.deviceListNode)"] = [("current", list.element)]
        }
        // In another session a list may have changed.
        try a.step { _ = try $0.execute("UPDATE session SET number = number + 1") }
        let before = a.sent.count
        try a.send("two", to: romeo)
        try world.settle()
        #expect(try a.heard() == ["not sent 0 the user has no OMEMO device"])
        #expect(a.sent.count == before)
        await world.close()
    }

    @Test("O2 a device puts itself back on an own list without it, and leaves the others on it")
    func listWithoutUs() async throws {
        let (world, a, _) = try World.pair()
        let device = try a.own.device.rawValue
        for version in OmemoVersion.allCases {
            let others = [7, 9].compactMap { OmemoDeviceID(rawValue: $0) }.map { OmemoDeviceList.Device($0) }
            let list = OmemoDeviceList(version, devices: others)
            world.nodes["\(juliet) \(version.deviceListNode)"] = [("current", list.element)]
            try a.step { step in
                _ = try a.omemo.learn(list, of: JID(juliet), in: step)
                try a.omemo.goOn(with: JID(juliet), version, in: step)
            }
        }
        try world.settle()
        for version in OmemoVersion.allCases { #expect(world.list(juliet, version) == [7, 9, device]) }
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
                    world.nodes[key]?.append((ForeignText(version.bundleItem(device)), broken))
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
        let (world, a, b) = try World.pair()
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
        let (world, a, b) = try World.pair()
        try b.step { step in
            try step.execute("DELETE FROM omemo_prekey")
            // Nothing is published again while the old bundle is read.
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

    @Test("O3 O4 of a bundle with ten thousand prekeys some are looked at, and one is used")
    func hugeBundle() async throws {
        let (world, a, b) = try World.pair()
        let device = try b.own.device
        for version in OmemoVersion.allCases {
            let bundle = try world.bundle(b, version)
            let keys = (0..<100).flatMap { round in
                bundle.preKeys.map { OmemoBundle.PreKey(id: $0.id + UInt32(round) * 1000, key: $0.key) }
            }
            let huge = OmemoBundle(
                version: version, identityKey: bundle.identityKey, signedPreKey: bundle.signedPreKey,
                signature: bundle.signature, preKeys: bundle.preKeys + keys)
            #expect(try OmemoBundle(huge.element, version).preKeys.count <= OmemoBundle.maximumPreKeys)
            let key = "\(romeo) \(version.bundleNode(device))"
            world.nodes[key] = [(ForeignText(version.bundleItem(device)), huge.element)]
        }
        try a.send("one", to: romeo)
        try world.settle()
        #expect(try a.texts("SELECT jid FROM omemo_session") == [romeo])
        await world.close()
    }

    @Test("O3 a message to a signed prekey that is gone cannot be read, and a new session is offered")
    func oldSignedPreKey() async throws {
        let (world, a, b) = try World.pair()
        b.isOnline = false
        try a.send("lost", to: romeo)
        try world.settle()
        let inbox = b.inbox
        (b.inbox, b.isOnline) = ([], true)
        // Replaced, and then as long again.
        for _ in 0..<2 {
            world.clock.now += OmemoService.signedPreKeyLife.milliseconds
            try b.start()
            try world.settle()
        }
        b.inbox = inbox
        try world.settle()
        #expect(try b.heard() == ["failed unknown-prekey"])
        try a.send("two", to: romeo)
        try world.settle()
        #expect(try b.heard() == ["two blind"])
        await world.close()
    }
}
