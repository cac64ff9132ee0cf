import Foundation
@testable import Omemo
import TestThreads
import Testing
import XMPPAccount
import XMPPTransport
import XMPPCore

@Suite(.ownThread) struct OmemoPayloadTests {
    @Test(
        "O1 a content comes back; a changed one, or one with another key, does not",
        arguments: OmemoVersion.allCases)
    func roundTrip(_ version: OmemoVersion) throws {
        for size in [0, 1, 15, 16, 17, 5000] {
            let text = [UInt8](repeating: 7, count: size)
            let encrypted = try OmemoPayload.encrypt(text, version)
            func decrypt(_ ciphertext: [UInt8], _ key: [UInt8], _ iv: [UInt8]?) throws -> [UInt8] {
                try OmemoPayload.decrypt(ciphertext, keyMaterial: key, iv: iv, version)
            }
            #expect(try decrypt(encrypted.ciphertext, encrypted.keyMaterial, encrypted.iv) == text)
            for index in stride(from: 0, to: encrypted.keyMaterial.count, by: 5) {
                var key = encrypted.keyMaterial
                key[index] ^= 1
                #expect(throws: OmemoError.self) { try decrypt(encrypted.ciphertext, key, encrypted.iv) }
            }
            #expect(throws: OmemoError.self) {
                try decrypt(encrypted.ciphertext + [0], encrypted.keyMaterial, encrypted.iv)
            }
            for count in [0, 15, 31, 47, 64] where count != encrypted.keyMaterial.count {
                let key = [UInt8](repeating: 1, count: count)
                #expect(throws: OmemoError.self) { try decrypt(encrypted.ciphertext, key, encrypted.iv) }
            }
        }
    }

    @Test("O1 the sizes of keys are those of the two versions, and no key is used twice")
    func sizes() throws {
        let legacy = try OmemoPayload.encrypt([1, 2, 3], .legacy)
        #expect(legacy.keyMaterial.count == 32 && legacy.iv?.count == 12 && legacy.ciphertext.count == 3)
        let current = try OmemoPayload.encrypt([1, 2, 3], .omemo2)
        #expect(current.keyMaterial.count == 48 && current.iv == nil && current.ciphertext.count == 16)
        #expect(try OmemoPayload.encrypt([1, 2, 3], .legacy).keyMaterial != legacy.keyMaterial)
        #expect(OmemoPayload.emptyKeyMaterial(.omemo2) == [UInt8](repeating: 0, count: 32))
    }

    @Test("O1 the oldest clients leave the tag at the content, and a legacy IV may have 16 bytes")
    func oldForms() throws {
        let (key, iv) = (Crypto.randomBytes(16), Crypto.randomBytes(16))
        let cipher = try AESGCM(encrypting: true, key: key, iv: iv)
        let text = try cipher.update(Array("Hi".utf8))
        let tag = try cipher.finish()
        #expect(try OmemoPayload.decrypt(text + tag, keyMaterial: key, iv: iv, .legacy) == Array("Hi".utf8))
        #expect(try OmemoPayload.decrypt(text, keyMaterial: key + tag, iv: iv, .legacy) == Array("Hi".utf8))
        #expect(throws: OmemoError.self) {
            try OmemoPayload.decrypt(text, keyMaterial: key + tag, iv: nil, .legacy)
        }
        #expect(throws: OmemoError.self) { try OmemoPayload.decrypt(text, keyMaterial: key, iv: iv, .legacy) }
    }

    @Test("O1 Base64 takes white space and nothing else that is wrong")
    func base64() {
        for count in 0..<70 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 37) }
            #expect(Crypto.base64(bytes) == Data(bytes).base64EncodedString())
            #expect(Crypto.bytes(lenientBase64: ForeignText(Crypto.base64(bytes))) == bytes)
        }
        #expect(Crypto.bytes(lenientBase64: " AQ\nI=\t") == [1, 2])
        for text in ["A", "AA=A", "A===", "====", "AAA-", "AAA.", "AAAA=", "äAAA"] {
            #expect(Crypto.bytes(lenientBase64: ForeignText(text)) == nil, "\(text)")
        }
    }
}

@Suite(.ownThread) struct OmemoEnvelopeTests {
    private let juliet: JID
    private let romeo: JID
    private let room: JID

    init() throws {
        (juliet, romeo) = (try JID("juliet@capulet.lit/balcony"), try JID("romeo@montague.lit/orchard"))
        room = try JID("garden@rooms.lit")
    }

