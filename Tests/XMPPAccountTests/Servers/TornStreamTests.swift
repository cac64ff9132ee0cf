import Foundation
import Handlers
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

extension RealServerTests {
    /// A client that is killed while its bytes are on the way: the line breaks after each number of encrypted bytes.
    @Suite struct TornStreamTests {
        /// An account whose line can break at any byte, and an independent client that writes down what reaches it.
        private final class Line {
            let home: RealHome
            let proxy: LoopbackProxy
            let account: Account
            let peer: SlixmppPeer
            let events: EventReader
            /// Without it the line's break would be repaired before the server has seen it.
            let clock = VirtualClock()
            /// What was sent so far.
            private(set) var ids: [String] = []
            private(set) var breaks = 0

            init(_ home: RealHome) async throws {
                self.home = home
                proxy = try LoopbackProxy(to: home.port(.directTLS))
                let clock = clock
                account = try home.account(port: proxy.port) { $0.time = clock.timeSource }
                peer = try home.scene.peer()
                events = EventReader(account)
                try await account.connect()
                try await account.caughtUp()
            }

            var sent: Int { proxy.records.last?.sent ?? 0 }

            /// Sends messages in one step.
            func send(_ count: Int, size: Int) async throws {
                let peer = try peer.jid
                let fresh = (0..<count).map { "m\(1000 + ids.count + $0)" }
                let body = String(repeating: "x", count: size)
                let account = account
                try await account.perform { step in
                    for id in fresh { try account.send(Message(to: peer, id: id, body: body), in: step) }
                }
                ids += fresh
            }

            /// Waits until the server has taken everything.
            func settled() async throws {
                try await eventually("the outbox is empty") { try self.home.store.outboxCount == 0 }
            }

            /// How many encrypted bytes that takes.
            func bytes(_ count: Int, size: Int) async throws -> Int {
                let before = sent
                try await send(count, size: size)
                try await settled()
                return sent - before
            }

            /// Sends while the line breaks after so many bytes.
            func sendTorn(_ count: Int, size: Int, after position: Int) async throws {
                let total = sent + position
                proxy.cut(afterSending: total)
                try await send(count, size: size)
                // One flight may be some bytes shorter than another: then the line breaks behind it.
                try await eventually("the end of the line") {
                    try self.sent == total || self.home.store.outboxCount == 0
                }
                if sent < total { proxy.cut() }
                await events.until("retrying")
                breaks += 1
                let end = ContinuousClock.now + .seconds(30)
                if let ejabberd = home.server as? EjabberdServer {
                    #expect(try ejabberd.waitUntilDepartedAreGone(over: proxy, deadline: end))
                } else {
                    #expect(proxy.waitUntilDepartedAreClosed(deadline: end))
                }
                account.networkChanged()
            }

            func expectConserved(bound: Int64 = 1) async throws {
                try await eventually("the last message") {
                    try self.peer.log().contains { $0.kind == .received && $0.id == self.ids.last }
                }
                #expect(try peer.log().filter { $0.kind == .received }.compactMap(\.id) == ids)
                #expect(try home.sessions[1] == bound)
            }
        }

        private func withLine(_ kind: ServerKind, _ body: (Line) async throws -> Void) async throws {
            try await withHome(kind) { home in
                let line = try await Line(home)
                defer { line.peer.close() }
                try await body(line)
            }
        }

        /// Whether all positions are tried, as `make torture` does, and not only some.
        private static let triesAll = ProcessInfo.processInfo.environment["TORN_POSITIONS"] == "all"

        @Test(
            "S16 a kill at any byte of two stanzas keeps the session, and nothing is lost or repeated",
            arguments: ServerKind.allCases)
        func twoStanzas(kind: ServerKind) async throws {
            try await withLine(kind) { line in
                let size = try await line.bytes(2, size: 100)
                for position in stride(from: 0, to: size, by: Self.triesAll ? 1 : max(1, size / 10)) {
                    try await line.sendTorn(2, size: 100, after: position)
                    await line.events.until("resumed")
                    try await line.settled()
                }
                try await line.expectConserved()
                #expect(try line.home.sessions[0] == Int64(line.breaks))
            }
        }

        @Test(
            "S16 a kill at any byte of a burst of 50 keeps the session, and nothing is lost or repeated",
            arguments: ServerKind.allCases)
        func burst(kind: ServerKind) async throws {
            try await withLine(kind) { line in
                let size = try await line.bytes(50, size: 1000)
                try #require(size > 3 * 16_384, "the burst fills several TLS records")
                // Behind each record, and anywhere.
                let ends = (1...3).map { $0 * (16_384 + 22) }
                let positions = ends + (0..<(Self.triesAll ? 100 : 4)).map { _ in Int.random(in: 0..<size) }
                for position in positions {
                    try await line.sendTorn(50, size: 1000, after: position)
                    await line.events.until("resumed")
                    try await line.settled()
                    #expect(try line.home.sessions[1] == 1, "broken after \(position) bytes")
                }
                try await line.expectConserved()
                #expect(try line.home.sessions[0] == Int64(line.breaks))
            }
        }

        @Test(
            "S16 a kill inside a stanza of several TLS records loses and repeats nothing, whatever becomes of the session",
            arguments: ServerKind.allCases)
        func largeStanza(kind: ServerKind) async throws {
            try await withLine(kind) { line in
                try await line.sendTorn(1, size: 40_000, after: 20_000)
                await line.events.until("resumed")
                // Prosody goes on with the unfinished stanza and answers nothing; two silent streams end the session.
                try await eventually("the message is taken") {
                    if try line.home.store.outboxCount == 0 { return true }
                    line.clock.advance(by: .seconds(1))
                    return false
                }
                try await line.expectConserved(bound: kind == .prosody ? 2 : 1)
                #expect(try line.home.sessions[0] == (kind == .prosody ? 2 : 1))
            }
        }
    }
}
