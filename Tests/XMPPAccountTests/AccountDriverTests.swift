import AccountTestSupport
import Handlers
import Platform
import Synchronization
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// Accounts whose loops are driven from outside.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct AccountDriverTests {
    /// Calls the turns of all loops on one thread, which waits for all of them in one poll(2).
    private final class OneThread: LoopDriver {
        private struct Member {
            let number: Int
            let loop: any DrivenLoop
            var found: [PollEntry] = []
            var pause = Pause.none
        }

        private struct State {
            var waiting: [(number: Int, make: @Sendable () -> any DrivenLoop)] = []
            var lastNumber = 0
            var running: Set<Int> = []
            var names: [String] = []
            var isStopped = false
        }

        private let state = Monitor(State())
        private let signal: WakeSignal
        private let thread = Mutex<(SystemThread, ThreadID)?>(nil)

        init() throws {
            signal = try WakeSignal()
            let thread = try SystemThread("one thread") { [self] in run() }
            self.thread.withLock { $0 = (thread, thread.id) }
        }

        var names: [String] { state.withLock { $0.names } }
        var isAnythingRunning: Bool { state.withLock { !$0.running.isEmpty } }

        func start(
            _ name: String, blocksSignals: Bool, _ make: @escaping @Sendable () -> any DrivenLoop
        ) throws(HandlerError) -> any RunningLoop {
            let number = state.withLock { state in
                state.lastNumber += 1
                state.names.append(name)
                state.running.insert(state.lastNumber)
                state.waiting.append((state.lastNumber, make))
                return state.lastNumber
            }
            signal.raise()
            return Running(driver: self, number: number)
        }

        private struct Running: RunningLoop {
            let driver: OneThread
            let number: Int
            func join() { driver.join(number) }
        }

        private func join(_ number: Int) {
            if thread.withLock({ $0?.1 }) == .current { return }
            _ = state.wait(limit: nil) { $0.running.contains(number) ? nil : true }
        }

        func stop() {
            state.withLock { $0.isStopped = true }
            signal.raise()
            thread.withLock { $0 }?.0.join()
        }

        private func run() {
            var members: [Member] = []
            while true {
                signal.clear()
                let (new, isStopped) = state.withLock { state in
                    defer { state.waiting = [] }
                    return (state.waiting, state.isStopped)
                }
                if isStopped { return }
                members += new.map { Member(number: $0.number, loop: $0.make()) }
                members = members.compactMap(turned)
                pause(&members)
            }
        }

        /// - Returns: Nil after the member's last turn.
        private func turned(_ member: Member) -> Member? {
            var member = member
            guard let pause = member.loop.turn(member.found) else {
                state.withLock { _ = $0.running.remove(member.number) }
                return nil
            }
            member.pause = pause
            return member
        }

        private func pause(_ members: inout [Member]) {
            var all = Pause([PollEntry(signal.fileDescriptor)])
            for member in members {
                all.entries += member.pause.entries
                all.limit(to: member.pause.milliseconds)
            }
            all.wait()
            var rest = all.entries.dropFirst()
            for index in members.indices {
                members[index].found = Array(rest.prefix(members[index].pause.entries.count))
                rest = rest.dropFirst(members[index].found.count)
            }
        }
    }

    @Test("X21 one thread drives the streams, the runners and the owner sockets of several accounts")
    func oneThread() async throws {
        let driver = try OneThread()
        try await withRig { rig in
            let account = try await rig.connected(
                store: rig.store(system: SystemServices(driver: driver)))
            let other = try HandlerStore(
                path: rig.folder.path + "/peer.db", registry: HandlerRegistry(TestApp.handlers),
                schemas: Account.coreSchemas + [TestApp.schema], role: .main, synchronous: .normal,
                busyTimeout: .seconds(5), time: .system, log: nil, system: SystemServices(driver: driver))
            let jid = try JID("peer@localhost")
            let second = try rig.account(store: other) { configuration in
                configuration = AccountConfiguration(
                    jid: jid, password: "hidden", server: configuration.server)
                configuration.trust = .file(path: rig.certificates.authorityFile)
            }
            try await second.listen()
            try await second.connect()
            let names = driver.names
            #expect(names.count { $0 == "account" } == 2)
            // The owner sockets, and the watches of other processes.
            #expect(names.count { $0 == "shared loop" } == 4)
            #expect(names.count { $0 == "handler runner" } == 2)

            // An answer by way of the server, and a message from one account to the other.
            try await account.ask(rig.question("q1"))
            try await account.send(Message(to: jid, id: "m1", body: "hello"))
            try await account.caughtUp()
            try await eventually("the answer was handled") { try account.store.notes("ended").count == 1 }
            try await eventually("the message was handled") { try other.notes("message").count == 1 }
            // The stream breaks and is opened again on the same thread.
            rig.server.dropConnections()
            try await account.caughtUp()
            await second.close()
            try await account.logOut()
            await account.close()
        }
        #expect(!driver.isAnythingRunning)
        driver.stop()
    }
}
