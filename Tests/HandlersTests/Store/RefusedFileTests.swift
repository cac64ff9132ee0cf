import Foundation
import Glibc
import Handlers
import TestSupport
import TestThreads
import Testing

@Suite(.serialized, .ownThread) struct RefusedFileTests {
    /// Demands that opening fails with `code`, that the sentence names the file and each of `words`, and that the
    /// file has not changed.
    private func expectRefused(
        _ path: String, _ code: ErrorCode<HandlerError>, _ words: [String] = [],
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let before = (bytes(of: path), mode(of: path))
        let error = error { _ = try openStore(path, busyTimeout: .milliseconds(50)) }
        #expect(error?.code == code, "\(error?.message ?? "it opened")", sourceLocation: sourceLocation)
        for word in [path] + words {
            #expect(
                error?.message.contains(word) == true, "\(error?.message ?? "")",
                sourceLocation: sourceLocation)
        }
        #expect(bytes(of: path) == before.0, "the file was changed", sourceLocation: sourceLocation)
        #expect(mode(of: path) == before.1, "the mode was changed", sourceLocation: sourceLocation)
    }

    @Test("S7 a missing folder is named, and no file is made")
    func missingFolder() throws {
        try withFolder { folder in
            expectRefused(
                folder.file("gone/store.db"), .databaseUnavailable, ["check that its folder exists"])
            #expect(mode(of: folder.file("gone")) == nil)
        }
    }

    @Test("S7 a folder in the place of the file is refused")
    func directory() throws {
        try withFolder { folder in
            mkdir(folder.file(), 0o755)
            expectRefused(folder.file(), .databaseUnavailable, ["directory"])
        }
    }

    @Test("S7 a link that leads nowhere is refused and not followed")
    func danglingLink() throws {
        try withFolder { folder in
            symlink(folder.file("nowhere"), folder.file())
            expectRefused(folder.file(), .databaseUnavailable)
            #expect(mode(of: folder.file("nowhere")) == nil)
        }
    }

    @Test("S7 a read-only file is refused with a sentence about permissions; nothing is lost")
    func readOnlyFile() throws {
        try withFolder { folder in
            try openStore(folder.file()).bind(Greet(name: "Juliet").durable)
            chown(folder.path, 65534, 65534)
            for suffix in ["", "-wal", "-shm", "-processes", "-signal"] {
                chown(folder.file() + suffix, 65534, 65534)
            }
            chmod(folder.file(), 0o400)
            asOrdinaryUser { expectRefused(folder.file(), .databaseReadOnly, ["check its permissions"]) }
            chmod(folder.file(), 0o600)
            let waiting = try asOrdinaryUser { try openStore(folder.file()).waiting() }
            #expect(waiting.count == 1)
        }
    }

    @Test(
        "S7 a file of another user is refused with a sentence about permissions",
        .enabled(if: geteuid() == 0, "only root can make a file that belongs to another user"))
    func foreignUser() throws {
        try withFolder { folder in
            _ = try openStore(folder.file())
            asOrdinaryUser { expectRefused(folder.file(), .databaseReadOnly, ["check its permissions"]) }
        }
    }

    @Test(
        "S7 a read-only folder is refused with a sentence about permissions, with a new file and an old one")
    func readOnlyFolder() throws {
        try withFolder { folder in
            chown(folder.path, 65534, 65534)
            try asOrdinaryUser { _ = try openStore(folder.file()) }
            chmod(folder.path, 0o555)
            asOrdinaryUser {
                let words = ["check its permissions and those of its folder"]
                expectRefused(folder.file("new.db"), .databaseReadOnly, words)
                expectRefused(folder.file(), .databaseReadOnly, words)
            }
            #expect(mode(of: folder.file("new.db")) == nil)
        }
    }

    @Test("S7 a file that is no database is refused as damaged")
    func garbage() throws {
        try withFolder { folder in
            _ = FileManager.default.createFile(
                atPath: folder.file(), contents: Data(repeating: 0x41, count: 8192),
                attributes: [.posixPermissions: 0o644])
            expectRefused(folder.file(), .databaseCorrupt, ["damaged", "restore it from a copy"])
        }
    }

    @Test("S7 a damaged database is refused at once or when the damage is met, never with a crash")
    func damaged() throws {
        try withFolder { folder in
            do {
                let store = try openStore(folder.file())
                try store.step { step in
                    for index in 0..<500 { try step.bind(Greet(name: "\(index)").durable) }
                }
            }
            var content = bytes(of: folder.file())
            let pages = content.count / 4096
            for page in 1..<pages {
                content.replaceSubrange(page * 4096..<page * 4096 + 64, with: repeatElement(0xff, count: 64))
            }
            _ = FileManager.default.createFile(atPath: folder.file(), contents: Data(content))
            let error = error {
                let store = try openStore(folder.file())
                _ = try store.waiting()
            }
            #expect(error?.code == .databaseCorrupt)
            #expect(error?.message.contains("restore it from a copy") == true)
        }
    }

    @Test("S7 the database of another program is refused: by its tables, by its application id")
    func foreign() throws {
        try withFolder { folder in
            for (name, sql) in [
                ("tables.db", "CREATE TABLE theirs(x)"), ("id.db", "PRAGMA application_id = 1234"),
            ] {
                try RawConnection(folder.file(name)).run(sql)
                chmod(folder.file(name), 0o644)
                expectRefused(folder.file(name), .databaseForeign, ["another program", "a file of its own"])
                #expect(mode(of: folder.file(name)) == 0o644)
            }
        }
    }

    @Test("S7 a newer database is refused with nothing changed, and says what to do")
    func newer() throws {
        try withFolder { folder in
            for module in ["handlers", "notes"] {
                let path = folder.file("\(module).db")
                try openStore(path).step {
                    _ = try $0.execute("UPDATE module_schema SET version = 99 WHERE module = ?", module)
                }
                expectRefused(
                    path, .databaseNewer,
                    ["'\(module)'", "version 99", "update the program", "nothing was changed"])
            }
        }
    }

    @Test("S7 a refused file is not held open")
    func nothingLeaks() throws {
        try withFolder { folder in
            _ = FileManager.default.createFile(
                atPath: folder.file(), contents: Data(repeating: 0x41, count: 8192))
            for _ in 0..<3 { #expect(code { _ = try openStore(folder.file()) } == .databaseCorrupt) }
            #expect(folder.openFiles == [])
        }
    }
}
