public import Handlers
public import XMPPAccount
import XMPPCore

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The address of an uploaded file, and its key.
///
/// ```swift
/// if case .uploaded(let file) = call.outcome {
///     try call.account.omemo.send(OmemoContent(body: file.link), to: juliet, in: call.step)
/// }
/// ```
public struct UploadedFile: Hashable, Sendable, CustomStringConvertible {
    /// The `https` address of the file.
    public let address: ForeignText
    /// The same with the key of an encrypted file. Nil for one that was uploaded as it is.
    public let secret: AesgcmLink?

    /// Makes one, for tests of a handler.
    ///
    /// - Parameters:
    ///   - address: Where the file can be fetched.
    ///   - secret: The same with the key of an encrypted file.
    package init(address: ForeignText, secret: AesgcmLink? = nil) {
        self.address = address
        self.secret = secret
    }

    /// The link for recipients. Send a link that contains a key only encrypted.
    public var link: ForeignText { secret?.text ?? address }

    /// The address, without the key.
    public var description: String { secret?.description ?? address.string }

    /// Reads what ``link`` gave.
    init(link: String) {
        let secret = AesgcmLink(link)
        self.init(address: secret?.address ?? ForeignText(link), secret: secret)
    }
}

/// The context of a handler that waits for the end of an upload.
///
/// ```swift
/// @Handler("album.uploaded")
/// static func uploaded(_ call: borrowing Call<UploadEnded>, photo: Int64) throws {
///     switch call.outcome {
///     case .uploaded(let file):
///         try call.step.execute("UPDATE photo SET address = ? WHERE id = ?", file.address.string, photo)
///     case .failed(let error): print(error)
///     }
/// }
/// ```
public struct UploadEnded: Sendable {
    /// Outcome of the handler.
    public enum Outcome: Hashable, Sendable {
        /// The server has the file. Where a message was to be sent, it is sent.
        case uploaded(UploadedFile)
        /// It failed for good.
        case failed(UploadError)
    }

    /// The account that uploaded.
    public let account: Account
    /// The id of the upload.
    public let upload: UploadID
    /// The file that was to be uploaded.
    public let file: UploadFile
    /// The id of the message with the link. Nil when none was sent.
    public let messageID: String?
    /// The outcome.
    public let outcome: Outcome
}

extension UploadEnded: StoredContext, AccountContext {
    private struct Stored: Codable {
        var upload: UploadID
        var file: UploadFile
        var messageID: String?
        /// May hold a key.
        var link: Secret<String>?
        var error: UploadError?
    }

    package func stored() throws -> [UInt8] {
        var stored = Stored(upload: upload, file: file, messageID: messageID)
        switch outcome {
        case .uploaded(let file): stored.link = Secret(file.link.string)
        case .failed(let error): stored.error = error
        }
        return try [UInt8](JSONEncoder().encode(stored))
    }

    package init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws {
        let stored = try JSONDecoder().decode(Stored.self, from: Data(bytes))
        let account = try Account.serving(environment)
        let error =
            stored.error ?? UploadError(.abandoned, "what is stored of this upload says nothing of its end")
        self.init(
            account: account, upload: stored.upload, file: stored.file, messageID: stored.messageID,
            outcome: stored.link.map { .uploaded(UploadedFile(link: $0.value)) } ?? .failed(error))
    }
}

/// Event of a running upload. Nothing that is stored depends on it.
///
/// ```swift
/// for await event in account.events(of: UploadEvent.self) {
///     if case .progress(let sent, let size) = event.change { print("\(event.upload): \(sent) of \(size)") }
/// }
/// ```
public struct UploadEvent: ModuleEvent {
    /// The change.
    public enum Change: Hashable, Sendable {
        /// So many bytes have gone, of so many. At most four times a second, and from 0 again with another slot.
        case progress(sent: Int64, size: Int64)
        /// It ended.
        case ended(UploadEnded.Outcome)
    }

    /// The id of the upload.
    public let upload: UploadID
    /// The change.
    public let change: Change
}
