import Glibc
import XMPPAccount
import XMPPTransport

/// A file that is written beside its place, and takes its name only when it is whole.
final class NewFile {
    private let path: String
    private let partial: String
    private let descriptor: Int32
    private var isNamed = false
    /// How many bytes it has.
    private(set) var size: Int64 = 0

    /// - Throws: ``UploadError`` `fileExists`, `fileMissing` where the folder is not there, `fileUnreadable`.
    init(_ path: String) throws(UploadError) {
        var status = stat()
        guard lstat(path, &status) != 0 else { throw Self.exists(path) }
        let random = Crypto.randomBytes(8).map { String($0, radix: 16) }.joined()
        self.path = path
        partial = "\(path).\(random).part"
        descriptor = open(partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw LocalFile.failure(errno, partial) }
    }

    /// What is not whole goes.
    deinit {
        close(descriptor)
        if !isNamed { unlink(partial) }
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(UploadError) {
        var rest = bytes
        while !rest.isEmpty {
            let count = Glibc.write(descriptor, rest.baseAddress, rest.count)
            guard count > 0 || errno == EINTR else { throw LocalFile.failure(errno, partial) }
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(max(0, count)))
        }
        size += Int64(bytes.count)
    }

    /// Gives the file its name, unless another one has it by now.
    func finish() throws(UploadError) {
        guard fsync(descriptor) == 0 else { throw LocalFile.failure(errno, partial) }
        // Unlike rename, link replaces nothing.
        guard link(partial, path) == 0 else {
            throw errno == EEXIST ? Self.exists(path) : LocalFile.failure(errno, path)
        }
        isNamed = true
        unlink(partial)
    }

    private static func exists(_ path: String) -> UploadError {
        UploadError(.fileExists, "\(path) is there already; give another path, or remove it")
    }
}