    @Test("O1 an envelope binds the content to its sender, and in a room to the room")
    func affixes() throws {
        let content = OmemoContent(
            body: "Hi <you> & me",
            elements: [Element("active", namespace: "http://jabber.org/protocol/chatstates")])
        let private1 = OmemoEnvelope.bytes(content, from: juliet, room: nil)
        #expect(try OmemoEnvelope.open(private1, sender: juliet, recipient: romeo, isRoom: false) == content)
        #expect(throws: OmemoError.self) {
            try OmemoEnvelope.open(private1, sender: romeo, recipient: romeo, isRoom: false)
        }
        #expect(throws: OmemoError.self) {
            try OmemoEnvelope.open(private1, sender: juliet, recipient: room, isRoom: true)
        }
        let inRoom = OmemoEnvelope.bytes(content, from: juliet, room: room)
        #expect(try OmemoEnvelope.open(inRoom, sender: juliet, recipient: room, isRoom: true) == content)
        // The server must not turn it into a private message, or carry it to another room.
        #expect(throws: OmemoError.self) {
            try OmemoEnvelope.open(inRoom, sender: juliet, recipient: romeo, isRoom: false)
        }
        #expect(throws: OmemoError.self) {
            try OmemoEnvelope.open(inRoom, sender: juliet, recipient: JID("other@rooms.lit"), isRoom: true)
        }
    }

    @Test("O1 the padding has a length of its own, which may be none")
    func padding() throws {
        let content = OmemoContent(body: "Hi")
        let sizes = (0...OmemoEnvelope.maximumPadding).map {
            OmemoEnvelope.bytes(content, from: juliet, room: nil, padding: $0).count
        }
        #expect(Set(sizes).count >= OmemoEnvelope.maximumPadding)
        #expect((sizes.max() ?? 0) - (sizes.min() ?? 0) >= OmemoEnvelope.maximumPadding)
    }

    @Test("O1 what only a server may say is left out of the content")
    func barred() throws {
        let barred = """
            <store xmlns='urn:xmpp:hints'/><stanza-id xmlns='urn:xmpp:sid:0' id='1' by='juliet@capulet.lit'/>\
            <addresses xmlns='http://jabber.org/protocol/address'/><delay xmlns='urn:xmpp:delay' stamp='1'/>
            """
        let text = """
            <envelope xmlns='urn:xmpp:sce:1'><content><body xmlns='jabber:client'>Hi</body>\(barred)</content>\
            <rpad/><from jid='juliet@capulet.lit'/></envelope>
            """
        #expect(
            try OmemoEnvelope.open(Array(text.utf8), sender: juliet, recipient: romeo, isRoom: false)
                == OmemoContent(body: "Hi"))
    }

    @Test(
        "O1 what is no envelope is refused",
        arguments: [
            "", "Hi", "<envelope/>", "<envelope xmlns='urn:xmpp:sce:1'/>",
            "<envelope xmlns='urn:xmpp:sce:1'><content/></envelope>",
            "<envelope xmlns='urn:xmpp:sce:1'><content/><rpad/></envelope><envelope/>",
            "<envelope xmlns='urn:xmpp:sce:1'><content/><rpad/><from jid='@'/></envelope>",
        ])
    func malformed(_ text: String) {
        #expect(throws: OmemoError.self) {
            try OmemoEnvelope.open(Array(text.utf8), sender: juliet, recipient: romeo, isRoom: false)
        }
        #expect(throws: OmemoError.self) {
            try OmemoEnvelope.open([0xFF, 0xFE], sender: juliet, recipient: romeo, isRoom: false)
        }
    }

    @Test(
        "O1 what one envelope leaves open is no part of the next one of the step",
        arguments: [
            "WHOLE<", "WHOLE<!--", "WHOLE</stream:stream>", "WHOLEWHOLE", "WHOLE x", "<envelope><content>",
            "<envelope xmlns='urn:xmpp:sce:1'><content/><rpad/>", "<a b='", "<a/", "<a></b>", "<a>&b;</a>",
            "</a>", "<!DOCTYPE a>", "", " ",
        ])
    func leftOpen(_ text: String) throws {
        let (content, parser) = (OmemoContent(body: "Hi"), EnvelopeParser())
        let whole = OmemoEnvelope.bytes(content, from: juliet, room: nil)
        func open(_ bytes: [UInt8]) throws(OmemoError) -> OmemoContent {
            try OmemoEnvelope.open(
                bytes, sender: juliet, recipient: romeo, isRoom: false, with: parser)
        }
        #expect(try open(whole) == content)
        let broken = text.replacing("WHOLE", with: String(decoding: whole, as: UTF8.self))
        #expect(throws: OmemoError.self) { try open(Array(broken.utf8)) }
        #expect(try open(whole + Array(" \n".utf8)) == content)
        #expect(try open(whole) == content)
    }
}

