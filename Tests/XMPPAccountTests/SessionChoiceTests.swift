import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// A program that decides whether and when to resume, and reads what the server said.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct SessionChoiceTests {
    /// What the server said so far, by names.
    private func answers(of account: Account) -> Kept<[String]> {
        let kept = Kept<[String]>([])
        let events = account.events
        Task {
            for await case .streamManagementAnswered(let element) in events {
                kept.withLock { $0.append("\(element.name) \(element["h"] ?? "-")") }
            }
        }
        return kept
    }

    @Test(
        "S15 the program may bind a new session although the stored one could be resumed, in either profile of the login",
        arguments: [true, false])
    func bind(isExtensible: Bool) async throws {
        try await withRig(reconnects: false) { rig in
            let first = try await rig.connected { $0.usesExtensibleLogin = isExtensible }
            try await first.caughtUp()
            rig.server.pause([.reading])
            try await first.ask(rig.question("q1", want: "nothing"))
            try await first.tell("m1")
            await first.close()
            rig.server.unpause([.reading])

            let asked = Kept<[StoredSession?]>([])
            let mark = rig.server.log.count
            let second = try await rig.connected {
                $0.usesExtensibleLogin = isExtensible
                $0.chooseSession = { session in
                    asked.withLock { $0.append(session) }
                    return .bind
                }
            }
            try await second.caughtUp()
            let session = try #require(asked.withLock { $0 }.first ?? nil)
            #expect(session.jid.bare == AccountRig.alice && session.isLikelyKept)
            #expect(asked.withLock { $0 }.count == 1)
            #expect(!rig.server.log.entries(from: mark).contains { $0.event == .resumed })
            #expect(!rig.server.log.entries(from: mark).contains { $0.xml?.contains("<resume") == true })
            try await eventually { try second.store.notes("abandoned") == ["q1: session-lost"] }
            try await eventually { try second.store.notes("acknowledged").count == 1 }
            // What the line of before still held is read late, and belongs to the lost session.
            let entries = rig.server.log.entries(from: mark)
            let newest = entries.map(\.session).max()
            #expect(entries.count { $0.event == .received && $0.id == "m1" && $0.session == newest } == 1)
        }
    }

    @Test("S15 the program may wait: the session stays, and it is asked again when the time is over")
    func wait() async throws {
        let clock = VirtualClock()
        try await withRig(clock: clock) { rig in
            let first = try await rig.connected()
            try await first.caughtUp()
            await first.close()
            let choice = Kept(SessionChoice.wait(.seconds(90)))
            let asked = Kept(0)
            let second = try rig.account {
                $0.chooseSession = { _ in
                    asked.withLock { $0 += 1 }
                    return choice.withLock { $0 }
                }
            }
            let error = await errorOf { try await second.connect() }
            #expect((error as? AccountError)?.code == .sessionPostponed)
            let events = EventReader(second)
            async let connected: Void = second.connect(retrying: true)
            let event = await events.until("retrying")
            guard case .retrying(let time, _)? = event else {
                Issue.record("there is no wait: \(String(describing: event))")
                return
            }
            #expect(time == .seconds(90))
            #expect(asked.withLock { $0 } == 2)
            #expect(!rig.server.log.entries.contains { $0.event == .resumed })
            choice.withLock { $0 = .resume }
            try await rig.turnUntil { asked.withLock { $0 } == 3 }
            try await connected
            await events.until("resumed")
        }
    }

    @Test(
        "S15 a program is asked with nothing to resume before the first session, and resumes the next by itself"
    )
    func nothingStored() async throws {
        try await withRig(reconnects: false) { rig in
            let asked = Kept<[Bool]>([])
            let account = try await rig.connected {
                $0.chooseSession = { session in
                    asked.withLock { $0.append(session != nil) }
                    return .resume
                }
            }
            let events = EventReader(account)
            try await account.caughtUp()
            rig.server.dropConnections()
            await events.until("suspended")
            try await account.connect()
            await events.until("resumed")
            #expect(asked.withLock { $0 } == [false, true])
        }
    }

    @Test(
        "S15 the server's own answers to stream management can be read, in either profile of the login",
        arguments: [true, false])
    func answers(isExtensible: Bool) async throws {
        try await withRig(reconnects: false) { rig in
            let account = try rig.account { $0.usesExtensibleLogin = isExtensible }
            #expect(try !account.store.step { try account.supportsStreamManagement(in: $0) })
            let said = answers(of: account)
            let events = EventReader(account)
            try await account.connect()
            try await eventually { said.withLock { $0 } == ["enabled -"] }
            #expect(try account.store.step { try account.supportsStreamManagement(in: $0) })
            try await account.caughtUp()
            rig.server.dropConnections()
            await events.until("suspended")
            try await account.connect()
            try await eventually { said.withLock { $0.count } == 2 }
            #expect(said.withLock { $0.last }?.hasPrefix("resumed ") == true)
            rig.server.refuseNextResumption()
            rig.server.dropConnections()
            await events.until("suspended")
            try await account.connect()
            try await eventually { said.withLock { $0.count } == 4 }
            let rest = said.withLock { Array($0.suffix(2)) }
            #expect(rest.first?.hasPrefix("failed ") == true && rest.last == "enabled -", "\(rest)")
        }
    }
}
