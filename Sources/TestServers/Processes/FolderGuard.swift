import FoundationEssentials
import Platform

/// Removes a folder when this object is released, or when this process ends, even by SIGKILL.
///
/// A shell waits for the end of its standard input, whose other end only this process has.
final class FolderGuard: Sendable {
    private static let script = """
        trap '' HUP INT TERM
        read -r line
        left=100
        until rm -rf -- "$1" 2>/dev/null; do
            left=$((left - 1)); [ $left -gt 0 ] || exit 1
            sleep 0.1
        done
        """

    private let shell: ChildProcess

    /// - Parameter folder: Its path. Programs that write to it must end with this process, too.
    init(_ folder: String) throws(ChildProcessError) {
        shell = try ChildProcess(
            "/bin/sh", ["-c", Self.script, "sh", folder], folder: "/", input: .pipe, endsWithParent: false)
    }

    deinit {
        shell.closeInput()
        _ = try? shell.waitUntilExit(deadline: .now + .seconds(15))
    }
}
