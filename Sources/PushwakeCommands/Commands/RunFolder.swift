import FoundationEssentials

/// The folder of a run: its database, and the logs of its processes.
enum RunFolder {
    /// Makes the folder for this user alone.
    ///
    /// - Throws: ``CommandFailure`` when it cannot be made, or when it holds an earlier run.
    static func make(_ path: String) throws(CommandFailure) {
        do {
            try FileManager.default.createDirectory(
                atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        } catch {
            throw CommandFailure(
                "the folder \(path) cannot be made; let this user write there, or name another one with --keep"
            )
        }
        guard !FileManager.default.fileExists(atPath: path + "/store.db") else {
            throw CommandFailure("the folder \(path) holds an earlier run; name an empty one with --keep")
        }
    }
}
