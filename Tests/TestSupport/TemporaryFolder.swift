import FoundationEssentials

/// A fresh folder that goes with its last reference.
package final class TemporaryFolder: Sendable {
    package let path: String

    package init() throws {
        path = FileManager.default.temporaryDirectory.appending(component: "durable-handlers-\(UUID())").path
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    }

    deinit { remove() }

    /// Removes it now, whoever still holds it.
    package func remove() { try? FileManager.default.removeItem(atPath: path) }
}
