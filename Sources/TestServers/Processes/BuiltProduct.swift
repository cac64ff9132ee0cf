import FoundationEssentials

/// Finds commands that this package builds, from within its tests and commands.
package enum BuiltProduct {
    /// Returns the path of a command in the folder of the running program: one from the same build, never one on `PATH`.
    /// - Throws: ``ChildProcessError`` `programNotFound` when the command was not built.
    package static func path(_ name: String) throws(ChildProcessError) -> String {
        // The running program is the test bundle or a command. Both are in the build's product folder.
        let program = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        let path = program.prefix(through: program.lastIndex(of: "/") ?? program.startIndex) + name
        guard FileManager.default.isExecutableFile(atPath: String(path)) else {
            throw ChildProcessError(
                .programNotFound, "\(path) was not built: run 'swift build --product \(name)'.")
        }
        return String(path)
    }
}
