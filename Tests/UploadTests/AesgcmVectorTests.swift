import TestThreads
import Testing
import XMPPAccount
import XMPPTransport
import XMPPCore

@testable import Upload

/// AES-256-GCM with an IV of 12 bytes and no additional data, in hexadecimal digits.
enum Vectors {
    struct Vector {
        var key: String
        var iv: String
        var text: String
        /// The ciphertext with the tag.
        var result: String
    }

    /// McGrew and Viega, The Galois/Counter Mode of Operation, appendix B, test cases 13 to 15. XEP-0454 has no vectors of
    /// files, and names the same cipher.
    static let all = [
        Vector(
            key: String(repeating: "0", count: 64), iv: String(repeating: "0", count: 24), text: "",
            result: "530f8afbc74536b9a963b4f1c4cb738b"),
        Vector(
            key: String(repeating: "0", count: 64), iv: String(repeating: "0", count: 24),
            text: String(repeating: "0", count: 32),
            result: "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919"),
        Vector(
            key: "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
            iv: "cafebabefacedbaddecaf888",
            text:
                "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255",
            result:
                "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015adb094dac5d93471bdec1a502270e3cc6c"
        ),
    ]

    /// Keys, IVs and texts of many lengths, different in each run.
    static var random: [(key: String, iv: String, text: String)] {
        [0, 1, 15, 16, 17, 31, 1000, 4097].map { count in
            (
                hexadecimal(Crypto.randomBytes(32)), hexadecimal(Crypto.randomBytes(12)),
                hexadecimal(Crypto.randomBytes(count))
            )
        }
    }

    static func hexadecimal(_ bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    static func bytes(_ text: String) throws -> [UInt8] {
        let digits = Array(text)
        return try stride(from: 0, to: digits.count, by: 2).map {
            try #require(UInt8(String(digits[$0...($0 + 1)]), radix: 16))
        }
    }

    /// Encrypts with the key and IV of a link, as a file is.
    static func encrypt(key: String, iv: String, text: String) throws -> String {
        let link = try #require(AesgcmLink("aesgcm://h/f#\(iv)\(key)"))
        let cipher = try link.cipher(encrypting: true)
        let bytes = try bytes(text)
        let pieces = [bytes.prefix(5), bytes.dropFirst(5)]
        return hexadecimal(try pieces.flatMap { try cipher.update($0) } + cipher.finish())
    }
}

@Suite(.ownThread) struct AesgcmVectorTests {
    @Test(
        "X27 the address, IV and key of XEP-0454, section 3, make the link that stands there, and are read from it"
    )
    func link() throws {
        let address =
            "https://download.montague.tld/4a771ac1-f0b2-4a4a-9700-f2a26fa2bb67/tr%C3%A8s%20cool.jpg"
        let iv = "8c3d050e9386ec173861778f"
        let key = "68e9af38a97aaf82faa4063b4d0878a61261534410c8a84331eaac851759f587"
        let text =
            "aesgcm://download.montague.tld/4a771ac1-f0b2-4a4a-9700-f2a26fa2bb67/tr%C3%A8s%20cool.jpg#8c3d050e9386ec173861778f68e9af38a97aaf82faa4063b4d0878a61261534410c8a84331eaac851759f587"
        let link = try #require(AesgcmLink(text))
        #expect(link.address == address && link.text == text)
        // The IV comes first: with key and IV the other way round, the ciphertext is another one.
        let expected = try AESGCM(encrypting: true, key: Vectors.bytes(key), iv: Vectors.bytes(iv))
        let cipher = try link.cipher(encrypting: true)
        #expect(
            try cipher.update([1, 2, 3]) + cipher.finish() == expected.update([1, 2, 3]) + expected.finish())
    }

    @Test("X27 the test cases of GCM's authors for keys of 32 bytes hold, and their texts come back")
    func vectors() throws {
        for vector in Vectors.all {
            #expect(try Vectors.encrypt(key: vector.key, iv: vector.iv, text: vector.text) == vector.result)
            let link = try #require(AesgcmLink("aesgcm://h/f#\(vector.iv)\(vector.key)"))
            var decryptor = try link.decrypting()
            let text = try decryptor.update(try Vectors.bytes(vector.result))
            try decryptor.finish()
            #expect(Vectors.hexadecimal(text) == vector.text)
        }
    }

    @Test("X27 new links have an IV of 12 bytes and a key of 32 that no other link has")
    func fresh() {
        let links = (0..<100).map { _ in AesgcmLink(to: "https://h/f").text.string }
        #expect(Set(links.map { $0.suffix(64) }).count == 100)
        #expect(Set(links.map { $0.suffix(88).prefix(24) }).count == 100)
        #expect(links.allSatisfy { $0.utf8.count == "aesgcm://h/f#".utf8.count + 88 })
    }
}
