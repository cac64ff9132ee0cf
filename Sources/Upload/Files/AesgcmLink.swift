import XMPPTransport
public import XMPPCore

/// A link to an encrypted file: `aesgcm://host/path#IV+key`.
///
/// The file is on a web server, encrypted with AES-256-GCM and with the tag at its end. The fragment holds key and IV,
/// which is never sent to that server; the link itself goes as the text of an encrypted message.
///
/// ```swift
/// guard let link = AesgcmLink(message.body ?? "") else { return }
/// var file = try link.decrypting()
/// for piece in pieces { put(try file.update(piece)) }
/// try file.finish()  // or delete what was written
/// ```
///
/// Source: XEP-0454 sections 3 and 4.
public struct AesgcmLink: Hashable, Sendable, CustomStringConvertible {
    /// The address of the encrypted file, which starts with `https://`.
    public let address: ForeignText
    private let iv: [UInt8]
    private let key: [UInt8]

    /// The longest link that is read, in bytes.
    package static let maximumLength = 8192
    private static let scheme = "aesgcm://"
    private static let keySize = 32

    /// Reads a link. Nil when it is none, when its fragment holds no key of 32 bytes with an IV of 12 (or, as older
    /// clients write it, 16) in hexadecimal digits, or when it is longer than `maximumLength`.
    ///
    /// - Parameter text: The link, such as the whole text of a message.
    public init?(_ text: some TextConvertible) {
        let text = text.foreignText
        guard text.utf8.count <= Self.maximumLength, text.hasPrefix(Self.scheme),
            let mark = text.utf8.firstIndex(of: UInt8(ascii: "#"))
        else { return nil }
        let place = text.utf8[..<mark].dropFirst(Self.scheme.utf8.count)
        guard !place.isEmpty, let secret = [UInt8](hexadecimal: text.utf8[mark...].dropFirst()),
            secret.count == Self.keySize + 12 || secret.count == Self.keySize + 16
        else { return nil }
        address = "https://\(ForeignText(decoding: place))"
        iv = Array(secret.dropLast(Self.keySize))
        key = Array(secret.suffix(Self.keySize))
    }

    /// With a new key and a new IV.
    ///
    /// - Parameter address: Starts with `https://`, and has no fragment.
    init(to address: ForeignText) {
        self.address = address
        (iv, key) = (Crypto.randomBytes(12), Crypto.randomBytes(Self.keySize))
    }

    func cipher(encrypting: Bool) throws(UploadError) -> AESGCM {
        do {
            return try AESGCM(encrypting: encrypting, key: key, iv: iv)
        } catch { throw UploadError(error) }
    }

    /// The link with its key, to be sent encrypted and never in the clear.
    public var text: ForeignText {
        let place = address.utf8.dropFirst("https://".utf8.count)
        return ForeignText(Self.scheme + String(Substring(place)) + "#" + iv.hexadecimal + key.hexadecimal)
    }

    /// The address alone: links appear in logs, keys must not.
    public var description: String { "\(address)#•••" }

    // MARK: Decrypting, piece by piece

    /// Starts to decrypt the file.
    ///
    /// - Returns: What decrypts, from the first byte on.
    /// - Throws: ``UploadError`` `cryptoFailed`.
    public func decrypting() throws(UploadError) -> Decryptor {
        Decryptor(cipher: try cipher(encrypting: false))
    }

    /// Decrypts a file piece by piece.
    ///
    /// ```swift
    /// var file = try link.decrypting()
    /// for piece in pieces { put(try file.update(piece)) }
    /// try file.finish()  // or delete what was written
    /// ```
    public struct Decryptor: ~Copyable {
        let cipher: AESGCM
        /// The end of what has come, which may be the tag.
        private var tail: [UInt8] = []

        init(cipher: AESGCM) { self.cipher = cipher }

        /// Decrypts the next piece. What it returns may not be used before ``finish()`` has agreed: write it into a
        /// file that is deleted otherwise.
        ///
        /// - Parameter piece: Any number of bytes.
        /// - Returns: What is certain not to belong to the tag; may be empty.
        /// - Throws: ``UploadError`` `cryptoFailed`.
        public mutating func update(_ piece: [UInt8]) throws(UploadError) -> [UInt8] {
            tail += piece
            guard tail.count > AESGCM.tagSize else { return [] }
            let text = tail.dropLast(AESGCM.tagSize)
            do {
                let plain = try cipher.update(text)
                tail = Array(tail.suffix(AESGCM.tagSize))
                return plain
            } catch { throw UploadError(error) }
        }

        /// Ends the file.
        ///
        /// - Throws: ``UploadError`` `undecryptable` when the file is not what was encrypted, or ends early.
        public consuming func finish() throws(UploadError) {
            do { try cipher.finish(tag: tail) } catch { throw UploadError(error) }
        }
    }
}
