import COpenSSL
import XMPPCore

/// Base64 (RFC 4648 section 4) on OpenSSL, for keys and payloads.
enum Base64 {
    static func encode(_ bytes: [UInt8]) -> String {
        guard !bytes.isEmpty else { return "" }
        return String(unsafeUninitializedCapacity: (bytes.count + 2) / 3 * 4 + 1) { space in
            Int(EVP_EncodeBlock(space.baseAddress, bytes, Int32(bytes.count)))
        }
    }

    /// Decodes; white space is allowed anywhere, because some clients break lines. Nil for anything else that is not
    /// Base64, and for more than 2^30 characters.
    static func decode(_ text: ForeignText) -> [UInt8]? {
        var text = text.string
        return text.withUTF8 { text in
            text.contains { $0 <= 0x20 }
                ? text.filter { $0 > 0x20 }.withUnsafeBufferPointer { decode(whole: $0) }
                : decode(whole: text)
        }
    }

    private static func decode(whole characters: UnsafeBufferPointer<UInt8>) -> [UInt8]? {
        guard characters.count % 4 == 0, characters.count < 1 << 30 else { return nil }
        if characters.isEmpty { return [] }
        let padding = characters.suffix(2).reversed().prefix { $0 == UInt8(ascii: "=") }.count
        // The library's function would take more padding, and ends at a dash.
        guard
            !characters.dropLast(padding).contains(where: {
                $0 == UInt8(ascii: "=") || $0 == UInt8(ascii: "-")
            })
        else { return nil }
        let size = characters.count / 4 * 3
        var isValid = true
        let bytes = [UInt8](unsafeUninitializedCapacity: size) { space, count in
            let decoded = EVP_DecodeBlock(space.baseAddress, characters.baseAddress, Int32(characters.count))
            isValid = decoded == Int32(size)
            count = isValid ? size - padding : 0
        }
        return isValid ? bytes : nil
    }
}
