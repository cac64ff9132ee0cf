@testable import Omemo
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules

/// Whole conversations between devices, through a server in memory.
@Suite(.ownThread) struct ConversationTests {
    @Test("O2 O3 a device that starts is published in both versions: 100 prekeys, and on the list")
    func published() async throws {
        let world = World()
        let client = try world.add(juliet + "/a")
        try world.settle()
        let device = try client.own.device.rawValue
        for version in OmemoVersion.allCases {
            #expect(world.list(juliet, version) == [device])
            let bundle = try world.bundle(client, version)
            #expect(bundle.preKeys.count == 100)
            #expect(IdentityKey(wire: bundle.identityKey, version) == (try client.own.key))
        }
        await world.close()
    }

    @Test("O4 the first message waits for lists and keys, and then everybody's devices read it, each once")
    func multiDevice() async throws {
        let world = World()
        let juliets = try ["a", "b", "c"].map { try world.add("\(juliet)/\($0)") }
        let romeos = try ["a", "b", "c"].map { try world.add("\(romeo)/\($0)") }
        // Each overwrites the others' list; the server's notices let them put themselves back.
        world.isPushing = true
        try world.settle()
        for version in OmemoVersion.allCases { #expect(world.list(juliet, version)?.count == 3) }
        try romeos[0].send("one", to: juliet)
        #expect(try romeos[0].texts("SELECT target FROM omemo_waiting") == [juliet])
        #expect(try romeos[0].texts("SELECT CAST(xml AS TEXT) FROM outbox WHERE kind = 0") == [])
        try world.settle()
        for client in juliets + romeos.dropFirst() {
            #expect(try client.heard() == ["one blind"], "\(client.jid)")
        }
        #expect(try romeos[0].heard() == [])
        try juliets[1].send("two", to: romeo)
        try world.settle()
        for client in romeos + [juliets[0], juliets[2]] {
            #expect(try client.heard() == ["two blind"], "\(client.jid)")
        }
        // Sessions are there: nothing waits any more.
        try romeos[2].send("three", to: juliet)
        try world.settle()
        try romeos[2].send("four", to: juliet)
        #expect(try romeos[2].texts("SELECT target FROM omemo_waiting") == [])
        try world.settle()
        #expect(try juliets[2].heard() == ["three blind", "four blind"])
        await world.close()
    }

    @Test(
        "O5 a bot answers a session at once, whatever catch-up with an archive its store has left",
        arguments: [true, false])
    func bots(isBot: Bool) async throws {
        let world = World()
        let bot = try world.add(juliet + "/bot", isBot: isBot)
        let friend = try world.add(romeo + "/a")
        try world.settle()
        try bot.step { step in
            _ = try step.execute(
                "INSERT INTO archive(account, jid, state) VALUES (?, ?, ?)", bot.account.id, juliet,
                ArchiveProgress.State.fetching.rawValue)
        }
        try friend.send("one", to: juliet)
        try world.settle()
        #expect(try bot.heard() == ["one blind"])
        let owed = try bot.texts("SELECT kind FROM omemo_duty WHERE done_at IS NULL")
        #expect(owed.isEmpty == isBot, "\(owed)")
        await world.close()
    }

    @Test("X26 devices tell what they publish, whom they start sessions with, and what they cannot read")
    func log() async throws {
        let world = World()
        let (a, b) = (try world.add(juliet + "/a"), try world.add(romeo + "/b"))
        try world.settle()
        try a.send("one", to: romeo)
        try world.settle()
        let mine = a.log.entries.filter { $0.module == "omemo" }.map { "\($0.level) \($0.message)" }
        let (own, other) = try (a.own.device, b.own.device)
        #expect(mine.contains("info publishes the bundle of device \(own)"))
        #expect(mine.contains("info puts device \(own) on the own list, beside 0 others"))
        #expect(mine.contains("info begins a session with \(romeo)/\(other)"))
        #expect(!a.log.text.contains("one") && !b.log.text.contains("one"), "no content is told")
        await world.close()
    }

    @Test("O4 messages that wait leave in the order in which they were sent, and never in the clear")
    func order() async throws {
        let (world, a, b) = try World.pair()
        for index in 0..<5 { try a.send("secret \(index)", to: romeo) }
        try world.settle()
        #expect(try b.heard() == (0..<5).map { "secret \($0) blind" })
        for stanza in a.sent {
            #expect(!stanza.serialized().contains("secret"))
            #expect(stanza.elements.contains { $0.name == "encrypted" })
        }
        await world.close()
    }

    @Test("O1 a device of one version only is spoken to in that version", arguments: OmemoVersion.allCases)
    func oneVersion(_ version: OmemoVersion) async throws {
        let (world, a, b) = try World.pair()
        let other = version == .legacy ? OmemoVersion.omemo2 : .legacy
        world.nodes["\(romeo) \(other.deviceListNode)"] = nil
        try a.send("one", to: romeo)
        try world.settle()
        #expect(try b.heard() == ["one blind"])
        #expect(a.sent.last?.children("encrypted", version.namespace).count == 1)
        try b.send("two", to: juliet)
        try world.settle()
        #expect(try a.heard() == ["two blind"])
        await world.close()
    }

    @Test("O5 both start at the same moment: everything arrives, and one session stays")
    func crossing() async throws {
        let (world, a, b) = try World.pair()
        // Both have the other's keys before either message is on its way.
        try a.send("a1", to: romeo)
        try b.send("b1", to: juliet)
        try world.settle()
        for round in 2..<12 {
            try a.send("a\(round)", to: romeo)
            try b.send("b\(round)", to: juliet)
            if round % 3 == 0 { try world.settle() } else { try world.carry() }
        }
        try world.settle()
        #expect(try b.heard() == (1..<12).map { "a\($0) blind" })
        #expect(try a.heard() == (1..<12).map { "b\($0) blind" })
        await world.close()
    }

    @Test(
        "O5 of two sessions that crossed the own one is kept when it started less than two minutes ago, and not when the clock was set back since",
        arguments: [(0, true), (119_999, true), (120_000, false), (-1, false)] as [(Int64, Bool)])
    func crossingWindow(passed: Int64, isOwnKept: Bool) async throws {
        let (world, a, b) = try World.pair()
        try a.send("a1", to: romeo)
        try b.send("b1", to: juliet)
        while !([a, b].allSatisfy { $0.sent.contains { $0.elements.contains { $0.name == "encrypted" } } }) {
            try #require(try world.carry())
        }
        // Romeo does not get what Juliet sent; she gets his.
        b.isOnline = false
        world.clock.now += passed
        try world.settle()
        #expect(try a.heard() == ["b1 blind"])
        try a.send("a2", to: romeo)
        try world.settle()
        // Only a session that the other side has not used carries the key exchange.
        let text = try #require(a.sent.last).serialized()
        #expect((text.contains("kex='true'") || text.contains("prekey='true'")) == isOwnKept, "\(text)")
        await world.close()
    }

    @Test("O3 a key exchange uses a prekey up: it is replaced and the bundles are published again")
    func replacedPreKey() async throws {
        let (world, a, b) = try World.pair()
        let before = Set(try world.bundle(b, .omemo2).preKeys.map(\.id))
        try a.send("one", to: romeo)
        try world.settle()
        for version in OmemoVersion.allCases {
            let after = Set(try world.bundle(b, version).preKeys.map(\.id))
            #expect(after.count == 100)
            #expect(before.subtracting(after).count == 1 && after.subtracting(before).count == 1)
        }
        // Once everything has arrived, the used one is gone for good.
        #expect(try b.texts("SELECT CAST(count(*) AS TEXT) FROM omemo_prekey") == ["100"])
        await world.close()
    }

    @Test(
        "O3 the signed prekey is replaced after its time; messages to the old one are read for as long again")
    func rotation() async throws {
        let (world, a, b) = try World.pair()
        let old = try world.bundle(b, .omemo2).signedPreKey.id
        // Encrypted to the old one, and on its way while it is replaced.
        try a.send("one", to: romeo)
        b.isOnline = false
        try world.settle()
        world.clock.now += OmemoService.signedPreKeyLife.milliseconds
        b.isOnline = true
        let inbox = b.inbox
        b.inbox = []
        try b.start()
        try world.settle()
        #expect(try world.bundle(b, .omemo2).signedPreKey.id != old)
        #expect(try world.bundle(b, .legacy).signedPreKey.id != old)
        b.inbox = inbox
        try world.settle()
        #expect(try b.heard().contains("one blind"))
        #expect(try b.texts("SELECT CAST(count(*) AS TEXT) FROM omemo_signed_prekey") == ["2"])
        world.clock.now += OmemoService.signedPreKeyLife.milliseconds
        try b.start()
        try world.settle()
        // The one in use, the one before; the first is gone.
        #expect(try b.texts("SELECT CAST(id AS TEXT) FROM omemo_signed_prekey").contains("\(old)") == false)
        await world.close()
    }

    @Test("O5 after a chain of 53 messages without an answer a heartbeat moves the ratchet on, once")
    func heartbeat() async throws {
        let (world, a, b) = try World.pair()
        try a.send("0", to: romeo)
        try world.settle()
        let quiet = b.sent.count
        for index in 1...60 {
            try a.send("\(index)", to: romeo)
            try world.carry()
            try world.carry()
        }
        #expect(b.sent.count == quiet)
        try world.settle()
        #expect(b.sent.count == quiet + 1)
        #expect(b.sent.last?.elements.first?.child("payload", "urn:xmpp:omemo:2") == nil)
        #expect(try b.heard().count == 61)
        // The chain is new: no further heartbeat.
        try a.send("again", to: romeo)
        try world.settle()
        #expect(b.sent.count == quiet + 1)
        await world.close()
    }

    @Test("O5 a message that comes twice is taken once, and nothing is said about it")
    func twice() async throws {
        let (world, a, b) = try World.pair()
        try a.send("one", to: romeo)
        try world.settle()
        let sent = b.sent.count
        // With another id: only the ratchet can tell.
        var copy = try #require(
            a.sent.last { $0.elements.first?.child("payload", "urn:xmpp:omemo:2") != nil })
        copy["id"] = "another"
        b.inbox.append(copy)
        try world.settle()
        #expect(try b.heard() == ["one blind"])
        #expect(b.sent.count == sent)
        await world.close()
    }

