import TestThreads
import Testing
import XMPPCore

@testable import Upload

@Suite(.ownThread) struct AesgcmLinkTests {
    private func encrypt(_ bytes: [UInt8], pieces size: Int) throws -> (AesgcmLink, [UInt8]) {
        let link = AesgcmLink(to: "https://upload.example/a/b.jpg?x=1")
        let cipher = try link.cipher(encrypting: true)
        var file: [UInt8] = []
        for start in stride(from: 0, to: bytes.count, by: size) {
            file += try cipher.update(Array(bytes[start..<min(start + size, bytes.count)]))
        }
        file += try cipher.finish()
        return (link, file)
    }

    private func decrypt(_ file: [UInt8], _ link: AesgcmLink, pieces size: Int) throws -> [UInt8] {
        var decryptor = try link.decrypting()
        var bytes: [UInt8] = []
        for start in stride(from: 0, to: file.count, by: size) {
            bytes += try decryptor.update(Array(file[start..<min(start + size, file.count)]))
        }
        try decryptor.finish()
        return bytes
    }

    @Test("X27 a file comes back whatever the pieces are, and its link can be read back")
    func roundTrip() throws {
        for count in [0, 1, 15, 16, 17, 100, 70_000] {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31) }
            for size in [1, 7, 16, 4096] where count < 1000 || size > 1000 {
                let (link, file) = try encrypt(bytes, pieces: size)
                #expect(file.count == count + 16)
                let read = try #require(AesgcmLink(link.text))
                #expect(read == link && read.address == "https://upload.example/a/b.jpg?x=1")
                #expect(try decrypt(file, read, pieces: size % 5 + 1 + size) == bytes)
            }
        }
    }

    @Test("X27 a file that was changed or cut is refused")
    func changed() throws {
        let (link, file) = try encrypt([UInt8](repeating: 5, count: 50), pieces: 50)
        for index in file.indices {
            var bad = file
            bad[index] ^= 1
            #expect(throws: UploadError.self) { try decrypt(bad, link, pieces: 20) }
            #expect(throws: UploadError.self) { try decrypt(Array(file.prefix(index)), link, pieces: 20) }
        }
    }

    @Test("X27 links of XEP-0454 are read, with an IV of 12 bytes or, as older clients have it, of 16")
    func forms() throws {
        let key = String(repeating: "aB", count: 32)
        for iv in [12, 16] {
            let text = "aesgcm://h.example/f#" + String(repeating: "01", count: iv) + key
            let link = try #require(AesgcmLink(text))
            #expect(link.text == text.lowercased())
            #expect(link.address == "https://h.example/f")
        }
        for text in [
            "", "aesgcm://", "aesgcm://h/f", "aesgcm://h/f#", "aesgcm://#" + key + key, "https://h/f#" + key,
            "aesgcm://h/f#" + key, "aesgcm://h/f#" + key + "012345678901234567890123zz",
            "aesgcm://h/f#" + String(repeating: "ab", count: 100_000),
        ] { #expect(AesgcmLink(text) == nil, "\(text.prefix(60))") }
    }

    @Test("X27 a link describes itself without its key")
    func description() throws {
        let link = AesgcmLink(to: "https://h.example/f")
        #expect("\(link)" == "https://h.example/f#•••")
        #expect(!"\(link)".contains(link.text.string.suffix(20)))
    }
}
