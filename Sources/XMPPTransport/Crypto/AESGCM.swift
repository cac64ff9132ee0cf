import COpenSSL
package import XMPPCore

/// AES in Galois/Counter mode, piece by piece.
///
/// Nothing that a decryption gives out may be believed before ``finish(tag:)`` has agreed.
package final class AESGCM {
    /// The size of the tag in bytes.
    package static let tagSize = 16

    private let context: OpaquePointer
    private let isEncrypting: Bool

    /// - Parameters:
    ///   - key: 16 or 32 bytes.
    ///   - iv: 1 to 16 bytes; 12 are usual.
    /// - Throws: ``AESGCMError`` `wrongSize`, `unavailable`.
    package init(encrypting: Bool, key: [UInt8], iv: [UInt8]) throws(AESGCMError) {
        guard key.count == 16 || key.count == 32, (1...16).contains(iv.count) else {
            throw AESGCMError(
                .wrongSize,
                "the key has \(key.count) bytes and the IV \(iv.count), which AES-GCM cannot use")
        }
        guard let context = EVP_CIPHER_CTX_new() else { throw .unavailable }
        let algorithm = key.count == 16 ? EVP_aes_128_gcm() : EVP_aes_256_gcm()
        let direction: Int32 = encrypting ? 1 : 0
        guard EVP_CipherInit_ex2(context, algorithm, nil, nil, direction, nil) == 1,
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_IVLEN, Int32(iv.count), nil) == 1,
            EVP_CipherInit_ex2(context, nil, key, iv, direction, nil) == 1
        else {
            EVP_CIPHER_CTX_free(context)
            throw .unavailable
        }
        self.context = context
        isEncrypting = encrypting
    }

    deinit { EVP_CIPHER_CTX_free(context) }

    /// Takes the next piece and gives out as many bytes.
    package func update(_ piece: some Collection<UInt8>) throws(AESGCMError) -> [UInt8] {
        let input = Array(piece)
        guard !input.isEmpty else { return [] }
        guard input.count < Int(Int32.max) else { throw .unavailable }
        var isDone = false
        let output = [UInt8](unsafeUninitializedCapacity: input.count) { space, count in
            var length: Int32 = 0
            isDone = EVP_CipherUpdate(context, space.baseAddress, &length, input, Int32(input.count)) == 1
            count = isDone ? Int(length) : 0
        }
        if !isDone { throw .unavailable }
        return output
    }

    /// Ends an encryption.
    ///
    /// - Returns: The tag.
    package func finish() throws(AESGCMError) -> [UInt8] {
        var rest: Int32 = 0
        var tag = [UInt8](repeating: 0, count: Self.tagSize)
        guard isEncrypting, EVP_CipherFinal_ex(context, nil, &rest) == 1,
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, Int32(tag.count), &tag) == 1
        else { throw .unavailable }
        return tag
    }

    /// Ends a decryption.
    ///
    /// - Throws: ``AESGCMError`` `forged` when the text is not what was encrypted.
    package func finish(tag: [UInt8]) throws(AESGCMError) {
        var rest: Int32 = 0
        var tag = tag
        guard !isEncrypting, tag.count == Self.tagSize,
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, Int32(tag.count), &tag) == 1,
            EVP_CipherFinal_ex(context, nil, &rest) == 1
        else { throw AESGCMError(.forged, "the data is not what was encrypted; do not use it") }
    }
}

/// An error of encryption or decryption with AES-GCM.
package struct AESGCMError: CodedError, Hashable {
    package let code: ErrorCode<AESGCMError>
    package let message: String

    fileprivate init(_ code: ErrorCode<AESGCMError>, _ message: String) {
        (self.code, self.message) = (code, message)
    }

    fileprivate static var unavailable: AESGCMError {
        AESGCMError(.unavailable, "OpenSSL could not encrypt with AES-GCM")
    }
}

extension ErrorCode where Failure == AESGCMError {
    /// Key or IV has a size that AES-GCM cannot use.
    package static var wrongSize: Self { Self(rawValue: "wrongSize") }
    /// The data is not what was encrypted.
    package static var forged: Self { Self(rawValue: "forged") }
    /// OpenSSL refused.
    package static var unavailable: Self { Self(rawValue: "unavailable") }
}
