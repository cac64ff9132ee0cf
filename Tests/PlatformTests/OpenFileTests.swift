import TestSupport
import TestThreads
import Testing

@testable import Platform

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

@Suite(.ownThread) struct OpenFileTests {
    private let folder: TemporaryFolder
    private var path: String { folder.path + "/file" }

    init() throws { folder = try TemporaryFolder() }

    private func read(_ file: OpenFile, at offset: Int) throws -> String {
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = try bytes.withUnsafeMutableBytes { try file.read(into: $0, at: offset) }
        return String(decoding: bytes[..<count], as: UTF8.self)
    }

    private func write(_ text: String, to file: OpenFile, at offset: Int) throws {
        try Array(text.utf8).withUnsafeBytes { try file.write($0, at: offset) }
    }

    @Test("H14 what is written to a place in a file is read from there, up to the file's end")
    func places() throws {
        let file = try OpenFile(updating: path)
        try write("0123456789", to: file, at: 0)
        try write("abc", to: file, at: 4)
        #expect(try read(file, at: 2) == "23abc789")
        #expect(try read(file, at: 10) == "")
        let status = try file.status()
        #expect(status.size == 10 && status.kind == .regular && status.names == 1)
        #expect(status.permissions == 0o600 && !status.isOpenToOthers && status.owner == ThisProcess.user)
        #expect(try FileStatus(path) == status)
    }

    @Test("H14 a locked byte is locked for every other open file, and free when its file is closed")
    func byteLocks() throws {
        let other = try OpenFile(updating: path)
        do {
            let file = try OpenFile(updating: path)
            #expect(try file.tryLock(byte: 7))
            #expect(try file.tryLock(byte: 7))
            #expect(try !other.tryLock(byte: 7))
            #expect(other.isLockedElsewhere(byte: 7) && other.isLockedElsewhere(byte: 0, length: 0))
            #expect(!file.isLockedElsewhere(byte: 7) && !other.isLockedElsewhere(byte: 0, length: 7))
            #expect(try other.tryLock(byte: 8))
            file.unlock(byte: 7)
            #expect(!other.isLockedElsewhere(byte: 7))
            #expect(try file.tryLock(byte: 7))
        }
        #expect(try other.tryLock(byte: 7))
    }

    @Test("X22 opening follows no link where none is wanted, waits for no pipe, and says why it refuses")
    func refusals() throws {
        #expect(throws: Errno.noSuchFile) { try OpenFile(reading: path) }
        #expect(throws: Errno.noSuchFile) { try FileStatus(path) }
        #expect(FileSystem.isMissing(path))
        try FileSystem.create(path)
        #expect(throws: Errno.alreadyExists) { try FileSystem.create(path) }
        #expect(throws: Errno.alreadyExists) { try OpenFile(creating: path) }
        #expect(throws: Errno.notAFolder) { try OpenFile(reading: path + "/inside") }
        #expect(throws: Errno.isFolder) { try OpenFile(updating: folder.path) }
        let link = folder.path + "/link"
        try #require(symlink(path, link) == 0)
        #expect(throws: Errno.tooManyLinks) { try OpenFile(updating: link) }
        #expect(throws: Errno.tooManyLinks) { try OpenFile(reading: link, followsLinks: false) }
        #expect(try OpenFile(reading: link).status() == FileStatus(path))
        #expect(try FileStatus(link, followsLinks: false).kind == .other)
        #expect(FileSystem.resolved(link) == FileSystem.resolved(path))
        let pipe = folder.path + "/pipe"
        #expect(throws: Errno.noSuchFile) { try OpenFile(pipe: pipe) }
        try FileSystem.createPipe(pipe)
        #expect(throws: Errno.alreadyExists) { try FileSystem.createPipe(pipe) }
        #expect(try OpenFile(reading: pipe).status().kind == .pipe)
        #expect(try OpenFile(pipe: pipe).status().permissions == 0o600)
        let pipeLink = folder.path + "/pipe-link"
        try #require(symlink(pipe, pipeLink) == 0)
        #expect(throws: Errno.tooManyLinks) { try OpenFile(pipe: pipeLink) }
    }

    @Test("H14 no program that is started inherits a file")
    func closesOnExec() throws {
        let files = [
            try OpenFile(updating: path), try OpenFile(reading: path), try OpenFile(creating: path + ".new"),
            try OpenFile(folder: folder.path),
        ]
        for file in files { #expect(fcntl(file.descriptor, F_GETFD) & FD_CLOEXEC != 0) }
    }
}
