import Foundation
import Glibc
import Handlers
import TestThreads
import TestSupport
import Testing

/// The work of ``KeyNoting`` on a machine that dies of it: writes the idempotency key to the file `name`.
private struct Dying: AsyncHandler {
    static let id = KeyNoting.id
    var name: String
    func run(_ call: AsyncCall<Job>) async throws {
        _ = FileManager.default.createFile(atPath: name, contents: Data(call.idempotencyKey.utf8))
        kill(getpid(), SIGKILL)
    }
}

/// Opens a store on a machine whose boot has the id `boot`; commits are synced, as is the default.
private func open(
    _ path: String, _ handler: any DurableHandler.Type, boot: String
) throws -> HandlerStore {
    try HandlerStore(
        path: path, registry: HandlerRegistry([handler, Greet.self]), schemas: [notes], role: .main,
        synchronous: .full, busyTimeout: .seconds(5), time: .system, log: nil,
        system: SystemServices(boot: { boot })
    )
}

/// The first machine: it dies while it runs an async handler.
private func runUntilDeath(_ path: String) async throws {
    let store = try open(path, Dying.self, boot: "first")
    let id = try store.bind(Dying(name: path + "-key").durable)
    _ = try store.step { try $0.end(id, .result, with: Job()) }
    // The index as the volume may have it: it is never synced.
    try FileManager.default.copyItem(atPath: path + "-shm", toPath: path + "-old-index")
    try store.bind(Greet(name: "Juliet").durable)
    _ = try await HandlerRunner(store).drain(for: .seconds(60))
}

/// A store on a volume that another machine mounts: the same file in another boot, and no lock of the first machine.
@Suite(.serialized, .ownThread, .timeLimit(.minutes(3))) struct ReplicatedVolumeTests {
    /// The files that come along beside the database and its log.
    enum Beside: CaseIterable {
        case all
        case none
        case oldIndex
        case damagedIndex
    }

    /// Does to the files beside the database what the way to another machine does.
    private func move(_ path: String, _ beside: Beside) throws {
        if beside == .none {
            for suffix in ["-shm", "-processes", "-signal"] { try #require(unlink(path + suffix) == 0) }
            return
        }
        // The file of slots names the boot in which it was written.
        try overwrite(path + "-processes", at: 16, with: 1234)
        if beside == .oldIndex { try #require(rename(path + "-old-index", path + "-shm") == 0) }
        if beside == .damagedIndex {
            let index = path + "-shm"
            let noise = Data(bytes(of: index).indices.map { UInt8(truncatingIfNeeded: $0 &* 31 &+ 7) })
            _ = FileManager.default.createFile(atPath: index, contents: noise)
        }
    }

    @Test(
        "G1 a store that another machine opens on the same volume is no copy: all its commits are there, and what the dead machine ran runs again with the same key",
        arguments: Beside.allCases)
    func takenOver(_ beside: Beside) async throws {
        try await withFolder { folder in
            let path = folder.file()
            await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String] in
                try await runUntilDeath(path)
            }
            // Nothing was moved into the database since its tables were made.
            try #require(bytes(of: path + "-wal").count > 0)
            try move(path, beside)

            let store = try open(path, KeyNoting.self, boot: "second")
            #expect(try store.integer("SELECT copies FROM place") == 0)
            let status = try store.step { try $0.status(of: HandlerID<Job>(rawValue: 1)) }
            #expect(status?.state == .pending && status?.deaths == 1)
            #expect(try store.read { try $0.handlers(in: .pending) }.map(\.name) == [KeyNoting.id, Greet.id])
            let runner = try HandlerRunner(store)
            defer { runner.close() }
            let isDrained = try await runner.drain(for: .seconds(60))
            let key = String(decoding: bytes(of: path + "-key"), as: UTF8.self)
            #expect(isDrained && !key.isEmpty)
            #expect(try store.notes() == ["\(path)-key \(key)"])
        }
    }
}