    @Test("O5 a lost session is repaired with an empty message once all is quiet; later messages are read")
    func repair() async throws {
        let (world, a, b) = try World.pairInSession()
        try b.step { _ = try $0.execute("DELETE FROM omemo_session") }
        try a.send("lost", to: romeo)
        try a.send("lost too", to: romeo)
        try world.carry()
        try world.carry()
        #expect(try b.heard() == ["failed no-session", "failed no-session"])
        #expect(b.sent.filter { $0.elements.first?.child("payload", "urn:xmpp:omemo:2") == nil }.count == 1)
        try world.settle()
        #expect(b.sent.filter { $0.elements.first?.child("payload", "urn:xmpp:omemo:2") == nil }.count == 2)
        try a.send("three", to: romeo)
        try world.settle()
        #expect(try b.heard() == ["three blind"])
        // Not again within the hour, whatever is sent.
        try b.step { _ = try $0.execute("DELETE FROM omemo_session") }
        try a.send("lost", to: romeo)
        try world.settle()
        try b.step { _ = try $0.execute("DELETE FROM omemo_session") }
        let sent = b.sent.count
        try a.send("lost", to: romeo)
        try world.settle()
        #expect(b.sent.count == sent)
        await world.close()
    }

    @Test("O8 in a room everybody reads, wherever they are; the server cannot turn it into a private message")
    func room() async throws {
        let world = World()
        let mercutio = "mercutio@verona.lit"
        let clients = try [juliet, romeo, mercutio].map { try world.add($0 + "/a") }
        try world.settle()
        let room = try JID("garden@rooms.lit")
        let members: [JID: ForeignText?] = [
            try JID(juliet): "juliet", try JID(romeo): "romeo", try JID(mercutio): "mercutio",
        ]
        for client in clients { try client.step { try client.omemo.setMembers(members, of: room, in: $0) } }
        for (index, client) in clients.enumerated() {
            _ = try client.step {
                try client.omemo.send(OmemoContent(body: "m\(index)"), toRoom: room, in: $0)
            }
            try world.settle()
        }
        for (index, client) in clients.enumerated() {
            #expect(try client.heard() == (0..<3).filter { $0 != index }.map { "m\($0) blind" })
        }
        var private1 = try #require(clients[0].sent.first { $0["type"] == "groupchat" })
        (private1["type"], private1["to"], private1["id"]) = ("chat", ForeignText(romeo), "x")
        // The ratchet knows this message, so a fresh one is turned.
        _ = try clients[0].step {
            try clients[0].omemo.send(OmemoContent(body: "turned"), toRoom: room, in: $0)
        }
        clients[1].isOnline = false
        try world.settle()
        let index = try #require(clients[1].inbox.firstIndex { $0["type"] == "groupchat" })
        (clients[1].inbox[index]["type"], clients[1].inbox[index]["from"]) = ("chat", "\(juliet)/a")
        clients[1].isOnline = true
        try world.settle()
        #expect(try clients[1].heard() == ["failed envelope-rejected"])
        await world.close()
    }
}
