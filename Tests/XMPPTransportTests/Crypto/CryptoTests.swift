import TestThreads
import Testing
import XMPPCore
import XMPPTransport

@Suite(.ownThread) struct CryptoTests {
    /// RFC 4648 section 10.
    static let base64Vectors = [
        ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ]

    @Test("X6 base64 agrees with RFC 4648", arguments: base64Vectors)
    func base64(plain: String, encoded: String) {
        #expect(Crypto.base64(Array(plain.utf8)) == encoded)
        #expect(Crypto.bytes(base64: ForeignText(encoded)) == Array(plain.utf8))
    }

    @Test("X6 base64 comes back for every byte and length")
    func base64RoundTrip() {
        let all = (0...255).map { UInt8($0) }
        for length in 0...all.count {
            let bytes = Array(all.suffix(length))
            #expect(Crypto.bytes(base64: ForeignText(Crypto.base64(bytes))) == bytes)
        }
    }

    @Test(
        "X6 base64 that breaks the rules is refused",
        arguments: [
            "Z", "Zg", "Zg=", "Zg===", "Zm9vYg=", "Zh==", "Zm9=", "Zg= =", " Zg==", "Zg==\n", "Zm9-",
            "Zm9_", "====",
            "=Zg=", "Z===", "Zg==Zg==", "Zé==",
        ])
    func base64Refused(text: String) {
        #expect(Crypto.bytes(base64: ForeignText(text)) == nil)
    }

    @Test("X6 the hashes agree with FIPS 180-4's example")
    func digests() {
        let sizes = Crypto.Hash.allCases.map { Crypto.digest($0, "abc".utf8).count }
        #expect(sizes == [20, 32, 64])
        #expect(Crypto.base64(Crypto.digest(.sha1, "abc".utf8)) == "qZk+NkcGgWq6PiVxeFDCbJzQ2J0=")
        #expect(
            Crypto.base64(Crypto.digest(.sha256, "abc".utf8))
                == "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=")
    }

    @Test("X6 comparing in constant time still compares")
    func equality() {
        #expect(Crypto.isEqual([1, 2, 3], [1, 2, 3]))
        #expect(!Crypto.isEqual([1, 2, 3], [1, 2, 4]))
        #expect(!Crypto.isEqual([1, 2, 3], [1, 2]))
        #expect(Crypto.isEqual([], []))
    }

    @Test("X6 random bytes do not repeat")
    func randomness() {
        #expect(Set((0..<100).map { _ in Crypto.randomBytes(16) }).count == 100)
    }

    @Test("X16 a secret prints as dots")
    func secretIsMasked() {
        let secret = SecretBytes("hunter2")
        var dumped = ""
        dump(secret, to: &dumped)
        #expect(!"\(secret) \(String(reflecting: secret)) \(dumped)".contains("hunter2"))
        #expect(!dumped.contains("memory"))
        #expect(secret.withBytes { Array($0) } == Array("hunter2".utf8))
    }
}
