import FoundationEssentials
import Handlers
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import TestServers

@testable import Upload

extension UploadsOnServers {
    /// The upload services of Prosody and ejabberd, and a reader that shares no code with us.
    @Suite struct UploadOnServersTests {
        @Test("X27 slixmpp gets the link and reads the file behind it, whole", arguments: ServerKind.allCases)
        func sent(_ kind: ServerKind) async throws {
            try await withHome(kind) { home in
                let reader = try home.scene.peer(PackageResources.upload_peer_py)
                let account = try await home.connected()
                for (name, count) in [("a b.txt", 1), ("très cool.jpg", 65_537), ("large.bin", 5_000_000)] {
                    let (path, digest) = try home.file(name, count)
                    let file = UploadFile(path, type: count == 1 ? nil : "image/jpeg")
                    let events = account.events(of: UploadEvent.self)
                    let id = try await account.perform {
                        try account.uploads.send(file, to: reader.account, then: Noted().durable, in: $0)
                    }
                    var sizes: [Int64] = []
                    for await event in events where event.upload == id {
                        guard case .progress(let sent, let size) = event.change else { break }
                        #expect(size == Int64(count))
                        sizes.append(sent)
                    }
                    #expect(sizes == sizes.sorted(), "\(sizes)")
                    try await eventually("the link of \(name)") {
                        try reader.links().contains { $0.text.hasSuffix(Self.end(name)) }
                    }
                    let link = try #require(try reader.links().last)
                    #expect(link.attachment == link.text)
                    let read = try reader.read(link.text)
                    #expect(read.digest == digest && read.size == "\(count)", "\(name)")
                    #expect(try home.noted.last == "\(name) uploaded \(link.text)")
                }
                #expect(try reader.links().count == 3 && home.noted.count == 3)
            }
        }

        /// How servers write the end of an address.
        private static func end(_ name: String) -> String { String(name.suffix(4)) }

        @Test(
            "X27 an encrypted file is read by Python's cryptography with the key of the link, and by us",
            arguments: ServerKind.allCases)
        func encrypted(_ kind: ServerKind) async throws {
            try await withHome(kind) { home in
                let reader = try home.scene.peer(PackageResources.upload_peer_py)
                let account = try await home.connected()
                for count in [16, 1_000_003] {
                    let (path, digest) = try home.file("secret-\(count)", count)
                    let events = account.events(of: UploadEvent.self)
                    try await account.perform {
                        try account.uploads.upload(
                            UploadFile(path), encrypting: true, then: Noted().durable, in: $0)
                    }
                    var uploaded: UploadedFile?
                    for await event in events {
                        guard case .ended(let outcome) = event.change else { continue }
                        if case .uploaded(let file) = outcome { uploaded = file }
                        break
                    }
                    let file = try #require(uploaded)
                    let read = try reader.read(file.link.string)
                    #expect(read.digest == digest && read.size == "\(count)")
                    // What the server has is the ciphertext with the tag.
                    let stored = try reader.read(file.address.string)
                    #expect(stored.digest != digest && stored.size == "\(count + 16)")
                    let got = home.folder.path + "/got-\(count)"
                    #expect(try await account.uploads.fetch(file.link, to: got) == Int64(count))
                    #expect(try Data(contentsOf: URL(filePath: got)) == Data(contentsOf: URL(filePath: path)))
                    #expect(!home.log.holds(String(file.link.string.suffix(64))))
                }
                #expect(try reader.links().isEmpty)
            }
        }

        @Test("X27 a file above the service's limit fails with that limit", arguments: ServerKind.allCases)
        func tooLarge(_ kind: ServerKind) async throws {
            try await withHome(kind) { home in
                let account = try await home.connected()
                let (path, _) = try home.file("huge", largestUpload + 1)
                let events = account.events(of: UploadEvent.self)
                try await account.perform {
                    try account.uploads.send(UploadFile(path), to: home.jid, then: Noted().durable, in: $0)
                }
                for await event in events {
                    guard case .ended(.failed(let error)) = event.change else { continue }
                    #expect(error.code == .tooLarge && error.maximumSize == Int64(largestUpload))
                    break
                }
                #expect(try home.noted == ["huge failed too-large"])
                // The service itself says the same, when it was not asked before.
                let jid = try JID("upload.\(RealServers.domain)")
                let request = IQ(
                    type: .get, to: jid, id: "large",
                    payload: SlotRequest.element(
                        name: "huge", size: Int64(largestUpload) + 1, type: nil))
                do {
                    _ = try await account.request(.iq(request))
                    Issue.record("the service takes any size")
                } catch let error as StanzaError {
                    let iq = try IQ(
                        element: Element(
                            "iq", namespace: Namespaces.client, attributes: ["type": "error", "id": "large"],
                            children: [error.element]))
                    #expect(
                        SlotRequest.failure(error, in: iq, size: 1)?.maximumSize
                            == Int64(largestUpload))
                }
            }
        }

        @Test("X27 our AES-GCM encrypts as Python's cryptography does, and as the vectors of its authors say")
        func vectors() async throws {
            try await withHome(.prosody) { home in
                let reader = try home.scene.peer(PackageResources.upload_peer_py)
                for (key, iv, text) in Vectors.all.map({ ($0.key, $0.iv, $0.text) }) + Vectors.random {
                    let answer = try reader.ask(
                        "encrypt", ["key": key, "iv": iv, "text": text], as: String.self)
                    #expect(try Vectors.encrypt(key: key, iv: iv, text: text) == answer)
                }
            }
        }
    }
}
