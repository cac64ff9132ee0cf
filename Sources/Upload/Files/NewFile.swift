import Platform
import XMPPTransport

/// A file that is written beside its place, and takes its name only when it is whole.
final class NewFile {
    private let path: String
    private let partial: String
    private let file: OpenFile
    private var isNamed = false
    /// The size in bytes.
    private(set) var size: Int64 = 0

    /// - Throws: ``UploadError`` `fileExists`, `fileMissing` where the folder is not there, `fileUnreadable`.
    init(_ path: String) throws(UploadError) {
        guard (try? FileStatus(path, followsLinks: false)) == nil else { throw Self.exists(path) }
        let random = Crypto.randomBytes(8).map { String($0, radix: 16) }.joined()
        self.path = path
        let partial = "\(path).\(random).part"
        self.partial = partial
        file = try LocalFile.withSystemErrors(partial) { () throws(Errno) in try OpenFile(creating: partial) }
    }

    /// Removes an incomplete file.
    deinit {
        if !isNamed { FileSystem.remove(partial) }
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(UploadError) {
        try LocalFile.withSystemErrors(partial) { () throws(Errno) in try file.write(bytes) }
        size += Int64(bytes.count)
    }

    /// Gives the file its name, unless another one has it by now.
    func finish() throws(UploadError) {
        try LocalFile.withSystemErrors(partial) { () throws(Errno) in try file.synchronize() }
        do throws(Errno) {
            try FileSystem.link(partial, as: path)
        } catch .alreadyExists {
            throw Self.exists(path)
        } catch { throw LocalFile.failure(error, path) }
        isNamed = true
        FileSystem.remove(partial)
    }

    private static func exists(_ path: String) -> UploadError {
        UploadError(.fileExists, "\(path) is there already; give another path, or remove it")
    }
}
