import Testing
import XMPPAccount
import XMPPCore

@testable import Omemo

extension World.Client {
    /// Encrypts bytes as they are, which the library's own sending would change or refuse.
    ///
    /// - Parameter key: Gets the key of the content.
    func message(
        _ plaintext: [UInt8], to other: World.Client, _ version: OmemoVersion,
        key: ([UInt8]) -> Void = { _ in }
    ) throws -> Element {
        var payload = try OmemoPayload.encrypt(plaintext, version)
        defer { payload.keyMaterial.wipe() }
        key(payload.keyMaterial)
        let peer = OmemoAddress(jid: other.jid.bare, device: try other.own.device, version: version)
        let message = try step { step in
            let own = try #require(try omemo.ownDevice.own(in: step))
            return OmemoEncrypted(
                version: version, sender: own.device,
                keys: [try omemo.encrypt(payload.keyMaterial, for: peer, own: own, in: step)],
                iv: payload.iv, payload: payload.ciphertext)
        }
        var stanza = OmemoService.stanza([message], to: other.jid.bare, id: StanzaID.random(), type: .chat)
            .element
        stanza["from"] = jid.foreignText
        return stanza
    }
}
