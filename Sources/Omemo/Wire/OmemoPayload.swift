import COpenSSL
import XMPPTransport

/// The content of a message, encrypted once for all devices; each gets the key material in its own session.
enum OmemoPayload {
    struct Encrypted {
        /// The material that is encrypted for each device: the key, and the authentication tag of the content.
        var keyMaterial: [UInt8]
        /// Legacy only.
        let iv: [UInt8]?
        let ciphertext: [UInt8]
    }

    static func encrypt(_ plaintext: [UInt8], _ version: OmemoVersion) throws(OmemoError) -> Encrypted {
        try version == .legacy ? encryptLegacy(plaintext) : encryptCurrent(plaintext)
    }

    /// - Throws: ``OmemoError`` `malformed` or `undecryptable`.
    static func decrypt(
        _ ciphertext: [UInt8], keyMaterial: [UInt8], iv: [UInt8]?, _ version: OmemoVersion
    ) throws(OmemoError) -> [UInt8] {
        try version == .legacy
            ? decryptLegacy(ciphertext, keyMaterial, iv) : decryptCurrent(ciphertext, keyMaterial)
    }

    /// The key material of a message without content.
    ///
    /// XEP-0384 section 4.5: 32 zero bytes. Version 0.3, section 4.6: a key for other uses, unused here.
    static func emptyKeyMaterial(_ version: OmemoVersion) -> [UInt8] {
        version == .legacy ? Crypto.randomBytes(16) : [UInt8](repeating: 0, count: 32)
    }

    // MARK: Legacy (version 0.3, section 4.5): AES-128-GCM, key and tag for each device

    private static func encryptLegacy(_ plaintext: [UInt8]) throws(OmemoError) -> Encrypted {
        var key = Crypto.randomBytes(16)
        defer { key.wipe() }
        let iv = Crypto.randomBytes(12)
        do {
            let cipher = try AESGCM(encrypting: true, key: key, iv: iv)
            let ciphertext = try cipher.update(plaintext)
            return Encrypted(keyMaterial: key + (try cipher.finish()), iv: iv, ciphertext: ciphertext)
        } catch { throw OmemoError(error) }
    }

    private static func decryptLegacy(
        _ ciphertext: [UInt8], _ material: [UInt8], _ iv: [UInt8]?
    ) throws(OmemoError) -> [UInt8] {
        guard let iv else { throw OmemoError(.malformed, "the message has no IV") }
        var (text, tag) = (ciphertext, Array(material.dropFirst(16)))
        if material.count == 16 {
            // The oldest clients leave the tag at the end of the content.
            guard text.count >= AESGCM.tagSize else {
                throw OmemoError(.malformed, "the content is too short")
            }
            tag = Array(text.suffix(AESGCM.tagSize))
            text.removeLast(AESGCM.tagSize)
        }
        var key = Array(material.prefix(16))
        defer { key.wipe() }
        do {
            let cipher = try AESGCM(encrypting: false, key: key, iv: iv)
            let plaintext = try cipher.update(text)
            try cipher.finish(tag: tag)
            return plaintext
        } catch { throw OmemoError(error) }
    }

    // MARK: Current (section 4.4): AES-256-CBC and HMAC with keys derived from one

    private static let derivedSize = 80
    private static let tagSize = 16

    private static func encryptCurrent(_ plaintext: [UInt8]) throws(OmemoError) -> Encrypted {
        var key = Crypto.randomBytes(32)
        var derived = try derive(key)
        defer {
            key.wipe()
            derived.wipe()
        }
        let ciphertext = try cbc(plaintext, derived, encrypting: true)
        return Encrypted(keyMaterial: key + (try tag(ciphertext, derived)), iv: nil, ciphertext: ciphertext)
    }

    private static func decryptCurrent(
        _ ciphertext: [UInt8], _ material: [UInt8]
    ) throws(OmemoError) -> [UInt8] {
        guard material.count == 32 + tagSize else {
            throw OmemoError(.malformed, "the key of the content has \(material.count) bytes instead of 48")
        }
        var key = Array(material.prefix(32))
        var derived = try derive(key)
        defer {
            key.wipe()
            derived.wipe()
        }
        guard Crypto.isEqual(try tag(ciphertext, derived), Array(material.suffix(tagSize))) else {
            throw OmemoError(.undecryptable, "the content was changed on its way; do not use it")
        }
        return try cbc(ciphertext, derived, encrypting: false)
    }

    private static func tag(_ ciphertext: [UInt8], _ derived: [UInt8]) throws(OmemoError) -> [UInt8] {
        var key = Array(derived[32..<64])
        defer { key.wipe() }
        return Array(try SignalCrypto.hmac(key, [ciphertext]).prefix(tagSize))
    }

    /// The info "OMEMO Payload" followed by the number of each block.
    private static let infos = (UInt8(1)...3).map { Array("OMEMO Payload".utf8) + [$0] }
    private static let salt = [UInt8](repeating: 0, count: 32)

    /// HKDF with SHA-256, a salt of 32 zero bytes and the info "OMEMO Payload" (RFC 5869).
    static func derive(_ key: [UInt8]) throws(OmemoError) -> [UInt8] {
        var extracted = try SignalCrypto.hmac(salt, [key])
        var (block, derived): ([UInt8], [UInt8]) = ([], [])
        defer {
            extracted.wipe()
            block.wipe()
        }
        // All of it, so that nothing is left behind where it would have grown.
        derived.reserveCapacity(infos.count * 32)
        var expanding = try SignalCrypto.HMAC(extracted)
        for info in infos {
            let next = try expanding.code(of: [block, info])
            block.wipe()
            block = next
            derived += block.prefix(derivedSize - derived.count)
        }
        return derived
    }

    private static func cbc(
        _ text: [UInt8], _ derived: [UInt8], encrypting: Bool
    ) throws(OmemoError) -> [UInt8] {
        let result = derived.withUnsafeBufferPointer { keys in
            SignalCrypto.cbc(text, key: keys.baseAddress!, iv: keys.baseAddress! + 64, encrypting: encrypting)
        }
        if let result { return result }
        throw encrypting
            ? OmemoError(.cryptoFailed, "OpenSSL could not encrypt with AES-CBC")
            : OmemoError(.undecryptable, "the content is padded wrongly; do not use it")
    }
}

extension OmemoError {
    init(_ error: AESGCMError) {
        switch error.code {
        case .wrongSize: self.init(.malformed, error.message)
        case .forged:
            self.init(.undecryptable, "what was decrypted was changed on its way; do not use it")
        default: self.init(.cryptoFailed, error.message)
        }
    }
}
