import AccountTestSupport
import Handlers
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import TestServers
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
                // A hundred thousand messages are looked for where they arrive.
                home.log.log.showsSentXML = false
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
                // An archive of a hundred thousand of them would take longer than everything else.
                let hint = Element("no-store", namespace: Namespaces.hints)
                let account = account
                try await account.perform { step in
                    for id in fresh {
                        try account.send(Message(to: peer, id: id, body: body, children: [hint]), in: step)
                    }
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

            /// Sends while the line breaks, and expects that the session goes on.
            func expectKept(_ count: Int, size: Int, tornAfter position: Int) async throws {
                try await sendTorn(count, size: size, after: position)
                await events.until("resumed")
                try await settled()
                #expect(try home.sessions == [Int64(breaks), 1], "broken after \(position) bytes")
                if TornPositions.areAll, breaks % 100 == 0 {
                    print("\(home.server.version): \(breaks) breaks of a line")
                }
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

        /// Sends messages again and again while the line breaks at each of some places, and expects that the session goes on.
        ///
        /// - Parameter positions: After how many bytes, of those that the messages take.
        private func expectKept(
            _ kind: ServerKind, _ count: Int, size: Int,
            tornAt positions: @escaping @Sendable (_ bytes: Int) throws -> [Int]
        ) async throws {
            let lines = TornPositions.lines
            try await withThrowingTaskGroup(of: Void.self) { group in
                for share in 0..<lines {
                    group.addTask {
                        try await withLine(kind) { line in
                            let places = try positions(await line.bytes(count, size: size))
                            if TornPositions.areAll { print("\(kind): \(places.count) positions") }
                            for index in stride(from: share, to: places.count, by: lines) {
                                try await line.expectKept(count, size: size, tornAfter: places[index])
                            }
                            try await line.expectConserved()
                        }
                    }
                }
                try await group.waitForAll()
            }
        }

        /// All of them, or some that are spread over the bytes.
        private static func spread(_ bytes: Int) -> [Int] {
            Array(stride(from: 0, to: bytes, by: TornPositions.areAll ? 1 : max(1, bytes / 10)))
        }

        @Test(
            "S16 a kill at any byte of two stanzas keeps the session, and nothing is lost or repeated",
            arguments: ServerKind.allCases)
        func twoStanzas(kind: ServerKind) async throws {
            try await expectKept(kind, 2, size: 100, tornAt: Self.spread)
        }

        @Test(
            "S16 a kill at any byte of a burst of 50 keeps the session, and nothing is lost or repeated",
            arguments: ServerKind.allCases)
        func burst(kind: ServerKind) async throws {
            try await expectKept(kind, 50, size: 1, tornAt: Self.spread)
        }

        @Test(
            "S16 a kill in a burst of 50 that fills several TLS records keeps the session, and nothing is lost or repeated",
            arguments: ServerKind.allCases)
        func records(kind: ServerKind) async throws {
            try await expectKept(kind, 50, size: 1000) { bytes in
                try #require(bytes > 3 * 16_384, "the burst fills several TLS records")
                // Around the end of each record, and anywhere. A record that is cut off says nothing to the server.
                let ends = (1...3).flatMap { end in (-1...1).map { end * (16_384 + 22) + $0 } }
                return ends + (0..<(TornPositions.areAll ? 100 : 4)).map { _ in Int.random(in: 0..<bytes) }
            }
        }

        @Test(
            "S16 a kill inside a stanza of several TLS records loses and repeats nothing, whatever becomes of the session",
            arguments: ServerKind.allCases)
        func largeStanza(kind: ServerKind) async throws {
            try await withLine(kind) { line in
                try await line.sendTorn(1, size: 40_000, after: 20_000)
                await line.events.until("resumed")
                // Prosody goes on with the unfinished stanza and answers nothing; two silent streams end the session. From
                // then on no time passes, nor for ejabberd at all, as a server may be slow.
                try await eventually("the session after it") {
                    if kind == .ejabberd { return true }
                    if try line.home.sessions[1] == 2 { return true }
                    line.clock.advance(by: .seconds(1))
                    return false
                }
                try await eventually("the message is taken") { try line.home.store.outboxCount == 0 }
                try await line.expectConserved(bound: kind == .prosody ? 2 : 1)
                #expect(try line.home.sessions[0] == (kind == .prosody ? 2 : 1))
            }
        }
    }
}
