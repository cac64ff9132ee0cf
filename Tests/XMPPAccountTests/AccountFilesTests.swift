import AccountTestSupport
import Foundation
import Glibc
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

@testable import XMPPAccount

/// The owner's files beside the database.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct AccountFilesTests {
    static let kinds = [
        "link", "second name", "folder", "pipe", "text", "other file", "cut", "no sum", "greatest epoch",
        "negative",
    ]

    private func put(_ kind: String, at path: String, target: String) throws {
        func write(_ bytes: [UInt8], to path: String) throws {
            try Data(bytes).write(to: URL(filePath: path))
        }
        func bytes(_ words: [Int64]) -> [UInt8] { words.withUnsafeBytes { Array($0) } }
        let diary = Array("a diary".utf8)
        try write(diary, to: target)
        switch kind {
        case "link": #expect(symlink(target, path) == 0)
        case "second name": #expect(link(target, path) == 0)
        case "folder": #expect(mkdir(path, 0o700) == 0)
        case "pipe": #expect(mkfifo(path, 0o600) == 0)
        case "text": try write(diary, to: path)
        case "other file": try write(bytes([Int64](repeating: 1, count: 16)), to: path)
        case "cut": try putRecord([1, 0, 0, 0], at: path)
        case "no sum": try putRecord([1, 0, 0, 0, 0], at: path)
        case "greatest epoch": try putRecord(SentProgress(epoch: .max).stored, at: path)
        default: try putRecord([1, -5, 0, 0, 1 ^ -5], at: path)
        }
    }

    /// Puts a record in the place of the first account into a file that is otherwise in order.
    private func putRecord(_ words: [Int64], at path: String) throws {
        _ = try OwnerFile(database: String(path.dropLast("-owners".count)))
        let file = try FileHandle(forWritingTo: URL(filePath: path))
        try file.seek(toOffset: UInt64(OwnerFile.recordSize))
        try file.write(contentsOf: words.withUnsafeBytes { Data($0) })
        try file.close()
    }

    @Test(
        "X22 a file of owners that no owner wrote is refused by name and left as it is; without it the account connects",
        arguments: kinds)
    func lockFile(kind: String) async throws {
        try await withRig(reconnects: false) { rig in
            let path = rig.databasePath + "-owners"
            let target = rig.databasePath + ".target"
            try put(kind, at: path, target: target)
            let before = try? Data(contentsOf: URL(filePath: path))
            let account = try rig.account()
            let error = await errorOf { try await account.connect() } as? AccountError
            #expect(error?.code == .invalidConfiguration, "\(String(describing: error))")
            #expect(error?.message.contains(path) == true && error?.message.contains("move it away") == true)
            #expect(try Data(contentsOf: URL(filePath: target)) == Data("a diary".utf8))
            if kind != "folder", kind != "pipe" {
                #expect((try? Data(contentsOf: URL(filePath: path))) == before)
            }
            await account.close()
            #expect(rmdir(path) == 0 || unlink(path) == 0)
            let next = try rig.account()
            try await next.connect()
            await next.close()
        }
    }

    @Test(
        "X22 a file of owners that is refused is closed once: no descriptor that another thread opens meanwhile"
    )
    func closedOnce() async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let path = folder.path + "/app.db-owners"
        try put("text", at: path, target: folder.path + "/target")
        // In a process of its own, whose descriptors are those of two threads.
        await #expect(processExitsWith: .success) { [database = (folder.path + "/app.db") as String] in
            let isOver = Kept(false)
            let lost = Kept(0)
            Thread.detachNewThread {
                while !isOver.withLock({ $0 }) {
                    let own = open("/dev/null", O_RDONLY | O_CLOEXEC)
                    sched_yield()
                    if fcntl(own, F_GETFD) < 0 { lost.withLock { $0 += 1 } } else { close(own) }
                }
            }
            for _ in 0..<10_000 {
                #expect(throws: AccountError.self) { _ = try OwnerFile(database: database) }
            }
            isOver.withLock { $0 = true }
            try #require(lost.withLock { $0 } == 0)
        }
    }

    @Test(
        "X22 what stands at the name of the owner's socket is not removed",
        arguments: ["text", "link", "folder"])
    func socketName(kind: String) async throws {
        try await withRig(reconnects: false) { rig in
            let path = rig.databasePath + "-owner-0.sock"
            try put(kind, at: path, target: rig.databasePath + ".target")
            let account = try rig.account()
            let error = await errorOf { try await account.connect() } as? AccountError
            #expect(error?.code == .invalidConfiguration && error?.message.contains(path) == true)
            var status = stat()
            #expect(lstat(path, &status) == 0)
        }
    }

    @Test("X22 a file of owners that others could open is narrowed to its owner, and the log says so")
    func narrowed() async throws {
        try await withRig { rig in
            let path = rig.databasePath + "-owners"
            await (try rig.account()).close()
            #expect(FileManager.default.createFile(atPath: path, contents: nil))
            for file in [path, rig.databasePath] { #expect(chmod(file, 0o666) == 0) }
            let kept = KeptLog()
            let account = try rig.account { $0.log = kept.log }
            try await account.connect()
            var status = stat()
            for file in [path, rig.databasePath] {
                #expect(stat(file, &status) == 0 && status.st_mode & 0o777 == 0o600)
                #expect(kept.lines.contains { $0.contains("others could open") && $0.contains(file + ";") })
            }
        }
    }

    @Test(
        "X22 an account whose number no program gave it ends the attempt with a sentence, and nothing traps",
        arguments: [.max, 1 << 60, 0, -1, .min] as [Int64])
    func storedNumber(number: Int64) async throws {
        try await withRig(reconnects: false) { rig in
            try rig.store().step {
                try $0.execute("INSERT INTO account(id, jid) VALUES (?, 'alice@localhost')", number)
            }
            let account = try rig.account()
            let error = await errorOf { try await account.connect() } as? HandlerError
            #expect(
                error?.code == .databaseCorrupt && error?.message.contains("\(number)") == true,
                "\(String(describing: error))")
        }
    }

    @Test("X22 a record that no owner wrote keeps out its own account only")
    func otherRecord() async throws {
        try await withRig(reconnects: false) { rig in
            let store = try rig.store()
            try store.step { try $0.execute("INSERT INTO account(jid) VALUES ('first@capulet.example')") }
            try putRecord([1, 0, 0, 0, 0], at: rig.databasePath + "-owners")
            let second = try rig.account()
            try await second.connect()
            try await second.tell("m1")
        }
    }

    @Test(
        "X22 an epoch that nobody counted to ends the attempt with a sentence, and nothing traps",
        arguments: [.max, -1, .min] as [Int64])
    func storedEpoch(epoch: Int64) async throws {
        try await withRig(reconnects: false) { rig in
            let account = try rig.account()
            try account.store.change("INSERT OR REPLACE INTO ownership(account, epoch) VALUES (1, \(epoch))")
            let error = await errorOf { try await account.connect() } as? HandlerError
            #expect(
                error?.code == .databaseCorrupt && error?.message.contains("\(epoch)") == true,
                "\(String(describing: error))")
        }
    }
}
