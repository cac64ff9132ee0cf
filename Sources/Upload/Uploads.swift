public import Handlers
import Platform
import XMPPAccount
public import XMPPCore

/// Uploads of one account; see ``UploadModule``.
///
/// A value that refers to its account; make one whenever it is needed, through ``XMPPAccount/Account/uploads``.
///
/// ```swift
/// let photo = UploadFile("/home/juliet/balcony.jpg", type: "image/jpeg")
/// try await account.perform { try account.uploads.send(photo, to: romeo, in: $0) }
/// ```
public struct Uploads: Sendable {
    let account: Account

    /// The maximum number of waiting uploads of an account.
    package static let limit = 1000
    /// The maximum number of uploads with a slot; the others wait, so that no slot expires unused.
    package static let slots = 4
    /// The largest file, in bytes: AES-GCM encrypts no more under one key (NIST SP 800-38D section 5.2.1.1).
    package static let largestFile: Int64 = 68_719_476_704

    var table: UploadTable { UploadTable(account: account.id) }

    // MARK: Beginning

    /// Uploads a file and sends its link as a message.
    ///
    /// ```swift
    /// let id = try await account.perform { try account.uploads.send(photo, to: romeo, then: Album.sent(photo: 17), in: $0) }
    /// ```
    ///
    /// The link is the message's text, and beside it as an attachment (XEP-0066). To a room that the account is in, it goes
    /// as a message to everybody; with ``/XMPPModules/ChatModule`` its delivery is watched.
    ///
    /// - Parameters:
    ///   - file: What to upload, as it is now.
    ///   - recipient: Who gets the link: an address, or a room that the account is in.
    ///   - then: Called once when it is over: sent, or failed.
    ///   - step: The step that it commits with.
    /// - Returns: The upload's name.
    /// - Throws: ``UploadError`` `fileMissing`, `fileUnreadable`, `invalidFile`, `tooLarge` or `tooManyUploads`;
    ///   ``/XMPPAccount/AccountError`` `missingModule`; ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func send(
        _ file: UploadFile, to recipient: JID, then: Durable<UploadEnded>? = nil, in step: borrowing Step
    ) throws -> UploadID {
        try start(file, encrypted: false, to: recipient, then, in: step)
    }

    /// Uploads a file. The handler does what is to be done with its link.
    ///
    /// ```swift
    /// @Handler("album.encrypted")
    /// static func encrypted(_ call: borrowing Call<UploadEnded>, reader: JID) throws {
    ///     guard case .uploaded(let file) = call.outcome else { return }
    ///     try call.account.omemo.send(OmemoContent(body: file.link), to: reader, in: call.step)
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - file: What to upload, as it is now.
    ///   - encrypting: Whether it is encrypted on the way, with a key that only ``UploadedFile/link`` holds (XEP-0454).
    ///     Such a link may be sent in encrypted messages only, which is why ``send(_:to:then:in:)`` does not send it.
    ///   - then: Called once when it is over: uploaded, or failed.
    ///   - step: The step that it commits with.
    /// - Returns: The upload's name.
    /// - Throws: As ``send(_:to:then:in:)``.
    @discardableResult
    public func upload(
        _ file: UploadFile, encrypting: Bool = false, then: Durable<UploadEnded>, in step: borrowing Step
    ) throws -> UploadID {
        try start(file, encrypted: encrypting, to: nil, then, in: step)
    }

    private func start(
        _ file: UploadFile, encrypted: Bool, to recipient: JID?, _ then: Durable<UploadEnded>?,
        in step: borrowing Step
    ) throws -> UploadID {
        let _: UploadModule = try account.module()
        var file = file
        try file.check()
        file.path = Self.absolute(file.path)
        // What the service is told of an encrypted file is its name and its size.
        if encrypted { file.type = FilePut.encryptedType }
        let identity = try LocalFile(file.path).identity()
        guard identity.size > 0 else {
            throw UploadError(.invalidFile, "\(file.path) is empty; XEP-0363 takes no file without bytes")
        }
        guard identity.size <= Self.largestFile else {
            throw UploadError.tooLarge(identity.size, maximum: Self.largestFile)
        }
        guard try table.count(upTo: Self.limit, in: step) < Self.limit else {
            throw UploadError(
                .tooManyUploads,
                "\(Self.limit) uploads of \(account.configuration.jid) wait; wait until some have ended")
        }
        let handler = if let then { try step.bind(then) } else { HandlerID<UploadEnded>?.none }
        let id = try table.insert(
            file, identity, encrypted: encrypted, recipient: recipient, handler: handler, in: step)
        account.log(
            .info, .upload,
            "upload \(id): \(file.name), \(identity.size) bytes\(encrypted ? ", encrypted" : "")",
            after: step)
        try advance(in: step)
        return id
    }

    /// Another process may have another folder.
    private static func absolute(_ path: String) -> String {
        guard !path.hasPrefix("/"), let folder = ThisProcess.workingFolder else { return path }
        return folder + "/" + path
    }

    // MARK: Ending

    /// Cancels an upload: its handler is called with ``UploadError`` `cancelled`, and no message is sent.
    ///
    /// A transfer that is under way ends within a second or two, in whatever process it is. What the server has by then, it
    /// keeps.
    ///
    /// - Parameters:
    ///   - upload: Which one.
    ///   - step: The step that it commits with.
    /// - Returns: False when it has ended already.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func cancel(_ upload: UploadID, in step: borrowing Step) throws -> Bool {
        guard let row = try table.row(upload, in: step) else { return false }
        try fail(row, UploadError(.cancelled, "the upload was canceled"), in: step)
        try advance(in: step)
        return true
    }

    /// Returns the uploads that have not ended, the oldest first.
    ///
    /// - Parameter source: The step or snapshot to read in.
    /// - Returns: Their names and files, at most 1000.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    public func pending(in source: borrowing some Readable) throws -> [(upload: UploadID, file: UploadFile)] {
        try table.rows(limit: Self.limit, in: source).map { ($0.id, $0.file) }
    }
}
