import Glibc

/// One standard stream of a child that is being started: the child's end, and the end that stays in this process.
struct ChildStream: ~Copyable {
    let child: FileDescriptor
    private var parent: FileDescriptor?

    /// Returns the end that stays, and closes the child's end.
    consuming func removeParent() -> FileDescriptor? { parent.take() }

    static func input(_ input: ChildProcess.Input) throws(ChildProcessError) -> ChildStream {
        switch input {
        case .null: return ChildStream(child: try .file("/dev/null", flags: O_RDONLY), parent: nil)
        case .file(let path): return ChildStream(child: try .file(path, flags: O_RDONLY), parent: nil)
        case .pipe:
            let pair = try FileDescriptor.socketPair()
            return ChildStream(child: pair.reading, parent: pair.writing)
        }
    }

    static func output(_ output: ChildProcess.Output, inherited: Int32) throws(ChildProcessError)
        -> ChildStream
    {
        switch output {
        case .null: return ChildStream(child: try .file("/dev/null", flags: O_WRONLY), parent: nil)
        case .file(let path):
            return ChildStream(child: try .file(path, flags: O_WRONLY | O_CREAT | O_APPEND), parent: nil)
        case .inherited: return ChildStream(child: try .copy(of: inherited), parent: nil)
        case .pipe:
            let ends = try FileDescriptor.pipe()
            return ChildStream(child: ends.writing, parent: ends.reading)
        }
    }
}