@Suite(.ownThread) struct OmemoEncryptedTests {
    private func id(_ number: UInt32) throws -> OmemoDeviceID {
        try #require(OmemoDeviceID(rawValue: number))
    }

    @Test(
        "O1 a message comes back with the keys for one device, in the forms of both versions",
        arguments: OmemoVersion.allCases)
    func roundTrip(_ version: OmemoVersion) throws {
        let (juliet, romeo) = (try JID("juliet@capulet.lit"), try JID("romeo@montague.lit"))
        let keys: [OmemoEncrypted.Key] = [
            .init(jid: juliet, device: try id(31), isKeyExchange: true, bytes: [1]),
            .init(jid: romeo, device: try id(32), isKeyExchange: false, bytes: [2]),
            .init(jid: juliet, device: try id(32), isKeyExchange: false, bytes: [3]),
        ]
        let message = OmemoEncrypted(
            version: version, sender: try id(5), keys: keys, iv: version == .legacy ? [9] : nil,
            payload: [7, 8])
        let element = try Element(parsing: message.element.serialized())
        let read = try #require(try OmemoEncrypted.read(element, for: id(32), of: juliet))
        #expect(read.sender == message.sender && read.iv == message.iv && read.payload == [7, 8])
        // The legacy version does not say whose device is meant.
        #expect(read.keys.map(\.bytes) == (version == .legacy ? [[2], [3]] : [[3]]))
        #expect(try OmemoEncrypted.read(element, for: id(33), of: juliet)?.keys == [])
    }

    @Test("O1 elements and attributes are named as the two versions of the XEP name them")
    func names() throws {
        let juliet = try JID("juliet@capulet.lit")
        let key = OmemoEncrypted.Key(jid: juliet, device: try id(31), isKeyExchange: true, bytes: [1])
        let legacy = OmemoEncrypted(version: .legacy, sender: try id(5), keys: [key], iv: [2], payload: nil)
        #expect(
            legacy.element.serialized()
                == "<encrypted xmlns='eu.siacs.conversations.axolotl'><header sid='5'><key rid='31' prekey='true'>AQ==</key><iv>Ag==</iv></header></encrypted>"
        )
        let current = OmemoEncrypted(version: .omemo2, sender: try id(5), keys: [key], iv: nil, payload: [3])
        #expect(
            current.element.serialized()
                == "<encrypted xmlns='urn:xmpp:omemo:2'><header sid='5'><keys jid='juliet@capulet.lit'><key rid='31' kex='true'>AQ==</key></keys></header><payload>Aw==</payload></encrypted>"
        )
    }

    @Test(
        "O5 a malformed message is refused",
        arguments: [
            "<encrypted xmlns='urn:xmpp:omemo:2'/>",
            "<encrypted xmlns='urn:xmpp:omemo:2'><header/></encrypted>",
            "<encrypted xmlns='urn:xmpp:omemo:2'><header sid='0'/></encrypted>",
            "<encrypted xmlns='urn:xmpp:omemo:2'><header sid='1'/><payload>!</payload></encrypted>",
            "<encrypted xmlns='eu.siacs.conversations.axolotl'><header sid='1'><key rid='31'/></header></encrypted>",
            "<encrypted xmlns='eu.siacs.conversations.axolotl'><header sid='1'><iv>A</iv></header></encrypted>",
        ])
    func malformed(_ text: String) throws {
        let (device, own) = (try id(31), try JID("juliet@capulet.lit"))
        #expect(throws: OmemoError.self) {
            try OmemoEncrypted.read(Element(parsing: text), for: device, of: own)
        }
    }

    @Test("O5 a key of more than 4096 bytes is not looked at")
    func large() throws {
        let (device, own) = (try id(31), try JID("juliet@capulet.lit"))
        let key = OmemoEncrypted.Key(
            jid: own, device: device, isKeyExchange: true, bytes: [UInt8](repeating: 1, count: 4097))
        let message = OmemoEncrypted(version: .omemo2, sender: device, keys: [key], iv: nil, payload: nil)
        #expect(throws: OmemoError.self) { try OmemoEncrypted.read(message.element, for: device, of: own) }
    }
}
