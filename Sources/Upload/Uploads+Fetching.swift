import XMPPAccount
public import XMPPCore

// What others have uploaded.
extension Uploads {
    /// Fetches the file of a link, and decrypts it if the link has a key.
    ///
    /// ```swift
    /// let size = try await account.uploads.fetch(message.body ?? "", to: "/home/juliet/picture.jpg")
    /// ```
    ///
    /// The file takes its name once all of it has come and, if it was encrypted, once its tag has been verified; until then it
    /// has another name beside it, and what is not whole is removed. A link comes from another user: its server learns this
    /// machine's address, and the name of the file is not taken from it. It may lead to hosts of the public internet only, and to
    /// those that the module's `privateHosts` name.
    ///
    /// - Parameters:
    ///   - link: An address of `https`, or a link of `aesgcm` (XEP-0454).
    ///   - path: Where it is to be; nothing may be there, and its folder must be.
    ///   - maximumSize: How many bytes are taken at most, 1 or more.
    /// - Returns: How many bytes the file has.
    /// - Throws: ``UploadError`` `malformed` for what is no link, `tooLarge`, `httpStatus`, `tls`, `connection`, `privateAddress`,
    ///   `undecryptable`, `fileExists`, `fileMissing`, `fileUnreadable`, `cancelled` when the task is;
    ///   ``/XMPPAccount/AccountError`` `missingModule`.
    @discardableResult
    public func fetch(
        _ link: some TextConvertible, to path: String, maximumSize: Int64 = 100 << 20
    ) async throws -> Int64 {
        let module: UploadModule = try account.module()
        let secret = AesgcmLink(link)
        let address: ForeignText
        do { address = try UploadSlot.address(secret?.address ?? link.foreignText) } catch {
            throw UploadError(
                .malformed, "this is no link to a file: it starts with https:// or is one of aesgcm")
        }
        let request = HTTPRequest(
            address: address, trust: module.trust ?? account.configuration.trust, limits: module.limits,
            reach: module.reach)
        let control = HTTPControl()
        return try await onThread(control) {
            try FileGet(request: request, secret: secret, path: path, maximumSize: maximumSize).run(control)
        }
    }
}

/// Gets a file, and decrypts it on the way.
struct FileGet: Sendable {
    var request: HTTPRequest
    var secret: AesgcmLink?
    var path: String
    /// Of the file as it will be, without the tag.
    var maximumSize: Int64

    /// Blocks until the file is whole.
    ///
    /// - Returns: How many bytes it has.
    /// - Throws: ``UploadError``.
    func run(_ control: HTTPControl) throws -> Int64 {
        let sink = try FileSink(NewFile(path), secret, maximumSize: maximumSize)
        let status = try HTTPExchange.get(request, control) { try sink.write($0) }
        guard status == 200 else { throw UploadError.status(status) }
        return try sink.finish()
    }
}

/// The target of a download.
private final class FileSink {
    private let file: NewFile
    private let maximumSize: Int64
    private var decryptor: AesgcmLink.Decryptor?

    init(_ file: NewFile, _ secret: AesgcmLink?, maximumSize: Int64) throws {
        self.file = file
        self.maximumSize = maximumSize
        decryptor = try secret?.decrypting()
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws {
        let plain = try decryptor?.update(Array(bytes)) ?? Array(bytes)
        guard file.size + Int64(plain.count) <= maximumSize else {
            throw UploadError.tooLarge(file.size + Int64(plain.count), maximum: maximumSize)
        }
        try plain.withUnsafeBytes { try file.write($0) }
    }

    func finish() throws -> Int64 {
        if let decryptor = decryptor.take() { try decryptor.finish() }
        try file.finish()
        return file.size
    }
}
