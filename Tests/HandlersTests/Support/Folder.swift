import Foundation
import Glibc
import TestSupport
import Testing

/// A fresh folder that belongs to one test.
struct Folder: Sendable {
    let path: String

    /// The path of a file in it.
    func file(_ name: String = "store.db") -> String { path + "/" + name }

    /// The files of this folder that this process still holds open.
    var openFiles: [String] {
        let descriptors = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        return descriptors.compactMap {
            try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/" + $0)
        }.filter { $0.hasPrefix(path + "/") }.sorted()
    }

    fileprivate init() throws {
        var template = Array("\(RealDisk.temporaryFolder)/handlers-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw POSIXError(.init(rawValue: errno) ?? .EIO) }
        path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
        // mkdtemp gives 0700; the read-only tests look at it as another user.
        chmod(path, 0o755)
    }

    fileprivate func remove() {
        chmod(path, 0o755)
        try? FileManager.default.removeItem(atPath: path)
    }
}

/// Lends a fresh folder, and demands afterwards that no file in it is still open.
func withFolder(
    sourceLocation: SourceLocation = #_sourceLocation, _ body: (Folder) throws -> Void
) throws {
    let folder = try Folder()
    defer { folder.remove() }
    try body(folder)
    #expect(folder.openFiles == [], "a connection was left open", sourceLocation: sourceLocation)
}

/// The same for a test that waits for child processes.
func withFolder(
    sourceLocation: SourceLocation = #_sourceLocation, _ body: (Folder) async throws -> Void
) async throws {
    let folder = try Folder()
    defer { folder.remove() }
    try await body(folder)
    // The task of an async handler lets go of its store a moment after the handler has ended.
    try await eventually("a connection was left open: \(folder.openFiles)", sourceLocation: sourceLocation) {
        folder.openFiles.isEmpty
    }
}

func bytes(of path: String) -> [UInt8] {
    FileManager.default.contents(atPath: path).map { [UInt8]($0) } ?? []
}

func mode(of path: String) -> mode_t? {
    var status = stat()
    return stat(path, &status) == 0 ? status.st_mode & 0o7777 : nil
}

/// Runs `body` while this thread reaches files as the user nobody, so that file modes bind for root as well.
///
/// Changes the calling thread only. Does nothing when the tests do not run as root.
func asOrdinaryUser<R>(_ body: () throws -> R) rethrows -> R {
    typealias SetUser = @convention(c) (uid_t) -> Int32
    guard geteuid() == 0, let symbol = dlsym(nil, "setfsuid") else { return try body() }
    // setfsuid(2) is part of glibc, but not of Swift's Glibc module.
    let setUser = unsafeBitCast(symbol, to: SetUser.self)
    _ = setUser(65534)
    defer { _ = setUser(0) }
    return try body()
}
