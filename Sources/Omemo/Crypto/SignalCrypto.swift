import COmemo
import COpenSSL
import XMPPTransport

/// The primitives that libomemo-c asks for, from OpenSSL.
///
/// Every function is called by C code, so none may throw: each answers with libomemo-c's codes.
enum SignalCrypto {
    static var provider: signal_crypto_provider {
        signal_crypto_provider(
            random_func: random, hmac_sha256_init_func: hmacInit, hmac_sha256_update_func: hmacUpdate,
            hmac_sha256_final_func: hmacFinal, hmac_sha256_cleanup_func: hmacCleanup,
            sha512_digest_init_func: digestInit, sha512_digest_update_func: digestUpdate,
            sha512_digest_final_func: digestFinal, sha512_digest_cleanup_func: digestCleanup,
            encrypt_func: encrypt, decrypt_func: decrypt, user_data: nil)
    }

    private static let random:
        @convention(c) (UnsafeMutablePointer<UInt8>?, Int, UnsafeMutableRawPointer?) -> Int32 = {
            bytes, count, _ in
            Crypto.fillRandomly(UnsafeMutableRawBufferPointer(start: bytes, count: count))
                ? 0 : SG_ERR_UNKNOWN
        }

    // MARK: HMAC-SHA-256

    /// An HMAC with SHA-256 set and no key; copied for each use, which is much cheaper than looking it up by name.
    ///
    /// Unsafe only to the compiler: made once, never changed, and copying it is thread-safe in OpenSSL 3.
    nonisolated(unsafe) private static let hmacTemplate: OpaquePointer? = {
        guard let mac = EVP_MAC_fetch(nil, "HMAC", nil), let context = EVP_MAC_CTX_new(mac) else {
            return nil
        }
        EVP_MAC_free(mac)
        var name = Array("SHA256".utf8CString)
        // The parameter points to its key, so a String lent for the call alone would not do.
        return OSSL_MAC_PARAM_DIGEST.withCString { key in
            name.withUnsafeMutableBufferPointer { name in
                var parameters = [
                    OSSL_PARAM_construct_utf8_string(key, name.baseAddress, 0), OSSL_PARAM_construct_end(),
                ]
                return EVP_MAC_CTX_set_params(context, &parameters) == 1 ? context : nil
            }
        }
    }()

    /// HMAC-SHA-256 over pieces, 32 bytes.
    ///
    /// - Throws: ``OmemoError`` `cryptoFailed` when OpenSSL gives none.
    static func hmac(_ key: [UInt8], _ pieces: [[UInt8]]) throws(OmemoError) -> [UInt8] {
        var hmac = try HMAC(key)
        return try hmac.code(of: pieces)
    }

    /// HMAC-SHA-256 with one key, which is set up once for all codes.
    struct HMAC: ~Copyable {
        private let context: OpaquePointer
        /// Whether there was a code before, so that the key that is set must be taken up again.
        private var isUsed = false
        private static let failure = OmemoError(.cryptoFailed, "OpenSSL could not compute an HMAC")

        init(_ key: [UInt8]) throws(OmemoError) {
            guard let template = hmacTemplate, let context = EVP_MAC_CTX_dup(template) else {
                throw Self.failure
            }
            guard EVP_MAC_init(context, key, key.count, nil) == 1 else {
                EVP_MAC_CTX_free(context)
                throw Self.failure
            }
            self.context = context
        }

        deinit { EVP_MAC_CTX_free(context) }

        /// The code of pieces that follow one another.
        mutating func code(of pieces: [[UInt8]]) throws(OmemoError) -> [UInt8] {
            var isDone = !isUsed || EVP_MAC_init(context, nil, 0, nil) == 1
            isUsed = true
            for piece in pieces where !piece.isEmpty {
                isDone = isDone && EVP_MAC_update(context, piece, piece.count) == 1
            }
            let code = [UInt8](unsafeUninitializedCapacity: 32) { space, count in
                isDone = isDone && EVP_MAC_final(context, space.baseAddress, &count, 32) == 1
            }
            guard isDone, code.count == 32 else { throw Self.failure }
            return code
        }
    }

