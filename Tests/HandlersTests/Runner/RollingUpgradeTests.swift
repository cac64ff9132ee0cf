import Glibc
import TestSupport
import TestThreads
import Testing

@testable import Handlers

private struct Common: Handler {
    static let id = "upgrade.common"
    func run(_ call: borrowing Call<TimerFired>) throws { try note("common", in: call.step) }
}

/// What only the old program has.
private struct Removed: Handler {
    static let id = "upgrade.removed"
    func run(_ call: borrowing Call<TimerFired>) throws { try note("removed", in: call.step) }
}

/// What only the new program has.
private struct Added: Handler {
    static let id = "upgrade.added"
    func run(_ call: borrowing Call<TimerFired>) throws {
        try call.step.write("INSERT INTO note(text, author) VALUES ('added', 'new')")
    }
}

private struct AddedAsync: AsyncHandler {
    static let id = "upgrade.added-async"
    func run(_ call: AsyncCall<TimerFired>) async throws { try call.end { try note("async", in: $0) } }
}

/// Its name starts with an accent.
private struct Marked: Handler {
    static let id = "\u{301}marked"
    func run(_ call: borrowing Call<TimerFired>) throws {}
}

/// Its arguments differ between the two.
private struct Before: Handler {
    static let id = "upgrade.changed"
    var name: String
    func run(_ call: borrowing Call<TimerFired>) throws { try note("before \(name)", in: call.step) }
}

private struct After: Handler {
    static let id = "upgrade.changed"
    static let version = 2
    var customer: String
    static func upcast(_ arguments: inout Record, from version: Int) {
        arguments.rename("name", to: "customer")
    }
    func run(_ call: borrowing Call<TimerFired>) throws { try note("after \(customer)", in: call.step) }
}

/// Known to both programs; runs a handler that only the new one knows.
private struct Outer: Handler {
    static let id = "upgrade.outer"
    var inner: Durable<TimerFired>
    func run(_ call: borrowing Call<TimerFired>) throws {
        try call.step.run(inner, with: TimerFired(dueAt: call.step.now, environment: nil))
    }
}

private func note(_ text: String, in step: borrowing Step) throws {
    try step.write("INSERT INTO note(text) VALUES (?)", text)
}

/// Two programs of different versions that have one store open.
@Suite(.ownThread, .timeLimit(.minutes(2)), .engines(.sqlite, .postgres)) struct RollingUpgradeTests {
    private static let newTables = Schema(
        module: notes.module.string,
        migrations: notes.migrations + ["ALTER TABLE note ADD COLUMN author TEXT"])

    private func openOld(_ folder: Folder) throws -> HandlerStore {
        try openStore(
            folder.file(), [Common.self, Removed.self, Before.self, Outer.self], time: .system)
    }

    private func openNew(_ folder: Folder) throws -> HandlerStore {
        try openStore(
            folder.file(), [Common.self, Added.self, AddedAsync.self, After.self, Outer.self],
            schemas: [Self.newTables], time: .system)
    }

    private func withRunners(_ stores: HandlerStore..., body: () throws -> Void) throws {
        let runners = try stores.map { try HandlerRunner($0) }
        for runner in runners { try runner.start() }
        defer { for runner in runners { runner.close() } }
        try body()
    }

    private func schedule(_ handler: Durable<TimerFired>, _ count: Int, in store: HandlerStore) throws {
        try store.step { step in
            for _ in 0..<count { _ = try step.schedule(handler, after: .zero) }
        }
    }

    @Test(
        "G8 a new program migrates the tables and runs beside an old one: each calls what it knows, and what the other one parks meanwhile"
    )
    func sideBySide() async throws {
        try await withFolder { (folder) async throws in
            let old = try openOld(folder)
            try withRunners(old) {
                try schedule(Common().durable, 1, in: old)
                let new = try openNew(folder)
                // The old one has no other to take these, so it parks them.
                try schedule(Added().durable, 40, in: new)
                try schedule(AddedAsync().durable, 5, in: new)
                try schedule(After(customer: "Ada").durable, 5, in: new)
                try schedule(Outer(inner: Added().durable).durable, 5, in: new)
                #expect(
                    try becomesTrue(before: .now + .seconds(60)) {
                        try old.step { try $0.handlers(in: .parked) }.count == 55
                    })
                try withRunners(new) {
                    // Both may find these first.
                    try schedule(Removed().durable, 10, in: old)
                    try schedule(Before(name: "Bob").durable, 10, in: old)
                    try schedule(Common().durable, 9, in: new)
                    try schedule(Added().durable, 10, in: new)
                    try old.step { try note("old", in: $0) }
                    let isDone = try becomesTrue(before: .now + .seconds(60)) {
                        try old.waiting().isEmpty
                    }
                    let waiting = try old.waiting()
                    #expect(isDone, "\(waiting)")
                    var counts = Dictionary(try old.notes().map { ($0, 1) }, uniquingKeysWith: +)
                    // Rows of version 1 are called by any process that finds them.
                    let changed =
                        (counts.removeValue(forKey: "before Bob") ?? 0)
                        + (counts.removeValue(forKey: "after Bob") ?? 0)
                    #expect(changed == 10)
                    #expect(
                        counts == [
                            "common": 10, "added": 55, "async": 5, "after Ada": 5, "removed": 10, "old": 1,
                        ])
                }
            }
        }
    }

    @Test(
        "G8 what a program lacked that parked a handler says who lacks nothing any more",
        arguments: [
            (Lack.handler(Name(Common.id)), true), (.handler("other"), false),
            (.version(Name(After.id), 2), true), (.version(Name(After.id), 3), false),
            (.version("other", 1), false), (nil, false), (.handler("a\0b"), false),
            (.zone("Europe/Zurich"), true), (.zone("Europe/Atlantis"), false),
            (.handler(Name(Marked.id)), true),
        ])
    func lacks(lack: Lack?, isGone: Bool) throws {
        let registry = HandlerRegistry([Common.self, After.self, Marked.self])
        try withRig([]) { rig in
            let id = try rig.store.bind(Greet(name: "Ada").durable)
            let columns = try rig.store.step { step in
                try step.transaction.handlers.setLack(lack, of: AnyHandlerID(id))
                return try step.first(
                    "SELECT lacks, lacks_name, lacks_version FROM handler WHERE id = ?", AnyHandlerID(id)
                ) {
                    Lack.Stored(
                        code: $0.optionalInteger(0), name: $0.isNull(1) ? nil : $0.foreignText(1),
                        version: $0.optionalInteger(2))
                }
            }
            #expect(columns?.isGone(in: registry) == isGone)
            #expect(
                Lack.Stored().isGone(in: registry),
                "a program that parked it before there was such a column may not have what this one has")
        }
    }
}
