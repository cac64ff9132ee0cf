import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPTransport
import XMPPCore
import XMPPTestKit

/// Races, leaks, storms and a store that fails.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(4))) struct AccountAttackTests {
    @Test("S2 connect() called many times at once opens one stream")
    func manyConnects() async throws {
        try await withRig { rig in
            let account = try rig.account()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<20 { group.addTask { try await account.connect() } }
                try await group.waitForAll()
            }
            #expect(rig.server.log.entries.count { $0.event == .connected } == 1)
        }
    }

    @Test("S2 connect() that fails while a broken stream is opened again does not end the trying")
    func connectWhileReconnecting() async throws {
        let clock = VirtualClock()
        try await withRig(clock: clock) { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            rig.server.refuseConnections()
            rig.server.dropConnections()
            await events.until("suspended")
            #expect(await errorOf { try await account.connect() } is TransportError)
            rig.server.refuseConnections(false)
            try await rig.turnUntil { rig.server.log.entries.contains { $0.event == .resumed } }
            await events.until("resumed")
            // After suspend() the next attempt is a first one again.
            try await account.suspend()
            rig.server.refuseConnections()
            #expect(await errorOf { try await account.connect() } != nil)
            #expect(try account.store.number("SELECT owner IS NULL FROM ownership") == 1)
        }
    }

    @Test("S2 suspend() during opening ends connect() with an error, and connecting again works")
    func suspendWhileOpening() async throws {
        let listener = try Listener()
        try await withRig { rig in
            let account = try rig.account {
                $0.server = .init(host: "127.0.0.1", port: listener.port, security: .startTLS)
            }
            for _ in 0..<5 {
                async let error = errorOf { try await account.connect() }
                let socket = try await onThread { Foundation.accept(listener.fileDescriptor, nil, nil) }
                try await account.suspend()
                #expect((await error as? AccountError)?.code == .closed)
                Foundation.close(socket)
            }
        }
    }

    @Test("S2 close() during opening ends connect() with an error; every later call fails and none hangs")
    func closeWhileOpening() async throws {
        let listener = try Listener()
        try await withRig { rig in
            let account = try rig.account {
                $0.server = .init(host: "127.0.0.1", port: listener.port, security: .startTLS)
            }
            async let error = errorOf { try await account.connect() }
            let socket = try await onThread { Foundation.accept(listener.fileDescriptor, nil, nil) }
            await account.close()
            #expect((await error as? AccountError)?.code == .closed)
            #expect((await errorOf { try await account.connect() } as? AccountError)?.code == .closed)
            #expect((await errorOf { try await account.suspend() } as? AccountError)?.code == .closed)
            #expect((await errorOf { try await account.logOut() } as? AccountError)?.code == .closed)
            #expect((await errorOf { try await account.caughtUp() } as? AccountError)?.code == .closed)
            #expect((await errorOf { try await account.tell("m") } as? AccountError)?.code == .closed)
            await account.close()
            for await _ in account.events { Issue.record("a closed account has no events") }
            Foundation.close(socket)
        }
    }

    @Test("S2 connect, suspend, send and close from everywhere at once: nothing hangs, nothing is repeated")
    func everythingAtOnce() async throws {
        try await withRig { rig in
            for round in 0..<15 {
                let account = try rig.account()
                await withTaskGroup(of: Void.self) { group in
                    for number in 0..<4 {
                        group.addTask { try? await account.connect() }
                        group.addTask { _ = try? await account.tell("m\(round)-\(number)") }
                        group.addTask { try? await account.suspend() }
                        group.addTask { try? await account.caughtUp() }
                        if round % 3 == 0, number == 3 { group.addTask { await account.close() } }
                    }
                }
                await account.close()
            }
            let last = try await rig.connected()
            try await last.caughtUp()
            try await eventually { try last.store.outboxCount == 0 }
            #expect(rig.server.log.entries.repeatedStanzas.isEmpty)
            let stored = Set(try last.store.notes("acknowledged"))
            let sent = rig.sent().filter { $0.hasPrefix("message") }
            #expect(stored.count == Set(sent).count)
        }
    }

    @Test("S2 fifty accounts, connected and closed, leave no thread and no descriptor behind")
    func leaks() async {
        // In a process of its own, because other tests open and start things.
        await #expect(processExitsWith: .success) {
            try await withRig { rig in
                func cycle() async throws {
                    let store = try rig.store()
                    let account = try Account(rig.configuration(), store: store)
                    try await account.connect()
                    await account.close()
                }
                func count(_ folder: String) throws -> Int {
                    try FileManager.default.contentsOfDirectory(atPath: folder).count
                }
                for _ in 0..<3 { try await cycle() }
                try await eventually("the server's ends are closed") {
                    let log = rig.server.log.entries
                    return log.count { $0.event == .connected } == 3
                        && log.count { $0.event == .disconnected } == 3
                }
                let descriptors = try count("/proc/self/fd")
                let threads = try count("/proc/self/task")
                for _ in 0..<50 { try await cycle() }
                // Those of tasks come and go, a few for each processor; what each account left behind would be ten times as many.
                let spare = 2 * ProcessInfo.processInfo.activeProcessorCount
                try await eventually("descriptors") { try count("/proc/self/fd") <= descriptors + spare }
                try await eventually("threads") { try count("/proc/self/task") <= threads + spare }
            }
        }
    }

    @Test("S11 an idle account does nothing: connected, suspended, waiting to reconnect, handed over")
    func idle() async throws {
        try await withRig(clock: VirtualClock()) { rig in
            let worker = try await rig.connected { $0.role = .worker }
            try await worker.listen()
            rig.bot.send(rig.messageToAlice("m", "hello"))
            try await worker.caughtUp()
            try await expectQuiet("connected")
            // A server that closes in the midst of an element.
            let events = EventReader(worker)
            rig.server.send(raw: "<message from='peer@loc", to: .everyone)
            rig.server.dropConnections(.finish)
            await events.until("suspended")
            try await expectQuiet("waiting to reconnect")
            try await worker.connect()
            let main = try await rig.connected()
            await events.until("handedOver")
            try await expectQuiet("handed over")
            // A request that is due while the store cannot be written.
            try await main.suspend()
            try await expectQuiet("suspended")
        }
    }

    /// Expects that this process's threads of accounts come to rest.
    ///
    /// Other accounts run in this process too, and other processes beside it: a thread is awake while it runs or waits for a
    /// processor, and only one that is awake in every sample never sleeps.
    private func expectQuiet(_ state: String, sourceLocation: SourceLocation = #_sourceLocation) async throws
    {
        var restless: Set<String>?
        try await eventually(
            "\(state): \(restless ?? []) rest", within: .seconds(30), sourceLocation: sourceLocation
        ) {
            let (begin, before) = (ContinuousClock.now, try awakeTimes())
            try await Task.sleep(for: .milliseconds(60))
            let (after, half) = (try awakeTimes(), (ContinuousClock.now - begin) / 2)
            let awake = Set(
                after.filter { thread, time in
                    before[thread].map { time.isReady || time.awake - $0.awake >= half } ?? false
                }.keys)
            restless = restless?.intersection(awake) ?? awake
            return restless?.isEmpty == true
        }
    }

    /// How long each thread of an account ran or was ready to run, as the kernel counts it in nanoseconds, and whether it is
    /// ready now: that wait is not counted yet.
    private func awakeTimes() throws -> [String: (awake: Duration, isReady: Bool)] {
        let folder = "/proc/self/task"
        // Without these figures nothing would be shown.
        try #require(FileManager.default.fileExists(atPath: "\(folder)/\(getpid())/schedstat"))
        var times: [String: (awake: Duration, isReady: Bool)] = [:]
        for thread in try FileManager.default.contentsOfDirectory(atPath: folder) {
            // One that ends meanwhile sleeps as well.
            guard let line = try? String(contentsOfFile: "\(folder)/\(thread)/stat", encoding: .utf8),
                let counts = try? String(contentsOfFile: "\(folder)/\(thread)/schedstat", encoding: .utf8),
                line.contains("(account"), let end = line.lastIndex(of: ")")
            else { continue }
            let awake = counts.split(separator: " ").prefix(2).compactMap { Int64($0) }.reduce(0, +)
            times[thread] = (.nanoseconds(awake), line[end...].dropFirst(2).first == "R")
        }
        return times
    }

    /// Does something while a step of another process has the store.
    private func whileBlocked(_ store: HandlerStore, _ body: () async throws -> Void) async throws {
        let (isHeld, mayEnd) = (DispatchGate(), DispatchGate())
        async let writer: Void = onThread {
            try store.step { _ in
                isHeld.open()
                mayEnd.wait()
            }
        }
        do {
            // Within: the step must end whatever happens here.
            defer { mayEnd.open() }
            try await onThread { isHeld.wait() }
            try await body()
        }
        try await writer
    }

    @Test("S5 a store that another process blocks for longer than the wait loses nothing")
    func busyStore() async throws {
        try await withRig { rig in
            let account = try await rig.connected(store: try rig.store(busyTimeout: .milliseconds(30)))
            let events = EventReader(account)
            try await account.listen()
            try await account.tell("s1")
            try await account.caughtUp()
            try await whileBlocked(rig.store()) {
                for number in 0..<20 { rig.bot.send(rig.messageToAlice("m\(number)", "hello")) }
                let refused = await errorOf { try await account.tell("s2") } as? HandlerError
                #expect(refused?.code == .databaseLocked)
                await events.until("suspended")
            }
            await events.until("resumed")
            try await account.tell("s3")
            try await account.caughtUp()
            #expect(try account.store.notes("message") == (0..<20).map { "m\($0): hello" })
            #expect(rig.sent().filter { $0.hasPrefix("message") } == ["message s1", "message s3"])
            #expect(try account.store.number("SELECT received FROM session") == 20)
        }
    }

    @Test("Q3 a request that is due while the store is blocked times out once it is free, without a storm")
    func busyTimeout() async throws {
        let clock = VirtualClock()
        try await withRig(clock: clock) { rig in
            let account = try await rig.connected(store: try rig.store(busyTimeout: .zero))
            try await account.ask(rig.question("q1", want: "silence"), timeout: .milliseconds(100))
            try await account.caughtUp()
            try await whileBlocked(rig.store()) {
                clock.advance(by: .milliseconds(100))
                try await expectQuiet("store blocked, request due")
            }
            try await rig.turnUntil { try account.store.notes("ended").count == 1 }
        }
    }

    @Test("S5 a full disk: what could not be stored is not acknowledged, and comes again once there is room")
    func fullDisk() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await account.listen()
            rig.bot.send(rig.messageToAlice("m1", "hello"))
            try await account.caughtUp()
            let pages = try account.store.number("PRAGMA page_count")
            #expect(try account.store.number("PRAGMA max_page_count = \(pages + 10)") == pages + 10)
            rig.bot.send(rig.messageToAlice("m2", "fill"))
            await events.until("suspended")
            #expect(try account.store.notes("message") == ["m1: hello"])
            #expect(try account.store.number("SELECT received FROM session") == 1)
            _ = try account.store.number("PRAGMA max_page_count = 1000000")
            try await account.connect()
            try await account.caughtUp()
            #expect(try account.store.notes("message") == ["m1: hello", "m2: fill"])
            #expect(try account.store.unfinished == 0)
        }
    }

    @Test("S2 a server that accepts and breaks off again and again is asked ever more slowly")
    func flapping() async throws {
        let clock = VirtualClock()
        try await withRig(clock: clock) { rig in
            _ = try await rig.connected()
            rig.server.setScript { element, _ in element.name == "presence" ? .closeConnection : .pass }
            rig.server.update { $0.offersResumption = false }
            rig.server.expireSessions()
            var waits: [Duration] = []
            for attempt in 2...8 {
                let before = clock.monotonic
                try await eventually {
                    if rig.server.log.entries.count(where: { $0.event == .bound }) >= attempt { return true }
                    clock.advance(by: .milliseconds(100))
                    return false
                }
                waits.append(clock.monotonic - before)
            }
            #expect((waits.last ?? .zero) > .seconds(4), "\(waits)")
        }
    }

    @Test("S11 malformed XML ends the stream, not the session; an element cut off by the end is not counted")
    func brokenXML() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await account.listen()
            rig.bot.send(rig.messageToAlice("m1", "hello"))
            rig.server.send(raw: "<message></iq>", to: .everyone)
            await events.until("suspended")
            #expect(events.seen == ["suspended protocol-violation"])
            try await account.connect()
            await events.until("resumed")
            try await account.caughtUp()
            #expect(try account.store.notes("message") == ["m1: hello"])
            rig.server.dropConnections(afterSending: 40)
            rig.bot.send(rig.messageToAlice("m2", "hello"))
            await events.until("suspended")
            try await account.connect()
            try await account.caughtUp()
            #expect(try account.store.notes("message") == ["m1: hello", "m2: hello"])
        }
    }

    @Test("S8 connections cut after every so many bytes, either way: nothing lost, nothing repeated")
    func cuts() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await account.listen()
            for round in 0..<12 {
                if round % 2 == 0 {
                    rig.server.dropConnections(afterReceiving: 37 * round + 1)
                } else {
                    rig.server.dropConnections(afterSending: 29 * round + 1)
                }
                for number in 0..<4 {
                    _ = try await account.tell("a\(round)-\(number)")
                    rig.bot.send(rig.messageToAlice("m\(round)-\(number)", "hello"))
                }
                await events.until("suspended")
                try await account.connect()
                await events.until("resumed")
            }
            try await account.caughtUp()
            try await eventually { try account.store.outboxCount == 0 }
            let rounds = (0..<12).flatMap { round in (0..<4).map { "\(round)-\($0)" } }
            #expect(try account.store.notes("message") == rounds.map { "m\($0): hello" })
            #expect(rig.server.log.entries.repeatedStanzas.isEmpty)
            #expect(rig.sent().filter { $0.hasPrefix("message") } == rounds.map { "message a\($0)" })
        }
    }
}