    private static let hmacInit:
        @convention(c) (
            UnsafeMutablePointer<UnsafeMutableRawPointer?>?, UnsafePointer<UInt8>?, Int,
            UnsafeMutableRawPointer?
        ) -> Int32 = { place, key, count, _ in
            guard let template = hmacTemplate, let context = EVP_MAC_CTX_dup(template) else {
                return SG_ERR_NOMEM
            }
            // A nil key would mean "the key from before", and there is none.
            var none: UInt8 = 0
            guard
                EVP_MAC_init(
                    context, count == 0 ? UnsafePointer(withUnsafeMutablePointer(to: &none) { $0 }) : key,
                    count, nil) == 1
            else {
                EVP_MAC_CTX_free(context)
                return SG_ERR_UNKNOWN
            }
            place?.pointee = UnsafeMutableRawPointer(context)
            return 0
        }

    private typealias Update =
        @convention(c) (
            UnsafeMutableRawPointer?, UnsafePointer<UInt8>?, Int, UnsafeMutableRawPointer?
        ) -> Int32

    private static let hmacUpdate: Update = { context, data, count, _ in
        EVP_MAC_update(OpaquePointer(context), data, count) == 1 ? 0 : SG_ERR_UNKNOWN
    }

    private typealias Output = UnsafeMutablePointer<OpaquePointer?>?
    private typealias Final =
        @convention(c) (UnsafeMutableRawPointer?, Output, UnsafeMutableRawPointer?) -> Int32

    private static let hmacFinal: Final = { context, output, _ in
        fill(output, 32) { space in
            var count = 0
            return EVP_MAC_final(OpaquePointer(context), space, &count, 32) == 1 && count == 32
        }
    }

    /// Makes a buffer of that size, and lets `write` fill it.
    private static func fill(
        _ output: Output, _ size: Int, _ write: (UnsafeMutablePointer<UInt8>?) -> Bool
    ) -> Int32 {
        guard let buffer = signal_buffer_alloc(size) else { return SG_ERR_NOMEM }
        guard write(signal_buffer_data(buffer)) else {
            signal_buffer_free(buffer)
            return SG_ERR_UNKNOWN
        }
        output?.pointee = buffer
        return 0
    }

    private typealias Cleanup = @convention(c) (UnsafeMutableRawPointer?, UnsafeMutableRawPointer?) -> Void

    private static let hmacCleanup: Cleanup = { context, _ in EVP_MAC_CTX_free(OpaquePointer(context)) }

    // MARK: SHA-512

    private static let digestInit:
        @convention(c) (UnsafeMutablePointer<UnsafeMutableRawPointer?>?, UnsafeMutableRawPointer?) -> Int32 =
            {
                place, _ in
                guard let context = EVP_MD_CTX_new() else { return SG_ERR_NOMEM }
                guard EVP_DigestInit_ex(context, EVP_sha512(), nil) == 1 else {
                    EVP_MD_CTX_free(context)
                    return SG_ERR_UNKNOWN
                }
                place?.pointee = UnsafeMutableRawPointer(context)
                return 0
            }

    private static let digestUpdate: Update = { context, data, count, _ in
        EVP_DigestUpdate(OpaquePointer(context), data, count) == 1 ? 0 : SG_ERR_UNKNOWN
    }

    private static let digestFinal: Final = { context, output, _ in
        fill(output, 64) { space in
            // The context must be ready for another digest afterwards.
            EVP_DigestFinal_ex(OpaquePointer(context), space, nil) == 1
                && EVP_DigestInit_ex(OpaquePointer(context), EVP_sha512(), nil) == 1
        }
    }

    private static let digestCleanup: Cleanup = { context, _ in EVP_MD_CTX_free(OpaquePointer(context)) }

    // MARK: AES

    private typealias Cipher =
        @convention(c) (
            Output, Int32, UnsafePointer<UInt8>?, Int, UnsafePointer<UInt8>?, Int, UnsafePointer<UInt8>?, Int,
            UnsafeMutableRawPointer?
        ) -> Int32

