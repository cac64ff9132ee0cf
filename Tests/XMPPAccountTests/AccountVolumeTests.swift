import AccountTestSupport
import Glibc
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore

/// Opens the store of an account on a machine whose boot has the id `boot`.
private func open(
    _ path: String, _ synchronous: HandlerStore.Synchronous, boot: String
) throws -> HandlerStore {
    try HandlerStore(
        path: path, registry: TestApp.registry, schemas: Account.coreSchemas + [TestApp.schema], role: .main,
        synchronous: synchronous, busyTimeout: .seconds(5), time: .system, log: nil,
        system: SystemServices(boot: { boot }))
}

/// The first machine: it dies with an open stream, and with a message that may not be written yet.
private func runUntilDeath(
    _ path: String, _ synchronous: String, port: UInt16, authority: String
) async throws {
    let store = try open(path, #require(HandlerStore.Synchronous(rawValue: synchronous)), boot: "first")
    var configuration = AccountConfiguration(
        jid: AccountRig.alice, password: "secret",
        server: .init(host: "127.0.0.1", port: port, security: .directTLS))
    configuration.trust = .file(path: authority)
    let account = try Account(configuration, store: store)
    try await account.connect()
    try await account.listen()
    for number in 0..<3 { try await account.tell("m\(number)") }
    try await account.caughtUp()
    try await account.tell("m3")
    kill(getpid(), SIGKILL)
}

/// An account whose database is on a volume that another machine mounts: the same file in another boot, and no lock of the first
/// machine.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct AccountVolumeTests {
    /// Lets a process die, and does to the files beside the database what the way to another machine does.
    private func move(
        _ rig: AccountRig, _ synchronous: HandlerStore.Synchronous, withFilesBeside: Bool
    ) async throws {
        await #expect(processExitsWith: .signal(SIGKILL)) {
            [
                path = rig.databasePath as String, synchronous = synchronous.rawValue as String,
                port = rig.server.directTLSPort as UInt16,
                authority = rig.certificates.authorityFile as String
            ] in
            try await runUntilDeath(path, synchronous, port: port, authority: authority)
        }
        if withFilesBeside {
            // The boot in which the file of slots was written.
            let file = Glibc.open(rig.databasePath + "-processes", O_WRONLY | O_CLOEXEC)
            defer { close(file) }
            var boot: Int64 = 1234
            try #require(pwrite(file, &boot, 8, 16) == 8)
        } else {
            for suffix in ["-shm", "-processes", "-signal", "-owners", "-owner-0.sock"] {
                try #require(unlink(rig.databasePath + suffix) == 0, "\(suffix)")
            }
        }
    }

    @Test(
        "G1 the machine that mounts the volume resumes the session of the one that died: nothing is lost or repeated",
        arguments: [true, false])
    func resumed(withFilesBeside: Bool) async throws {
        try await withRig(reconnects: false) { rig in
            try await move(rig, .full, withFilesBeside: withFilesBeside)
            rig.bot.send(rig.messageToAlice("n1", "hello"))
            let store = try open(rig.databasePath, .full, boot: "second")
            let session = try store.texts("SELECT resumption_id FROM session")
            try #require(session.count == 1)
            let account = try rig.account(store: store)
            let events = EventReader(account)
            try await account.connect()
            await events.until("resumed")
            try await account.caughtUp()
            try await eventually { try store.outboxCount == 0 }
            #expect(try store.texts("SELECT resumption_id FROM session") == session)
            #expect(try store.number("SELECT copies FROM place") == 0)
            #expect(try store.number("SELECT epoch FROM ownership") == 2)
            #expect(rig.server.boundAddresses.count == 1)
            #expect(rig.sent().filter { $0.hasPrefix("message") } == (0...3).map { "message m\($0)" })
            #expect(try store.notes("acknowledged") == (0...3).map { "m\($0): m\($0)" })
            #expect(try store.notes("message") == ["n1: hello"])
        }
    }

    @Test("G1 with NORMAL the volume may lack commits: the machine that mounts it starts another session")
    func unsynced() async throws {
        try await withRig(reconnects: false) { rig in
            try await move(rig, .normal, withFilesBeside: true)
            let store = try open(rig.databasePath, .normal, boot: "second")
            #expect(try store.number("SELECT copies FROM place") == 1)
            let account = try rig.account(store: store)
            let events = EventReader(account)
            try await account.connect()
            await events.until("bound")
            #expect(!rig.server.log.entries.contains { $0.xml?.contains("<resume ") == true })
            try await account.caughtUp()
        }
    }
}
