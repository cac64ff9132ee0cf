import FoundationEssentials
import Glibc

/// A folder for one benchmark.
struct Workspace {
    let path: String

    /// Lends a new folder to `body` and removes it afterwards.
    static func with<R>(in folder: String, _ body: (Workspace) throws -> R) throws -> R {
        let path = "\(folder)/bench-\(getpid())"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: path) }
        return try body(Workspace(path: path))
    }

    func file(_ name: String) -> String { path + "/" + name }
}
