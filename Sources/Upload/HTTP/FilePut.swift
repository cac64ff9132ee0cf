import XMPPAccount
import XMPPCore

/// Puts a file where a slot says, from the first look at the file to the last.
///
/// An encrypted file gets a new key each time, which nobody but this value has until the upload is over: two PUTs never share
/// a key and an IV, whatever has become of the file in between.
struct FilePut: Sendable {
    var path: String
    var type: String?
    var identity: LocalFile.Identity
    var isEncrypted: Bool
    var slot: UploadSlot
    var trust: AccountConfiguration.Trust
    var limits: HTTPRequest.Limits
    var reach: HTTPReach

    /// The media type of a file that is encrypted: the service shall not learn more.
    static let encryptedType = "application/octet-stream"

    /// Blocks until the server has the file.
    ///
    /// - Returns: Where it is.
    /// - Throws: ``UploadError``.
    func run(_ control: HTTPControl) throws -> UploadedFile {
        let file = try LocalFile(path)
        try file.check(identity)
        let link = isEncrypted ? AesgcmLink(to: slot.get) : nil
        let body = try FileBody(file, size: identity.size, cipher: link?.cipher(encrypting: true))
        try UploadFailpoint.putting.hit()
        let status = try HTTPExchange.put(request, control) { try body.read(into: $0) }
        // XEP-0363 section 7 names 201; some servers say 200, or 204 for what was there before.
        guard [200, 201, 204].contains(status) else { throw UploadError.status(status) }
        guard body.isOver else {
            throw UploadError(
                .connection, "the web server says that it has the file before it does; try again later")
        }
        try file.check(identity)
        try UploadFailpoint.put.hit()
        return UploadedFile(address: slot.get, secret: link)
    }

    private var request: HTTPRequest {
        var request = HTTPRequest(
            address: slot.put, headers: slot.headers, trust: trust, limits: limits, reach: reach)
        request.size = FileBody.size(of: identity.size, encrypted: isEncrypted)
        if let type { request.headers.append(.init(name: "Content-Type", value: ForeignText(type))) }
        return request
    }
}
