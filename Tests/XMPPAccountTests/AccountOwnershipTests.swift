import AccountTestSupport
import Glibc
import Handlers
import Platform
import TestSupport
import TestThreads
import Testing
@testable import XMPPAccount
import XMPPCore
import XMPPTestKit
import XMPPTransport

/// Who owns the stream: two accounts on one file stand for two processes.
@Suite(.ownThread, .timeLimit(.minutes(2)), .engines(.sqlite, .postgres)) struct AccountOwnershipTests {
    /// What another process does that passes over a frozen owner.
    private static let passOver = "UPDATE ownership SET epoch = epoch + 1, slot = NULL"

    @Test("W4 the main program asks a worker for the stream and gets it; the session goes on", .sqliteOnly)
    func handOver() async throws {
        try await withRig { rig in
            let worker = try await rig.connected { $0.role = .worker }
            let events = EventReader(worker)
            try await worker.ask(rig.question("q1", want: "silence"))
            try await rig.saw { $0.event == .received && $0.id == "q1" }
            // Not passed over on a busy machine, either.
            let main = try rig.account { $0.ownerSilence = .seconds(60) }
            let others = EventReader(main)
            try await main.connect()
            await events.until("handedOver")
            await others.until("resumed")
            let own = rig.server.boundAddresses[0]
            rig.server.send(
                IQ(type: .result, to: own, id: "q1", payload: nil).element, from: AccountRig.peer)
            try await main.caughtUp()
            #expect(try main.store.notes("ended") == ["q1: result - from peer@localhost/bot"])
            #expect(!rig.server.log.entries.contains { $0.event == .closedCleanly })
            #expect(try main.store.number("SELECT epoch FROM ownership") == 2)
            // The worker may come back once the main program has let go.
            await main.close()
            try await worker.connect()
            try await worker.caughtUp()
        }
    }

    @Test(
        "W4 S8 an epoch that a database put back from a backup has forgotten is not given out again",
        .sqliteOnly)
    func forgottenEpochs() async throws {
        try await withRig { rig in
            let account = try rig.account()
            let table = OwnershipTable(account: account.id)
            func take() throws -> Ownership {
                try EventLoop.run { loop in
                    try await Ownership.acquire(
                        table, store: account.store, places: account.ownerPlaces, role: .main, owner: "test",
                        silence: .seconds(60),
                        on: loop
                    ) {}
                }
            }
            for _ in 1...3 { try take().release() }
            // As the backup knows it; the lock file stays.
            try account.store.change("UPDATE ownership SET epoch = 1")
            let ownership = try take()
            defer { ownership.abandon() }
            #expect(ownership.step.epoch == 4)
            // A frozen process of any earlier epoch can commit nothing when it thaws.
            for epoch in Int64(1)...3 {
                let error = #expect(throws: AccountError.self) {
                    try OwnerStep(store: account.store, table: table, epoch: epoch).check()
                }
                #expect(error?.code == .ownershipLost)
            }
        }
    }

    /// Where an owner lives, and the lock is asked for longer than an owner may be silent.
    private struct SlowPlaces: OwnerPlaces {
        func open(account: Int64, _ store: HandlerStore) -> any OwnerPlace { Place() }
        func sent(account: Int64, _ store: HandlerStore) -> SentProgress? { nil }
        func isLocked(account: Int64, _ store: HandlerStore) -> Bool { true }

        private final class Place: OwnerPlace {
            let narrowedFile: String? = nil
            let holdsLock = false
            let sent: SentProgress? = nil
            func tryToLock() -> Bool {
                SystemThread.sleep(microseconds: 50_000)
                return false
            }
            func unlock() {}
            func record(_ sent: SentProgress) {}
            func ask(_ question: OwnerQuestion, until deadline: Deadline, on loop: EventLoop) -> OwnerAnswer?
            {
                .keeping
            }
            func listen() {}
            func answer(_ decide: @escaping @Sendable (OwnerQuestion) -> OwnerAnswer) {}
            func stopAnswering() {}
        }
    }

    @Test("G6 W4 an owner that lives is not passed over because the look for its lock took long")
    func slowLock() async throws {
        try await withRig { rig in
            let account = try rig.account()
            let error = #expect(throws: AccountError.self) {
                _ = try EventLoop.run { loop in
                    try await Ownership.acquire(
                        OwnershipTable(account: account.id), store: account.store, places: SlowPlaces(),
                        role: .main, owner: "test", silence: .milliseconds(10), on: loop
                    ) {}
                }
            }
            #expect(error?.code == .ownershipHeld)
        }
    }

    @Test("W4 a worker leaves a live main program alone, and so does a second main program")
    func held() async throws {
        try await withRig { rig in
            let main = try await rig.connected()
            for role in [AccountRole.worker, .main] {
                let other = try rig.account { $0.role = role }
                let error = await errorOf { try await other.connect() } as? AccountError
                #expect(error?.code == .ownershipHeld)
                #expect(error?.message.contains("let it do the work") == true)
            }
            try await main.caughtUp()
            #expect(try main.store.number("SELECT epoch FROM ownership") == 1)
        }
    }

    @Test("W4 S8 what a process that does not own the stream has to send the owner sends at once")
    func sentByOthers() async throws {
        try await withRig { rig in
            let main = try await rig.connected()
            try await main.caughtUp()
            try await eventually { try main.store.outboxCount == 0 }
            let other = try rig.account { $0.role = .worker }
            for number in 1...3 {
                try await other.tell("m\(number)")
                try await rig.saw { $0.event == .received && $0.id == "m\(number)" }
            }
            try await other.ask(rig.question("q1"))
            try await eventually { try main.store.notes("ended").count == 1 }
            try await eventually { try main.store.notes("acknowledged").count == 3 }
            #expect(try main.store.number("SELECT epoch FROM ownership") == 1)
            #expect(rig.server.boundAddresses.count == 1)
        }
    }

    @Test("W4 a suspended main program has let go: a worker takes over at once and resumes")
    func suspended() async throws {
        try await withRig { rig in
            let main = try await rig.connected()
            try await main.suspend()
            let worker = try rig.account { $0.role = .worker }
            let events = EventReader(worker)
            try await worker.connect()
            await events.until("resumed")
            #expect(try main.store.number("SELECT epoch FROM ownership") == 2)
        }
    }

    @Test("W4 a main program that was passed over can do nothing more and is notified once")
    func passedOver() async throws {
        try await withRig { rig in
            let main = try await rig.connected()
            let events = EventReader(main)
            try await main.listen()
            // What a worker does to a frozen owner; the kill tests freeze a real process.
            try rig.store().change(Self.passOver)
            let refused = await errorOf { try await main.tell("m1") } as? AccountError
            #expect(refused?.code == .ownershipLost)
            await events.until("stopped")
            #expect(events.seen == ["stopped ownership-lost"])
        }
    }

    @Test("W4 a stale owner cannot commit, acknowledge or send, and is notified")
    func stale() async throws {
        try await withRig { rig in
            let main = try await rig.connected()
            let events = EventReader(main)
            try await main.listen()
            try await main.caughtUp()
            try await eventually { try main.store.outboxCount == 0 }
            // The owner may look into the store, and leave, before the message comes.
            let before = rig.server.log.count
            try rig.store().change(Self.passOver)
            let mark = rig.server.log.count
            rig.bot.send(rig.messageToAlice("m1", "hello"))
            await events.until("stopped")
            for _ in 0..<2 {
                #expect(
                    (await errorOf { try await main.tell("m2") } as? AccountError)?.code == .ownershipLost)
            }
            #expect((await errorOf { try await main.logOut() } as? AccountError)?.code == .ownershipLost)
            #expect(events.seen == ["stopped ownership-lost"])
            #expect(try main.store.notes("message").isEmpty)
            #expect(try main.store.outboxCount == 0)
            try await rig.saw(from: before) { $0.event == .detached }
            #expect(!rig.server.log.entries(from: mark).contains { $0.event == .received })
            // The present owner goes on with the session and gets the message.
            let next = try rig.account()
            let others = EventReader(next)
            try await next.connect()
            await others.until("resumed")
            try await next.caughtUp()
            #expect(try next.store.notes("message") == ["m1: hello"])
        }
    }

    @Test(
        "W4 a process that was passed over while it logged in does not bind the resource of its successor",
        arguments: [false, true])
    func staleBinding(isInline: Bool) async throws {
        try await withRig(reconnects: false) {
            $0.behavior.offersStreamManagement = false
            if isInline { $0.behavior.extensibleMechanisms = ["SCRAM-SHA-256"] }
        } _: { rig in
            let store = try rig.store()
            let account = try rig.account {
                // Asked before the login is sent.
                $0.chooseSession = { _ in
                    _ = try? store.change(Self.passOver)
                    return .bind
                }
            }
            let refused = await errorOf { try await account.connect() } as? AccountError
            #expect(refused?.code == .ownershipLost)
            #expect(!rig.server.log.entries.contains { $0.event == .bound })
        }
    }

    @Test("W4 a stale owner that logs out does not end the session of the new owner")
    func staleLogOut() async throws {
        try await withRig { rig in
            let main = try await rig.connected()
            try await main.caughtUp()
            try rig.store().change(Self.passOver)
            let error = await errorOf { try await main.logOut() } as? AccountError
            #expect(error?.code == .ownershipLost)
            try await rig.saw { $0.event == .detached }
            #expect(!rig.server.log.entries.contains { $0.event == .closedCleanly })
            #expect(try main.store.number("SELECT resumption_id IS NOT NULL FROM session") == 1)
        }
    }

    @Test("W4 logging out from beside a live owner is refused and takes nothing from it")
    func foreignLogOut() async throws {
        try await withRig { rig in
            let main = try await rig.connected()
            try await main.ask(rig.question("q1", want: "silence"))
            let other = try rig.account()
            let error = await errorOf { try await other.logOut() } as? AccountError
            #expect(error?.code == .ownershipHeld)
            try await main.caughtUp()
            #expect(try main.store.waitingHandlers == 1)
            await main.close()
            try await other.logOut()
            #expect(try main.store.notes("abandoned") == ["q1: logout"])
        }
    }

    @Test("W4 connecting again after the stream was taken asks for it again")
    func connectsAgain() async throws {
        try await withRig { rig in
            let main = try await rig.connected()
            let events = EventReader(main)
            try rig.store().change(Self.passOver)
            #expect(await errorOf { try await main.perform { _ in } } != nil)
            await events.until("stopped")
            try await main.connect()
            await events.until("resumed")
            try await main.tell("m1")
            try await main.caughtUp()
        }
    }

    @Test("W4 the stream goes back and forth between a main program and workers without loss", .sqliteOnly)
    func backAndForth() async throws {
        try await withRig { rig in
            let main = try rig.account()
            try await main.listen()
            for round in 0..<10 {
                try await main.connect()
                try await main.tell("a\(round)")
                rig.bot.send(rig.messageToAlice("m\(round)", "hello"))
                try await main.suspend()
                rig.bot.send(rig.messageToAlice("w\(round)", "hello"))
                let worker = try rig.account { $0.role = .worker }
                try await worker.connect()
                try await worker.tell("b\(round)")
                if round % 2 == 0 { await worker.close() }
            }
            try await main.connect()
            try await main.caughtUp()
            try await eventually { try main.store.outboxCount == 0 }
            #expect(
                try main.store.notes("message")
                    == (0..<10).flatMap { ["m\($0): hello", "w\($0): hello"] })
            let expected = (0..<10).flatMap { ["message a\($0)", "message b\($0)"] }
            #expect(rig.sent().filter { $0.hasPrefix("message") } == expected)
            #expect(rig.server.log.entries.repeatedStanzas.isEmpty)
            #expect(rig.server.log.entries.count { $0.event == .bound } == 1)
        }
    }

    @Test("W4 of the time within which a frozen owner is passed over, a part is left for the taking over")
    func patience() {
        #expect(Ownership.patience(.milliseconds(500)) == .milliseconds(475))
        #expect(Ownership.patience(.milliseconds(100)) == .milliseconds(95))
        #expect(Ownership.patience(.milliseconds(60_000)) == .milliseconds(59_975))
        #expect(Ownership.patience(.milliseconds(1)) == .microseconds(950))
        #expect(Ownership.patience(.seconds(Int64.max)) == .seconds(Int64.max) - .milliseconds(25))
    }

    @Test(
        "W4 the end of the stream and that of the ownership are one commit: neither is there without the other",
        .sqliteOnly
    )
    func oneCommit() async throws {
        try await withRig { rig in
            let main = try await rig.connected()
            try await main.caughtUp()
            let count =
                "SELECT (SELECT count(open_number) FROM session) * 10 + (SELECT count(owner) FROM ownership)"
            #expect(try main.store.number(count) == 11)
            try rig.store().change(
                """
                CREATE TRIGGER keep BEFORE UPDATE OF owner ON ownership WHEN NEW.owner IS NULL
                BEGIN SELECT raise(ABORT, 'kept by the test'); END
                """)
            #expect(await errorOf { try await main.suspend() } is HandlerError)
            #expect(try main.store.number(count) == 11)
            try rig.store().change("DROP TRIGGER keep")
            // As after a death: the lock is free.
            try await main.connect()
            try await main.suspend()
            #expect(try main.store.number(count) == 0)
        }
    }

    @Test("W4 a stale owner that suspends changes nothing and is notified")
    func staleSuspend() async throws {
        try await withRig { rig in
            let main = try await rig.connected()
            let events = EventReader(main)
            try await main.caughtUp()
            try rig.store().change(Self.passOver)
            let row = "SELECT sum(connected_time) * 1000 + count(open_number) FROM session"
            let before = try main.store.number(row)
            try await main.suspend()
            await events.until("stopped")
            #expect(events.seen == ["stopped ownership-lost"])
            #expect(try main.store.number(row) == before)
        }
    }

    @Test("W4 asking a frozen owner whose backlog is full ends after its time", .sqliteOnly)
    func fullBacklog() async throws {
        try await withRig { rig in
            // Something that holds the lock, listens, and never answers.
            let file = try OwnerFile(database: rig.databasePath)
            #expect(file.tryLock(1))
            let listener = try silentSocket(OwnerSocket.path(ofSlot: 5, database: rig.databasePath))
            defer { close(listener) }
            let main = try rig.account { $0.ownerSilence = .milliseconds(100) }
            try main.store.change(
                "INSERT INTO ownership(account, epoch, owner, slot) VALUES (1, 1, 'main', 5)")
            try await main.connect()
            try await main.caughtUp()
        }
    }

    /// A Unix socket whose backlog is full from the start.
    private func silentSocket(_ path: String) throws -> Int32 {
        let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        try #require(path.utf8.count < MemoryLayout.size(ofValue: address.sun_path))
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let size = socklen_t(MemoryLayout<sockaddr_un>.size)
        let isReady = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                guard bind(listener, generic, size) == 0, listen(listener, 0) == 0 else { return false }
                for _ in 0..<4 {
                    let kind = Int32(
                        SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
                    // Kept open on purpose, as a dead asker's place in the queue is.
                    _ = connect(socket(AF_UNIX, kind, 0), generic, size)
                }
                return true
            }
        }
        try #require(isReady)
        return listener
    }
}

/// Opens once; waiters block until then.
final class DispatchGate: Sendable {
    private let isOpen = Kept(false)
    func open() { isOpen.withLock { $0 = true } }
    func wait() { while !isOpen.withLock({ $0 }) { usleep(500) } }
}
