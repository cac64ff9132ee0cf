import Glibc
import Handlers
import TestThreads
import TestSupport
import Testing

@Suite(.serialized, .ownThread) struct FullDiskTests {
    /// A store that can take `pages` more pages.
    private func fillable(_ path: String, pages: Int64) throws -> HandlerStore {
        let store = try openStore(path)
        let used = try #require(try store.integer("PRAGMA page_count"))
        _ = try store.integer("PRAGMA max_page_count = \(used + pages)")
        return store
    }

    private func makeRoom(_ store: HandlerStore) throws {
        _ = try store.integer("PRAGMA max_page_count = 100000")
    }

    private let big = String(repeating: "x", count: 100_000)

    @Test("S7 a full disk gives the step up with a sentence; nothing is lost and it works once there is room")
    func full() throws {
        try withFolder { folder in
            let store = try fillable(folder.file(), pages: 4)
            let id = try store.bind(Greet(name: "Juliet").durable)
            let error = error {
                try store.step { step in
                    try step.end(id, .result, with: Reply())
                    try step.execute("INSERT INTO note(text) VALUES (?)", big)
                }
            }
            #expect(error?.code == .storageFailed)
            #expect(error?.message.contains("free space or check the disk") == true)
            #expect(try store.notes() == [])
            #expect(try store.waiting().map(\.id) == [id])
            try makeRoom(store)
            #expect(try store.end(id) == .ended)
        }
    }

    @Test(
        "H13 a full disk inside a handler is not the handler's fault: the step is given up, the handler waits as before"
    )
    func fullInHandler() throws {
        try withFolder { folder in
            let store = try fillable(folder.file(), pages: 4)
            let id = try store.bind(Greet(name: "Juliet").durable)
            let reply = Reply { [big] in try $0.execute("INSERT INTO note(text) VALUES (?)", big) }
            #expect(code { try store.end(id, with: reply) } == .storageFailed)
            #expect(try store.waiting().map(\.state) == [RowState.pending])
            #expect(try store.notes() == [])
            try makeRoom(store)
            #expect(try store.end(id, with: reply) == .ended)
        }
    }

    @Test("H13 a handler that swallows a full disk commits nothing, neither in the transaction nor behind it")
    func swallowed() throws {
        // SQLite gives the whole transaction up by itself here; what the handler writes afterwards would be
        // committed on its own, and once more when the handler is called again.
        try withFolder { folder in
            let store = try fillable(folder.file(), pages: 4)
            let id = try store.bind(Greet(name: "Juliet").durable)
            let later = Sink<ErrorCode<HandlerError>?>()
            let reply = Reply { [big] step in
                _ = try? step.execute("INSERT INTO note(text) VALUES (?)", big)
                later.append(code { try step.execute("INSERT INTO note(text) VALUES ('behind')") })
            }
            #expect(code { try store.end(id, with: reply) } == .storageFailed)
            #expect(later.values == [.storageFailed])
            #expect(try store.notes() == [])
            #expect(try store.waiting().map(\.state) == [RowState.pending])
        }
    }

    @Test("H13 a step that swallows a full disk is given up all the same: half a handler is never committed")
    func swallowedByStep() throws {
        try withFolder { folder in
            let store = try fillable(folder.file(), pages: 4)
            let id = try store.bind(Greet(name: "Juliet").durable)
            // A statement that changes several rows is undone alone; the transaction stays open.
            let several = Reply { [big] in
                try $0.execute("INSERT INTO note(text) SELECT ? UNION ALL SELECT ?", big, big)
            }
            let error = code {
                try store.step { step in
                    try step.execute("INSERT INTO note(text) VALUES ('step')")
                    _ = try? step.end(id, .result, with: several)
                }
            }
            #expect(error == .storageFailed)
            #expect(try store.notes() == [])
            #expect(try store.waiting().map(\.state) == [RowState.pending])
        }
    }

    @Test("S7 a write that fails at the commit undoes the step, and the store works again afterwards")
    func failsAtCommit() async throws {
        try await withFolder { folder in
            // The limit on file sizes holds for a whole process, so this runs in one of its own.
            await #expect(processExitsWith: .success) { [path = folder.file() as String] in
                let store = try openStore(path)
                let id = try store.bind(Greet(name: "Juliet").durable)
                let log = bytes(of: path + "-wal").count
                // Longer than the log, which may be written from its start again.
                let text = String(repeating: "x", count: log + 100_000)
                let reply = Reply { try $0.execute("INSERT INTO note(text) VALUES (?)", text) }
                signal(SIGXFSZ, SIG_IGN)
                limitFiles(to: rlim_t(log + 8192))
                let error = error { try store.end(id, with: reply) }
                try #require(error?.code == .storageFailed)
                try #require(error?.message.contains("free space or check the disk") == true)
                limitFiles(to: rlim_t.max)
                try #require(try store.waiting().map(\.state) == [RowState.pending])
                try #require(try store.end(id, with: reply) == .ended)
                try #require(try store.notes() == ["Hello, Juliet", text])
            }
        }
    }
}

private func limitFiles(to bytes: rlim_t) {
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit)
    limit.rlim_cur = min(bytes, limit.rlim_max)
    setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit)
}
