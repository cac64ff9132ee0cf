public import XMPPCore
import XMPPTransport

/// Contact card (XEP-0054), with the fields that this library reads.
///
/// The owner of the card writes it, so it proves nothing.
///
/// ```swift
/// if let card = try await account.request(.vcard(of: juliet)) { print(card.name ?? card.nickname ?? "") }
/// ```
///
/// Source: XEP-0054.
public struct VCard: Hashable, Sendable {
    /// A picture.
    ///
    /// ```swift
    /// if let photo = card.photo { show(photo.bytes, type: photo.type ?? "image/png") }
    /// ```
    public struct Photo: Hashable, Sendable {
        /// Its MIME type as its owner states it. Nil when it is not stated.
        public let type: ForeignText?
        /// The bytes of the picture, at most 512 KiB.
        public let bytes: [UInt8]
    }

    /// The formatted name.
    public let name: ForeignText?
    /// The nickname.
    public let nickname: ForeignText?
    /// The picture, if there is one inside the card and it is none too large.
    public let photo: Photo?
    /// Whether there was a picture that was not taken: it is too large or not readable, or only an address of it is given.
    package let hasRefusedPhoto: Bool

    /// The largest picture that is taken, in bytes.
    package static let maximumPhoto = 512 * 1024
    /// The longest text that is taken, in bytes of UTF-8; a longer one counts as not given.
    package static let maximumText = 1023

    init(_ card: Element) {
        name = Self.text("FN", in: card)
        nickname = Self.text("NICKNAME", in: card)
        let photo = card.child("PHOTO", Namespaces.vcard)
        let bytes = photo?.child("BINVAL", Namespaces.vcard).flatMap { Self.bytes($0.text) }
        let type = photo.flatMap { Self.text("TYPE", in: $0) }
        self.photo = bytes.map { Photo(type: type, bytes: $0) }
        hasRefusedPhoto = bytes == nil && photo?.elements.isEmpty == false
    }

    private static func text(_ name: String, in parent: Element) -> ForeignText? {
        guard let text = parent.child(name, Namespaces.vcard)?.text, !text.isEmpty,
            text.utf8.count <= maximumText
        else { return nil }
        return text
    }

    /// Reads base64, which others break into lines. What is too large is not even read.
    private static func bytes(_ text: ForeignText) -> [UInt8]? {
        let spaces: Set<UInt8> = [0x20, 0x09, 0x0A, 0x0D]
        let digits = text.utf8.filter { !spaces.contains($0) }
        guard digits.count <= (maximumPhoto + 2) / 3 * 4, let bytes = Crypto.bytes(base64: digits),
            (1...maximumPhoto).contains(bytes.count)
        else { return nil }
        return bytes
    }
}
