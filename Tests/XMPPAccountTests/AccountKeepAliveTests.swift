import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import TestServers
import XMPPTestKit

/// A stream that must show that it lives, on a clock that the tests turn.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct AccountKeepAliveTests {
    fileprivate struct Line {
        let rig: AccountRig
        let clock: VirtualClock
        let proxy: LoopbackProxy
        let account: Account
        /// When the stream was given up, as its own thread saw the clock.
        let suspended: Kept<(time: Duration, reason: String)?>

        /// - Parameter change: Made to the default configuration, keep-alive and all.
        init(_ rig: AccountRig, _ clock: VirtualClock, _ change: (inout AccountConfiguration) -> Void)
            async throws
        {
            self.rig = rig
            self.clock = clock
            proxy = try LoopbackProxy(to: rig.server.directTLSPort)
            let port = proxy.port
            let suspended = Kept<(time: Duration, reason: String)?>(nil)
            self.suspended = suspended
            account = try rig.account(store: rig.store(busyTimeout: .seconds(60))) {
                let usual = AccountConfiguration(jid: AccountRig.alice, password: "secret")
                ($0.keepAlive, $0.inactiveKeepAlive) = (usual.keepAlive, usual.inactiveKeepAlive)
                $0.server = .init(host: "127.0.0.1", port: port, security: .directTLS)
                $0.log = AccountLog(level: .info) { entry in
                    guard entry.message.hasPrefix("suspended: ") else { return }
                    let time = clock.timeSource.monotonic()
                    suspended.withLock { $0 = $0 ?? (time, entry.message) }
                }
                change(&$0)
            }
            try await account.connect()
        }

        /// How many elements of that name came from the client, pings by their payload.
        func received(_ name: String) -> Int {
            rig.server.log.entries.count { entry in
                guard entry.event == .received else { return false }
                return entry.name == name || name == "ping" && entry.xml?.contains(Namespaces.ping) == true
            }
        }

        /// Turns the clock second by second, with something of the server's in each, until the stream ends.
        ///
        /// - Returns: After how many seconds.
        func secondsUntilSuspended(limit: Int = 150, each: (Int) async throws -> Void = { _ in }) async throws
            -> Int
        {
            let start = clock.timeSource.monotonic()
            for second in 1...limit {
                clock.advance(by: .seconds(1))
                try await each(second)
                try await Task.sleep(for: .milliseconds(10))
                // By then its thread has seen the last second, however busy the machine is.
                try await account.perform { _ in }
                guard let (time, reason) = suspended.withLock({ $0 }) else { continue }
                #expect(reason.contains("has not answered"))
                return Int((time - start).components.seconds)
            }
            throw NoEnd()
        }

        struct NoEnd: Error {}
    }

    private func withLine(
        _ change: (inout AccountConfiguration) -> Void = { _ in },
        server: (inout ScriptedServer.Configuration) -> Void = { _ in },
        before: (AccountRig) throws -> Void = { _ in }, _ body: (Line) async throws -> Void
    ) async throws {
        let clock = VirtualClock()
        try await withRig(clock: clock, server) { rig in
            try before(rig)
            let line = try await Line(rig, clock, change)
            if rig.server.log.entries.contains(where: { $0.event == .enabled }) {
                try await line.account.caughtUp()
            }
            try await body(line)
            line.proxy.close()
        }
    }

    @Test(
        "X21 a silent stream is asked for a proof once a minute, and neither that nor the answer opens a step",
        .sqliteOnly
    )
    func idle() async throws {
        let others = Kept<HandlerStore?>(nil)
        // Opening it tells the account to look for what others committed: before it connects.
        let open: (AccountRig) throws -> Void = { rig in
            let other = try rig.store()
            others.withLock { $0 = other }
        }
        try await withLine({ $0.acknowledgementTimeout = .seconds(86400) }, before: open) { line in
            let other = try #require(others.withLock { $0 })
            // What the account does once it has caught up is done.
            for _ in 0..<2 { try await line.account.perform { _ in } }
            // Every other step now waits for this one.
            let (isIn, mayLeave) = (Kept(false), Kept(false))
            let holding = Task {
                try await onThread {
                    try other.step { step in
                        try step.execute("INSERT INTO filler(bytes) VALUES (zeroblob(1))")
                        isIn.withLock { $0 = true }
                        let end = ContinuousClock.now + .seconds(60)
                        while !mayLeave.withLock({ $0 }), ContinuousClock.now < end {
                            usleep(1000)
                        }
                    }
                }
            }
            try await eventually { isIn.withLock { $0 } }
            let before = line.received("r")
            var turned = 0
            for round in 1...5 {
                let heard = line.heard
                // Less than the store's patience with one step that is held up. The answer to the last request is read while
                // the clock is turned.
                try await eventually("request \(round)", within: .seconds(20)) {
                    if line.received("r") == before + round { return true }
                    line.clock.advance(by: .seconds(10))
                    turned += 10
                    return false
                }
                try await eventually("answer \(round)", within: .seconds(20)) { line.heard > heard }
            }
            mayLeave.withLock { $0 = true }
            try await holding.value
            #expect(turned >= 5 * 60)
            try await line.account.caughtUp()
            #expect(line.proxy.records.count == 1)
        }
    }

    @Test("X21 by default a line that carries nothing any more is noticed within two minutes")
    func blackHole() async throws {
        try await withLine { line in
            line.proxy.silence()
            let seconds = try await line.secondsUntilSuspended()
            #expect((90...120).contains(seconds))
        }
    }

    @Test(
        "X21 by default one that only loses what is sent from here is noticed within two minutes, however much arrives"
    )
    func deafServer() async throws {
        try await withLine { line in
            try await line.account.listen()
            try await line.account.caughtUp()
            line.proxy.deafen()
            let seconds = try await line.secondsUntilSuspended { second in
                line.rig.bot.send(line.rig.messageToAlice("m\(second)", "news"))
            }
            #expect((85...120).contains(seconds))
            #expect(try line.account.store.notes("message").count > 60, "the listener was busy")
        }
    }

    @Test("X21 a server without stream management is pinged; an error is an answer, silence is none")
    func withoutStreamManagement() async throws {
        try await withLine(server: { $0.behavior.offersStreamManagement = false }) { line in
            let heard = line.heard
            line.clock.advance(by: .milliseconds(59_999))
            try await line.account.perform { _ in }
            #expect(line.received("ping") == 0)
            line.clock.advance(by: .milliseconds(1))
            try await eventually("the ping") { line.received("ping") == 1 }
            try await eventually("the answer") { line.heard > heard }
            line.proxy.deafen()
            let seconds = try await line.secondsUntilSuspended { second in
                line.rig.bot.send(line.rig.messageToAlice("m\(second)", "news"))
            }
            #expect((85...120).contains(seconds))
        }
    }

    @Test("X21 while nobody looks at the client the server is asked every ten minutes")
    func inactive() async throws {
        try await withLine { line in
            line.account.clientState = .inactive
            try await eventually { line.received("inactive") == 1 }
            let before = line.received("r")
            for _ in 0..<9 { line.clock.advance(by: .seconds(60)) }
            try await line.account.perform { _ in }
            #expect(line.received("r") == before)
            line.clock.advance(by: .seconds(60))
            try await eventually { line.received("r") == before + 1 }
            try await line.account.caughtUp()
            let then = line.received("r")
            line.clock.advance(by: .seconds(120))
            try await line.account.perform { _ in }
            #expect(line.received("r") == then)
            // Somebody looks: the last proof is two minutes old.
            line.account.clientState = .active
            try await eventually { line.received("r") == then + 1 }
        }
    }

    @Test("X21 without a keep-alive nothing is asked for")
    func never() async throws {
        try await withLine({ $0.keepAlive = nil }) { line in
            let before = line.received("r")
            for _ in 0..<24 {
                line.clock.advance(by: .seconds(3600))
                try await line.account.perform { _ in }
            }
            #expect(line.received("r") == before)
            try await line.account.caughtUp()
            #expect(line.proxy.records.count == 1)
        }
    }

    @Test(
        "X21 a process that thaws asks before it gives the stream up, also when it was waiting for an answer")
    func frozen() async throws {
        let frozen = Kept<Int64>(0)
        let time = TimeSource(monotonic: {
            TimeSource.systemMonotonic() + .milliseconds(frozen.withLock { $0 })
        })
        try await withRig { rig in
            let proxy = try LoopbackProxy(to: rig.server.directTLSPort)
            let account = try rig.account {
                $0.time = time
                $0.server = .init(host: "127.0.0.1", port: proxy.port, security: .directTLS)
                $0.acknowledgementTimeout = .seconds(20)
            }
            let events = EventReader(account)
            try await account.connect()
            try await account.caughtUp()
            // The answer is late, and the process is frozen for an hour while it waits.
            rig.server.setAcknowledgements(.never)
            try await account.requestAcknowledgement()
            frozen.withLock { $0 = 3_600_000 }
            try await account.perform { _ in }
            rig.server.setAcknowledgements(.prompt)
            try await account.requestAcknowledgement()
            try await account.caughtUp()
            #expect(proxy.records.count == 1 && events.seen.isEmpty)
            proxy.close()
        }
    }
}

extension AccountKeepAliveTests.Line {
    /// How many bytes have reached the client.
    fileprivate var heard: Int { proxy.records.last?.received ?? 0 }
}