    private static let encrypt: Cipher = { output, mode, key, keyCount, iv, ivCount, text, count, _ in
        run(1, output, mode, (key, keyCount), (iv, ivCount), (text, count))
    }

    private static let decrypt: Cipher = { output, mode, key, keyCount, iv, ivCount, text, count, _ in
        run(0, output, mode, (key, keyCount), (iv, ivCount), (text, count))
    }

    private typealias Bytes = (start: UnsafePointer<UInt8>?, count: Int)

    private static func run(
        _ isEncrypting: Int32, _ output: Output, _ mode: Int32, _ key: Bytes, _ iv: Bytes, _ text: Bytes
    ) -> Int32 {
        guard let algorithm = algorithm(mode, keyCount: key.count), iv.count == 16,
            text.count <= Int(Int32.max) - 32,
            let context = EVP_CIPHER_CTX_new()
        else { return SG_ERR_INVAL }
        defer { EVP_CIPHER_CTX_free(context) }
        guard EVP_CipherInit_ex2(context, algorithm, key.start, iv.start, isEncrypting, nil) == 1,
            let space = signal_buffer_alloc(text.count + 16)
        else { return SG_ERR_NOMEM }
        defer { signal_buffer_bzero_free(space) }
        var (length, rest): (Int32, Int32) = (0, 0)
        guard
            EVP_CipherUpdate(context, signal_buffer_data(space), &length, text.start, Int32(text.count)) == 1,
            EVP_CipherFinal_ex(context, signal_buffer_data(space) + Int(length), &rest) == 1,
            let result = signal_buffer_create(signal_buffer_data(space), Int(length + rest))
        else { return isEncrypting == 1 ? SG_ERR_UNKNOWN : SG_ERR_INVALID_MESSAGE }
        output?.pointee = result
        return 0
    }

    /// AES-256 in CBC mode, looked up once.
    ///
    /// Unsafe only to the compiler: made once and never changed.
    nonisolated(unsafe) private static let aes256: OpaquePointer? = EVP_CIPHER_fetch(nil, "AES-256-CBC", nil)

    /// AES-256-CBC with the padding of PKCS #7.
    ///
    /// - Parameters:
    ///   - key: 32 bytes.
    ///   - iv: 16 bytes.
    /// - Returns: Nil when what is decrypted is padded wrongly, or OpenSSL fails.
    static func cbc(
        _ text: [UInt8], key: UnsafePointer<UInt8>, iv: UnsafePointer<UInt8>, encrypting: Bool
    ) -> [UInt8]? {
        guard text.count < Int(Int32.max) - 32, let context = EVP_CIPHER_CTX_new() else { return nil }
        defer { EVP_CIPHER_CTX_free(context) }
        var isDone = EVP_CipherInit_ex2(context, aes256, key, iv, encrypting ? 1 : 0, nil) == 1
        var result = [UInt8](unsafeUninitializedCapacity: text.count + 16) { space, count in
            var (length, rest): (Int32, Int32) = (0, 0)
            isDone =
                isDone && EVP_CipherUpdate(context, space.baseAddress, &length, text, Int32(text.count)) == 1
            isDone = isDone && EVP_CipherFinal_ex(context, space.baseAddress! + Int(length), &rest) == 1
            count = Int(length + rest)
        }
        if isDone { return result }
        result.wipe()
        return nil
    }

    private static func algorithm(_ mode: Int32, keyCount: Int) -> OpaquePointer? {
        switch (mode, keyCount) {
        case (SG_CIPHER_AES_CBC_PKCS5, 16): EVP_aes_128_cbc()
        case (SG_CIPHER_AES_CBC_PKCS5, 24): EVP_aes_192_cbc()
        case (SG_CIPHER_AES_CBC_PKCS5, 32): EVP_aes_256_cbc()
        case (SG_CIPHER_AES_CTR_NOPADDING, 16): EVP_aes_128_ctr()
        case (SG_CIPHER_AES_CTR_NOPADDING, 24): EVP_aes_192_ctr()
        case (SG_CIPHER_AES_CTR_NOPADDING, 32): EVP_aes_256_ctr()
        default: nil
        }
    }
}
