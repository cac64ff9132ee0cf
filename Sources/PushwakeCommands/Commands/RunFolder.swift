import FoundationEssentials
import Glibc
import TestServers

/// The folder of a simulated run: the one that `--keep` names, or a temporary one.
struct RunFolder {
    let path: String
    private let isTemporary: Bool

    /// Makes the folder.
    ///
    /// - Parameters:
    ///   - kept: The folder to keep; nil for a temporary one.
    ///   - name: The start of a temporary folder's name.
    ///   - seed: The seed of the run.
    /// - Throws: ``CommandFailure`` when the folder cannot be made, or when it holds an earlier run.
    init(_ kept: String?, name: String, seed: UInt64) throws {
        isTemporary = kept == nil
        path = kept ?? FileManager.default.temporaryDirectory.path + "/\(name)-\(getpid())-\(seed)"
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

    /// Removes a temporary folder after a good run, and reports the path of the folder after any other run.
    func finish(isGood: Bool) {
        if !isGood {
            Terminal.complain("the database and all logs of this run are in \(path)")
        } else if isTemporary {
            try? FileManager.default.removeItem(atPath: path)
        }
    }
}

extension Arguments {
    /// The seed of a simulated run: the one that `--seed` names, or a random one.
    func seed() throws(UsageError) -> UInt64 {
        UInt64(try number("--seed", in: 0...Int.max, default: Int.random(in: 0...999_999)))
    }

    /// The server of a simulated run that `--server` names; nil for the embedded one.
    func serverKind() throws(UsageError) -> ServerKind? {
        guard let name = value("--server"), name != "embedded" else { return nil }
        guard let kind = ServerKind(rawValue: name) else {
            throw UsageError("--server must be embedded, prosody or ejabberd, not '\(name)'")
        }
        return kind
    }
}
