import Foundation
import Glibc
import Handlers
import TestThreads
import TestSupport
import Testing

/// Whatever somebody puts beside a database is not written to.
@Suite(.serialized, .ownThread) struct PrivateFileTests {
    static let suffixes = ["-processes", "-signal", "-wal", "-shm", "-journal"]
    static let kinds = ["link", "link to nothing", "second name", "folder", "pipe", "other owner"]

    private func put(_ kind: String, at path: String, target: String) throws {
        #expect(FileManager.default.createFile(atPath: target, contents: Data("a diary".utf8)))
        switch kind {
        case "link": #expect(symlink(target, path) == 0)
        case "link to nothing": #expect(symlink(target + ".none", path) == 0)
        case "second name": #expect(link(target, path) == 0)
        case "folder": #expect(mkdir(path, 0o700) == 0)
        case "pipe":
            #expect(mkfifo(path, 0o600) == 0)
            // Where a pipe belongs, one with another name does not.
            if path.hasSuffix("-signal") { #expect(link(path, target + ".second") == 0) }
        default:
            #expect(FileManager.default.createFile(atPath: path, contents: nil))
            // Where this is not root nobody can make it so; a second name stands for it.
            if chown(path, 65534, 65534) != 0 { #expect(link(path, target + ".second") == 0) }
        }
    }

    @Test(
        "X22 what is no file of this user alone beside the database is refused by name, and nothing is written to it",
        arguments: suffixes, kinds)
    func refused(suffix: String, kind: String) throws {
        try withFolder { folder in
            try openStore(folder.file()).bind(Greet(name: "Juliet").durable)
            let (path, target) = (folder.file() + suffix, folder.file("target"))
            unlink(path)
            try put(kind, at: path, target: target)
            let error = error { _ = try openStore(folder.file(), busyTimeout: .milliseconds(50)) }
            #expect(error?.code == .databaseForeign, "\(error?.message ?? "it opened")")
            #expect(error?.message.contains(path) == true && error?.message.contains("move it away") == true)
            #expect(bytes(of: target) == Array("a diary".utf8))
            #expect(mode(of: target + ".none") == nil)
            #expect(rmdir(path) == 0 || unlink(path) == 0)
            #expect(try openStore(folder.file()).waiting().count == 1)
        }
    }

    @Test("X22 a link to the database is followed, and one to its folder: those are the user's own")
    func chosenLinks() throws {
        try withFolder { folder in
            #expect(mkdir(folder.file("real"), 0o700) == 0)
            #expect(symlink(folder.file("real"), folder.file("folder")) == 0)
            let path = folder.file("folder") + "/store.db"
            try openStore(path).bind(Greet(name: "Juliet").durable)
            #expect(symlink(path, folder.file("link.db")) == 0)
            #expect(try openStore(folder.file("link.db")).waiting().count == 1)
            #expect(mode(of: folder.file("real") + "/store.db-processes") == 0o600)
        }
    }

    @Test("X22 a file that others can open is narrowed to its owner, and the store says which it was")
    func narrowed() throws {
        try withFolder { folder in
            #expect(try openStore(folder.file()).narrowedFiles == [])
            for path in [folder.file(), folder.file() + "-processes"] {
                #expect(chmod(path, 0o644) == 0)
                let store = try openStore(folder.file())
                #expect(
                    store.narrowedFiles.map { ($0 as NSString).lastPathComponent } == [
                        (path as NSString).lastPathComponent
                    ])
                #expect(mode(of: path) == 0o600)
            }
            #expect(try openStore(folder.file()).narrowedFiles == [])
        }
    }

    @Test(
        "X22 a slot file with content that this library does not write is refused and left as it is",
        arguments: ["longer", "words behind zeros", "few bytes behind zeros"])
    func foreignContent(kind: String) throws {
        try withFolder { folder in
            _ = try openStore(folder.file())
            let path = folder.file() + "-processes"
            var content = bytes(of: path)
            switch kind {
            case "longer": content += [0]
            case "words behind zeros":
                content = [UInt8](repeating: 0, count: 200) + Array("a diary of mine".utf8)
            default: content = [UInt8](repeating: 0, count: 8) + [1, 2, 3]
            }
            try Data(content).write(to: URL(filePath: path))
            let error = error { _ = try openStore(folder.file()) }
            #expect(error?.code == .databaseForeign || error?.code == .databaseNewer)
            #expect(bytes(of: path) == content)
        }
    }
}
