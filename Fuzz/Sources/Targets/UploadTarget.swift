@testable import Upload
import XMPPCore

extension FuzzTarget {
    /// Answers of an upload service, and links to encrypted files: no address but https, no header that was not allowed, no
    /// byte that ends a line; a link reads again as it was written.
    static let upload = FuzzTarget("upload", dictionary: "xml") { bytes in
        for element in try Element.all(in: bytes, of: UploadWire.namespace) {
            if let slot = try? UploadSlot(element) { try check(slot) }
            guard let iq = try? IQ(element: element), let error = iq.error else { continue }
            if let failure = SlotRequest.failure(error, in: iq, size: 1) { _ = "\(failure)" }
        }
        let text = String(decoding: bytes, as: UTF8.self)
        if let link = AesgcmLink(text) {
            try require(AesgcmLink(link.text) == link, "a link reads as another one")
        }
    }

    private static func check(_ slot: UploadSlot) throws {
        for address in [slot.put, slot.get] {
            try require(
                address.string.lowercased().hasPrefix("https://")
                    && address.utf8.allSatisfy { (0x21...0x7E).contains($0) },
                "the address \(address) is taken")
        }
        for header in slot.headers {
            try require(
                UploadWire.headers.contains(header.name)
                    && header.value.utf8.allSatisfy { (0x20...0x7E).contains($0) || $0 == 9 },
                "the header \(header.name) is taken")
        }
    }
}
