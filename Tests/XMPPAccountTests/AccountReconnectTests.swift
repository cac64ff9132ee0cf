import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore
import TestServers
import XMPPTestKit

@testable import XMPPAccount
@testable import XMPPTransport

/// Reconnecting on a clock that the tests turn.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct AccountReconnectTests {
    /// An account behind a proxy, which counts what tries to connect.
    private struct Line {
        let rig: AccountRig
        let clock: VirtualClock
        let proxy: LoopbackProxy
        let account: Account
        let events: EventReader

        init(_ rig: AccountRig, _ clock: VirtualClock) async throws {
            self.rig = rig
            self.clock = clock
            proxy = try LoopbackProxy(to: rig.server.directTLSPort)
            let port = proxy.port
            account = try rig.account {
                $0.server = .init(host: "127.0.0.1", port: port, security: .directTLS)
                // While the clock is turned, answers on their way are not overdue.
                $0.acknowledgementTimeout = .seconds(86400)
            }
            events = EventReader(account)
            try await account.connect()
        }

        var attempts: Int { proxy.records.count }

        /// Turns the clock and waits until the account has looked at it.
        func turn(_ milliseconds: Int64) async throws {
            clock.advance(by: .milliseconds(milliseconds))
            try await account.perform { _ in }
        }
    }

    private func withLine(_ body: (Line) async throws -> Void) async throws {
        let clock = VirtualClock()
        try await withRig(clock: clock) { rig in
            let line = try await Line(rig, clock)
            try await body(line)
            line.proxy.close()
        }
    }

    @Test("X8 no attempt comes before its time, and each comes within it")
    func waits() async throws {
        try await withLine { line in
            line.rig.server.refuseConnections()
            line.proxy.cut()
            await line.events.until("suspended")
            var longest: Int64 = 250
            for round in 1...6 {
                guard case .retrying(let wait, _) = await line.events.until("retrying") else {
                    Issue.record("no retrying")
                    return
                }
                let milliseconds = wait / .milliseconds(1)
                #expect((longest / 2...longest).contains(Int64(milliseconds)), "round \(round): \(wait)")
                try await line.turn(Int64(milliseconds) - 1)
                #expect(line.attempts == round, "round \(round) came too early")
                try await line.turn(1)
                try await eventually("round \(round)") { line.attempts == round + 1 }
                longest *= 2
            }
            line.rig.server.refuseConnections(false)
            try await line.rig.turnUntil { line.rig.server.log.entries.contains { $0.event == .resumed } }
            await line.events.until("resumed")
            #expect(line.events.seen == ["bound", "suspended connection-failed", "resumed"])
        }
    }

    @Test("X8 another client in the session's place ends the trying with a reason")
    func conflict() async throws {
        try await withLine { line in
            line.rig.server.send(StreamError(.conflict).element, to: .everyone)
            guard case .stopped(let error) = await line.events.until("stopped") else {
                Issue.record("no stopped")
                return
            }
            #expect(error.code == .conflict)
            #expect(line.events.seen == ["bound", "suspended stream-error", "stopped conflict"])
            for _ in 0..<3 { try await line.turn(120_000) }
            #expect(line.attempts == 1)
            try await line.account.connect()
            #expect(line.attempts == 2, "who asks for it gets it back")
        }
    }

    @Test(
        "X8 a server that sends away who has just resumed is asked once more, and is believed the second time"
    )
    func freshConflict() async throws {
        try await withLine { line in
            line.proxy.cut()
            try await line.rig.turnUntil { line.attempts == 2 }
            await line.events.until("resumed")
            line.rig.server.send(StreamError(.conflict).element, to: .everyone)
            await line.events.until("suspended")
            try await line.rig.turnUntil { line.attempts == 3 }
            await line.events.until("resumed")
            line.rig.server.send(StreamError(.conflict).element, to: .everyone)
            guard case .stopped(let error) = await line.events.until("stopped") else {
                Issue.record("no stopped")
                return
            }
            #expect(error.code == .conflict)
            for _ in 0..<3 { try await line.turn(120_000) }
            #expect(line.attempts == 3)
        }
    }

    @Test("S16 a server that resumes and then understands nothing is not asked to resume for ever")
    func poisoned() async throws {
        try await withLine { line in
            line.proxy.cut()
            for attempt in 2...3 {
                try await line.rig.turnUntil { line.attempts == attempt }
                await line.events.until("resumed")
                // The server answers this, so the next end counts as the first again.
                if attempt == 2 { try await line.account.caughtUp() }
                line.rig.server.send(StreamError(.notWellFormed).element, to: .everyone)
                await line.events.until("suspended")
            }
            try await line.rig.turnUntil { line.attempts == 4 }
            await line.events.until("resumed")
            line.rig.server.send(StreamError(.notWellFormed).element, to: .everyone)
            await line.events.until("suspended")
            try await line.rig.turnUntil { line.attempts == 5 }
            await line.events.until("bound")
            #expect(line.events.seen.count { $0 == "resumed" } == 3)
            try await line.account.caughtUp()
        }
    }

    @Test("X8 a server with another certificate is tried three times, then the trying ends with the reason")
    func untrusted() async throws {
        try await withLine { line in
            let stranger = try AccountRig(flaw: .wrongName)
            line.proxy.lead(to: stranger.server.directTLSPort)
            line.proxy.cut()
            try await line.rig.turnUntil { line.attempts >= 4 }
            guard case .stopped(let error) = await line.events.until("stopped") else {
                Issue.record("no stopped")
                return
            }
            #expect(error.code == .untrustedServer)
            #expect(error.cause is TransportError)
            try await line.turn(120_000)
            #expect(line.attempts == 4)
            #expect(!stranger.server.log.entries.contains { $0.event == .received }, "nothing was said to it")
            await stranger.close()
        }
    }

    @Test("X8 a hint ends the waiting at once")
    func hintWhileWaiting() async throws {
        try await withLine { line in
            line.rig.server.refuseConnections()
            line.proxy.cut()
            try await line.rig.turnUntil { line.attempts >= 5 }
            line.rig.server.refuseConnections(false)
            // Nobody turns the clock any more, so only the hint can wake the account; one that comes in the middle of
            // an attempt has it tried again.
            line.account.networkChanged()
            await line.events.until("resumed")
            #expect(line.events.seen == ["bound", "suspended connection-failed", "resumed"])
        }
    }

    @Test("X8 after a hint a connection that stays silent counts as dead, and one that answers goes on")
    func hintWhileLive() async throws {
        try await withLine { line in
            line.account.networkChanged()
            try await line.account.caughtUp()
            try await line.turn(11_000)
            #expect(line.attempts == 1)
            line.proxy.silence()
            line.account.networkChanged()
            try await line.turn(0)
            try await line.turn(9_999)
            #expect(line.attempts == 1)
            try await line.turn(1)
            guard case .suspended(let error) = await line.events.until("suspended") else {
                Issue.record("no suspended")
                return
            }
            #expect(error.code == .timedOut)
            #expect(error.message.contains("since the network changed"))
        }
    }

    @Test("X8 a lost session is another event than a broken stream or a resumed session")
    func lostSession() async throws {
        try await withLine { line in
            line.rig.server.refuseNextResumption()
            line.proxy.cut()
            await line.events.until("bound")
            try await line.rig.turnUntil { line.rig.server.log.entries.count { $0.event == .bound } == 2 }
            await line.events.until("sessionLost")
            await line.events.until("bound")
            #expect(line.events.seen == ["bound", "suspended connection-failed", "sessionLost", "bound"])
        }
    }

    @Test("X8 a listener that does not listen delays nobody")
    func slowListener() async throws {
        try await withLine { line in
            let slow = line.account.events
            for _ in 0..<3 {
                line.proxy.cut()
                let before = line.attempts
                try await line.rig.turnUntil { line.attempts > before }
                await line.events.until("resumed")
            }
            #expect(line.events.seen.count { $0 == "resumed" } == 3)
            await line.account.close()
            var names: [String] = []
            for await event in slow { names.append(event.name) }
            #expect(names.filter { $0 == "resumed" }.count == 3)
        }
    }

    @Test("X4 an open stream that is sent to another host goes there")
    func seeOtherHostWhileLive() async throws {
        try await withLine { line in
            let other = try LoopbackProxy(to: line.rig.server.directTLSPort)
            line.rig.server.send(
                Element(
                    "error", namespace: Namespaces.stream,
                    children: [
                        Element(
                            "see-other-host", namespace: Namespaces.streams, text: "127.0.0.1:\(other.port)")
                    ]), to: .everyone)
            await line.events.until("suspended")
            try await line.rig.turnUntil { !other.records.isEmpty }
            await line.events.until("resumed")
            #expect(line.attempts == 1)
        }
    }
}
