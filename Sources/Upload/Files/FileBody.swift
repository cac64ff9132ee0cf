import XMPPTransport

/// The bytes of a PUT: a file as it is, or encrypted on the way with the tag after it (XEP-0454 section 3).
final class FileBody {
    private let file: LocalFile
    private let cipher: AESGCM?
    /// The number of remaining bytes of the file.
    private var left: Int64
    /// The tag, as far as it is left, once the file is over.
    private var tag: ArraySlice<UInt8> = []

    /// Whether everything was read.
    var isOver: Bool { left == 0 && tag.isEmpty }

    /// Returns the number of bytes that are sent for a file.
    static func size(of file: Int64, encrypted: Bool) -> Int64 {
        encrypted ? file + Int64(AESGCM.tagSize) : file
    }

    /// - Parameters:
    ///   - size: How many bytes the file has: more are not read, and fewer are an error.
    ///   - cipher: What encrypts; nil sends the file as it is.
    init(_ file: LocalFile, size: Int64, cipher: AESGCM?) throws(UploadError) {
        (self.file, self.cipher, left) = (file, cipher, size)
        if size == 0 { try end() }
    }

    /// Fills as much of the buffer as is wanted; 0 bytes are the end.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(UploadError) -> Int {
        guard left > 0 else { return readTag(into: buffer) }
        let space = UnsafeMutableRawBufferPointer(
            rebasing: buffer.prefix(Int(min(left, Int64(buffer.count)))))
        let count = try file.read(into: space)
        left -= Int64(count)
        if let cipher {
            let piece: [UInt8]
            do { piece = try cipher.update(space.prefix(count)) } catch { throw UploadError(error) }
            space.copyBytes(from: piece)
        }
        if left == 0 { try end() }
        return count
    }

    private func end() throws(UploadError) {
        do { tag = try cipher?.finish()[...] ?? [] } catch { throw UploadError(error) }
    }

    private func readTag(into buffer: UnsafeMutableRawBufferPointer) -> Int {
        let piece = tag.prefix(buffer.count)
        buffer.copyBytes(from: piece)
        tag = tag.dropFirst(piece.count)
        return piece.count
    }
}
