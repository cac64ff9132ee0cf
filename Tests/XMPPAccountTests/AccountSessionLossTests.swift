import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// Sessions that cannot be resumed, and counts that cannot be true.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct AccountSessionLossTests {
    @Test(
        "S9 a failed resumption: with h the acknowledged is marked; messages go again with a delay, requests end",
        arguments: [true, false])
    func failedResume(withCount: Bool) async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await account.caughtUp()
            try await eventually { try account.store.outboxCount == 0 }
            rig.server.freezeWrites()
            try await account.tell("m1")
            try await rig.saw { $0.event == .received && $0.id == "m1" }
            rig.server.pause([.reading])
            try await account.tell("m2")
            try await account.ask(rig.question("q1"))
            try await account.perform { step in
                try account.send(Presence(to: AccountRig.peer), in: step)
            }
            rig.server.dropConnections()
            await events.until("suspended")
            rig.server.refuseNextResumption(withCount: withCount)
            // Never written in the lost session, so it survives.
            rig.server.refuseConnections()
            try await account.ask(rig.question("q2"))
            try await account.tell("m3")
            rig.server.refuseConnections(false)
            let mark = rig.server.log.count
            try await account.connect()
            await events.until("bound")
            #expect(events.seen == ["suspended connection-failed", "sessionLost", "bound"])
            try await account.caughtUp()
            try await eventually { try account.store.waitingHandlers == 0 }
            let again = withCount ? [] : ["message m1"]
            #expect(rig.sent(from: mark) == again + ["message m2", "iq q2", "message m3", "presence "])
            #expect(try account.store.notes("abandoned") == ["q1: session-lost"])
            #expect(try account.store.notes("ended") == ["q2: result answer from peer@localhost/bot"])
            #expect(try account.store.notes("acknowledged") == ["m1: m1", "m2: m2", "m3: m3"])
            let resent = rig.xml(ofID: "m2").last
            #expect(resent?.contains("<delay xmlns='urn:xmpp:delay' stamp='") == true)
            #expect(rig.xml(ofID: "m3").last?.contains("delay") == false)
            #expect(rig.xml(ofID: "m1").count == (withCount ? 1 : 2))
        }
    }

    @Test("S9 a session lost again and again gives a message one delay only")
    func lostTwice() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            rig.server.update {
                $0.reportsLostCount = false
                $0.acknowledgements = .never
            }
            rig.server.setAcknowledgements(.never)
            try await account.tell("m")
            for round in 1...3 {
                try await eventually("the message was written") { rig.xml(ofID: "m").count == round }
                rig.server.refuseNextResumption()
                rig.server.dropConnections()
                await events.until("suspended")
                try await account.connect()
                await events.until("bound")
            }
            try await eventually("the message was written") { rig.xml(ofID: "m").count == 4 }
            let delays = rig.xml(ofID: "m").map { $0.split(separator: "<delay").count - 1 }
            #expect(delays == [0, 1, 1, 1])
        }
    }

    @Test("S9 a handler's own request after a lost session belongs to the new one")
    func abandonedAsksAgain() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await account.caughtUp()
            for number in 0..<600 { try await account.ask(rig.question("q\(number)", want: "silence")) }
            try await account.caughtUp()
            rig.server.expireSessions()
            await events.until("bound")
            #expect(try account.store.notes("abandoned").count == 600)
            #expect(try account.store.waitingHandlers == 0)
            #expect(try account.store.number("SELECT count(*) FROM request") == 0)
        }
    }

    @Test(
        "S10 a count that is too high or too low ends the session with handled-count-too-high; nothing is lost",
        arguments: [UInt32(50), 0])
    func falseCount(claimed: UInt32) async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await account.tell("m1")
            try await eventually { try account.store.outboxCount == 0 }
            rig.server.setAcknowledgements(.claiming(claimed))
            let mark = rig.server.log.count
            try await account.tell("m2")
            await events.until("bound")
            #expect(events.seen.first == "suspended protocol-violation")
            let error = try await rig.saw(from: mark) { $0.event == .received && $0.name == "error" }
            #expect(error.xml?.contains("<undefined-condition") == true)
            #expect(error.xml?.contains("h='\(claimed)'") == true)
            #expect(error.xml?.contains("send-count='3'") == true)
            try await account.caughtUp()
            #expect(try account.store.notes("acknowledged") == ["m1: m1", "m2: m2"])
            #expect(!rig.server.log.entries(from: mark).contains { $0.name == "resume" })
        }
    }

    @Test(
        "S10 a false count in <resumed/> gives a fresh session within the same connect()",
        arguments: [UInt32(50), 0])
    func falseCountAtResumption(claimed: UInt32) async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await account.tell("m1")
            try await eventually { try account.store.outboxCount == 0 }
            rig.server.pause([.reading])
            try await account.tell("m2")
            try await account.suspend()
            rig.server.dropConnections()
            rig.server.setScript { element, _ in
                guard element.name == "resume" else { return .pass }
                return .answer([
                    Element(
                        "resumed", namespace: Namespaces.sm,
                        attributes: ["previd": element["previd"], "h": String(claimed)])
                ])
            }
            let mark = rig.server.log.count
            try await account.connect()
            await events.until("bound")
            try await account.caughtUp()
            #expect(try account.store.notes("acknowledged") == ["m1: m1", "m2: m2"])
            let error = rig.server.log.entries(from: mark).first {
                $0.event == .received && $0.name == "error"
            }
            #expect(error?.xml?.contains("handled-count-too-high") == true)
        }
    }

    @Test("S10 both counts go through 2^32, on an open stream and over a resumption")
    func wrap() async throws {
        let start = UInt32.max - 2
        try await withRig(clock: VirtualClock()) {
            $0.behavior.initialReceivedCount = start
            $0.behavior.initialSentCount = start
            $0.behavior.requestsAcks = false
        } _: { rig in
            rig.server.update { $0.acknowledgements = .never }
            let account = try await rig.connected { $0.sendsInitialPresence = false }
            let events = EventReader(account)
            try await account.listen()
            let own = rig.server.boundAddresses[0]
            // The clock stands still, so the account does not come back with its own counts.
            rig.server.dropConnections()
            await events.until("suspended")
            await account.close()
            // The specification starts at 0; so many stanzas later both sides stand here.
            try account.store.change("UPDATE session SET received = \(start), acknowledged = \(start)")
            let second = try rig.account { $0.sendsInitialPresence = false }
            let others = EventReader(second)
            try await second.connect()
            await others.until("resumed")
            rig.server.setAcknowledgements(.prompt)
            for number in 0..<6 {
                try await second.tell("m\(number)")
                rig.bot.send(Message(to: own, id: "x\(number)", body: "hello").element)
                try await second.caughtUp()
            }
            #expect(try second.store.notes("acknowledged").count == 6)
            #expect(try second.store.number("SELECT received FROM session") == 3)
            #expect(try second.store.number("SELECT acknowledged FROM session") == 3)
            rig.server.dropConnections()
            await others.until("suspended")
            try await second.connect()
            await others.until("resumed")
            #expect(rig.server.log.entries.last { $0.name == "resume" }?.h == 3)
            #expect(try second.store.notes("message").count == 6)
        }
    }
}
