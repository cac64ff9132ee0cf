import COpenSSL
import Platform
package import XMPPCore

/// OpenSSL's hashes and randomness, and base64, as SASL needs them.
package enum Crypto {
    /// The hash functions SCRAM is defined for.
    package enum Hash: String, CaseIterable, Hashable, Sendable {
        case sha1 = "SHA-1"
        case sha256 = "SHA-256"
        case sha512 = "SHA-512"

        /// The size of a digest in bytes.
        package var size: Int {
            switch self {
            case .sha1: 20
            case .sha256: 32
            case .sha512: 64
            }
        }

        fileprivate var function: OpaquePointer {
            guard let function = fetched else {
                preconditionFailure("OpenSSL offers no \(rawValue); Crypto.missing was not asked.")
            }
            return function
        }

        fileprivate var fetched: OpaquePointer? {
            switch self {
            case .sha1: Functions.sha1
            case .sha256: Functions.sha256
            case .sha512: Functions.sha512
            }
        }
    }

    /// A hash function that this OpenSSL is built or configured without; nothing else here works then.
    package static let missing: Hash? = Hash.allCases.first { $0.fetched == nil }

    /// The hash functions, fetched once: what `EVP_sha256()` gives is looked up again for each digest, which costs as much as
    /// the digest of an address.
    ///
    /// `nonisolated(unsafe)`: OpenSSL never changes a fetched function, and these are never freed.
    private enum Functions {
        nonisolated(unsafe) static let sha1 = fetched("SHA1")
        nonisolated(unsafe) static let sha256 = fetched("SHA2-256")
        nonisolated(unsafe) static let sha512 = fetched("SHA2-512")

        private static func fetched(_ name: String) -> OpaquePointer? {
            OpenSSL.start
            return EVP_MD_fetch(nil, name, nil)
        }
    }

    /// Returns `count` unpredictable bytes.
    ///
    /// Traps when the system has no randomness to give: going on with guessable nonces would be worse.
    package static func randomBytes(_ count: Int) -> [UInt8] {
        OpenSSL.start
        return [UInt8](unsafeUninitializedCapacity: count) { space, initialized in
            let bytes = UnsafeMutableRawBufferPointer(start: space.baseAddress, count: count)
            precondition(fillRandomly(bytes), "The system gives no random bytes.")
            initialized = count
        }
    }

    /// Fills `bytes` with unpredictable bytes.
    ///
    /// - Returns: False when the system has no randomness to give.
    package static func fillRandomly(_ bytes: UnsafeMutableRawBufferPointer) -> Bool {
        if let replaced = Randomness.replacedBytes(bytes.count) {
            bytes.copyBytes(from: replaced)
            return true
        }
        return RAND_bytes(bytes.baseAddress, Int32(bytes.count)) == 1
    }

    /// Returns the digest of `bytes`.
    package static func digest(_ hash: Hash, _ bytes: some Sequence<UInt8>) -> [UInt8] {
        let input = Array(bytes)
        var digest = [UInt8](repeating: 0, count: hash.size)
        let result = EVP_Digest(input, input.count, &digest, nil, hash.function, nil)
        precondition(result == 1, "OpenSSL offers no \(hash.rawValue).")
        return digest
    }

    /// The functions that others may choose, by their names in the IANA registry "Hash Function Textual Names" and in OpenSSL. MD5 is
    /// none: two texts of one digest can be made.
    private static let named = [
        "sha-1": "SHA1", "sha-224": "SHA2-224", "sha-256": "SHA2-256", "sha-384": "SHA2-384",
        "sha-512": "SHA2-512",
    ]

    /// Returns whether ``digest(named:_:)`` knows a function.
    package static func knowsDigest(named name: ForeignText) -> Bool { named[name.string] != nil }

    /// Returns the digest of `bytes` by a function that others have chosen.
    ///
    /// - Parameter name: The function's name in the IANA registry "Hash Function Textual Names".
    /// - Returns: Nil for a function that is not known here.
    package static func digest(named name: ForeignText, _ bytes: [UInt8]) -> [UInt8]? {
        OpenSSL.start
        guard let name = named[name.string], let function = EVP_MD_fetch(nil, name, nil) else { return nil }
        defer { EVP_MD_free(function) }
        var digest = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var count: UInt32 = 0
        guard EVP_Digest(bytes, bytes.count, &digest, &count, function, nil) == 1 else { return nil }
        return Array(digest.prefix(Int(count)))
    }

    /// Returns the HMAC (RFC 2104) of a message with a secret key.
    package static func hmac(_ hash: Hash, key: SecretBytes, _ message: [UInt8]) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: hash.size) { code, count in
            hmac(hash, key: key, message, into: code)
            count = hash.size
        }
    }

    /// Returns an HMAC that is itself a secret.
    package static func secretHMAC(_ hash: Hash, key: SecretBytes, _ message: [UInt8]) -> SecretBytes {
        SecretBytes(count: hash.size) { hmac(hash, key: key, message, into: $0) }
    }

    private static func hmac(
        _ hash: Hash, key: SecretBytes, _ message: [UInt8], into code: UnsafeMutableBufferPointer<UInt8>
    ) {
        let result = key.withBytes { key in
            HMAC(
                hash.function, key.baseAddress, Int32(key.count), message, message.count, code.baseAddress,
                nil)
        }
        precondition(result != nil, "OpenSSL offers no HMAC with \(hash.rawValue).")
    }

    /// Returns the PBKDF2 key with HMAC and an output of one digest: RFC 5802's `Hi(password, salt, iterations)`.
    package static func pbkdf2(_ hash: Hash, password: SecretBytes, salt: [UInt8], iterations: Int)
        -> SecretBytes
    {
        SecretBytes(count: hash.size) { key in
            let result = password.withBytes { password in
                PKCS5_PBKDF2_HMAC(
                    password.baseAddress, Int32(password.count), salt, Int32(salt.count),
                    Int32(clamping: iterations), hash.function, Int32(key.count), key.baseAddress)
            }
            precondition(result == 1, "OpenSSL offers no PBKDF2 with \(hash.rawValue).")
        }
    }

    /// Returns whether two byte strings are equal, in a time that does not depend on where they differ.
    package static func isEqual(_ one: [UInt8], _ other: [UInt8]) -> Bool {
        one.count == other.count && CRYPTO_memcmp(one, other, one.count) == 0
    }

    // MARK: - base64 (RFC 4648 section 4)

    /// Returns base64 with padding, without line breaks.
    package static func base64(_ bytes: some Collection<UInt8>) -> String {
        let bytes = Array(bytes)
        return String(unsafeUninitializedCapacity: (bytes.count + 2) / 3 * 4 + 1) { space in
            Int(EVP_EncodeBlock(space.baseAddress, bytes, Int32(bytes.count)))
        }
    }

    package static func bytes(base64 text: ForeignText) -> [UInt8]? { bytes(base64: Array(text.utf8)) }

    /// Decodes strictly: nil for white space, other characters, missing or wrong padding and for set bits
    /// that no byte holds, so that every byte string has exactly one text.
    package static func bytes(base64 input: some BidirectionalCollection<UInt8>) -> [UInt8]? {
        decoded(Array(input)).flatMap { base64($0).utf8.elementsEqual(input) ? $0 : nil }
    }

    /// Decodes what some clients write: white space is allowed anywhere, because they break lines. Nil for anything
    /// else that is not base64, and for more than 2^30 characters.
    package static func bytes(lenientBase64 text: ForeignText) -> [UInt8]? {
        var text = text.string
        return text.withUTF8 { text in
            decoded(text.contains { $0 <= 0x20 } ? text.filter { $0 > 0x20 } : Array(text))
        }
    }

    private static func decoded(_ characters: [UInt8]) -> [UInt8]? {
        guard characters.count % 4 == 0, characters.count < 1 << 30 else { return nil }
        let padding = characters.suffix(2).reversed().prefix { $0 == UInt8(ascii: "=") }.count
        // OpenSSL's function would take more padding, and ends at a dash.
        let hasEnd = characters.dropLast(padding).contains {
            $0 == UInt8(ascii: "=") || $0 == UInt8(ascii: "-")
        }
        guard !hasEnd else { return nil }
        let size = characters.count / 4 * 3
        var isValid = true
        let bytes = [UInt8](unsafeUninitializedCapacity: size) { space, count in
            isValid = EVP_DecodeBlock(space.baseAddress, characters, Int32(characters.count)) == Int32(size)
            count = isValid ? size - padding : 0
        }
        return isValid ? bytes : nil
    }
}
