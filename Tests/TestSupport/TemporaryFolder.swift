#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A fresh folder that goes with its last reference.
package final class TemporaryFolder: Sendable {
    package let path: String

    package init() throws {
        path = "\(RealDisk.temporaryFolder)/durable-handlers-\(UUID())"
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    }

    deinit { remove() }

    /// Removes it now, also while it is in use.
    package func remove() { try? FileManager.default.removeItem(atPath: path) }
}

extension TemporaryFolder {
    package func text(of name: String) throws -> String {
        try String(contentsOfFile: "\(path)/\(name)", encoding: .utf8)
    }

    package func write(_ text: String, to name: String) throws {
        try Data(text.utf8).write(to: URL(filePath: "\(path)/\(name)"))
    }
}
