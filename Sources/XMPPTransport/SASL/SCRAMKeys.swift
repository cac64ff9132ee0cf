/// The keys of a password for one salt and iteration count (RFC 5802 section 3).
///
/// A client may keep it instead of deriving it again at every login; it is as secret as the password on this
/// server.
package struct SCRAMKeys: Sendable {
    package let hash: Crypto.Hash
    package let salt: [UInt8]
    package let iterations: Int
    package let clientKey: SecretBytes
    package let serverKey: SecretBytes

    /// - Parameter password: Prepared, see ``SASLprep``.
    package init(hash: Crypto.Hash, password: SecretBytes, salt: [UInt8], iterations: Int) {
        let salted = Crypto.pbkdf2(hash, password: password, salt: salt, iterations: iterations)
        self.hash = hash
        self.salt = salt
        self.iterations = iterations
        clientKey = Crypto.secretHMAC(hash, key: salted, Array("Client Key".utf8))
        serverKey = Crypto.secretHMAC(hash, key: salted, Array("Server Key".utf8))
    }

    package var storedKey: [UInt8] { clientKey.withBytes { Crypto.digest(hash, $0) } }

    /// ClientProof: ClientKey XOR ClientSignature.
    func proof(for authMessage: [UInt8]) -> [UInt8] {
        let signature = Crypto.hmac(hash, key: SecretBytes(storedKey), authMessage)
        return clientKey.withBytes { key in zip(key, signature).map { $0 ^ $1 } }
    }

    func serverSignature(for authMessage: [UInt8]) -> [UInt8] {
        Crypto.hmac(hash, key: serverKey, authMessage)
    }
}
