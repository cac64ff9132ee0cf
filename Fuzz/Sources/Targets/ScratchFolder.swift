import FoundationEssentials
import Glibc
import Synchronization

/// A folder of this process that goes with it.
enum ScratchFolder {
    private static let made = Mutex<[String]>([])

    static func make() throws -> String {
        let path = FileManager.default.temporaryDirectory.appending(component: "dh-fuzz-\(UUID())").path
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        made.withLock { made in
            if made.isEmpty { atexit { ScratchFolder.removeAll() } }
            made.append(path)
        }
        return path
    }

    private static func removeAll() {
        for path in made.withLock({ $0 }) { try? FileManager.default.removeItem(atPath: path) }
    }
}
