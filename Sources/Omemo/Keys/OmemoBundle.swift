import XMPPCore
import XMPPTransport

/// The public keys of a device: what another needs to begin a session with it.
///
/// Source: XEP-0384 section 5.3.2; for the legacy version section 4.3 of its version 0.3.
struct OmemoBundle: Hashable, Sendable {
    struct PreKey: Hashable, Sendable {
        let id: UInt32
        /// The public key in the form of the version.
        let key: [UInt8]
    }

    let version: OmemoVersion
    /// The identity key in the form of the version.
    let identityKey: [UInt8]
    let signedPreKey: PreKey
    /// The signature of the signed prekey, 64 bytes.
    let signature: [UInt8]
    let preKeys: [PreKey]

    /// The maximum number of prekeys read from a bundle.
    static let maximumPreKeys = 1000
    /// The largest id of a key: 2^31 - 1; the legacy version's libraries use up to 2^24 - 2 for prekeys.
    static let maximumID = UInt32(Int32.max)
}

extension OmemoBundle {
    /// Reads `<bundle/>`.
    ///
    /// Prekeys that cannot be read are passed over; those with an id twice count once.
    ///
    /// - Throws: ``OmemoError`` `malformed` when a part is missing or has the wrong size.
    init(_ element: Element, _ version: OmemoVersion) throws(OmemoError) {
        let names = Names(version)
        guard element.has(name: "bundle", namespace: version.namespace) else {
            throw OmemoError(.malformed, "the item holds no bundle")
        }
        func child(_ name: String) throws(OmemoError) -> Element {
            guard let child = element.child(name, version.namespace) else {
                throw OmemoError(.malformed, "the bundle has no <\(name)/>")
            }
            return child
        }
        let list = try child("prekeys").children(names.preKey, version.namespace)
        let size = version == .legacy ? 33 : 32
        var ids: Set<UInt32> = []
        var preKeys: [PreKey] = []
        for entry in list.prefix(Self.maximumPreKeys) {
            guard let key = PreKey(entry, names.preKeyID, size: size), ids.insert(key.id).inserted else {
                continue
            }
            preKeys.append(key)
        }
        guard let identityKey = Crypto.bytes(lenientBase64: try child(names.identityKey).text),
            identityKey.count == size,
            let signature = Crypto.bytes(lenientBase64: try child(names.signature).text),
            signature.count == 64,
            let signedPreKey = PreKey(try child(names.signedPreKey), names.signedPreKeyID, size: size),
            !preKeys.isEmpty
        else { throw OmemoError(.malformed, "a key of the bundle is missing or has the wrong size") }
        self.init(
            version: version, identityKey: identityKey, signedPreKey: signedPreKey, signature: signature,
            preKeys: preKeys)
    }

    /// `<bundle/>`, the payload of its item.
    var element: Element {
        let names = Names(version)
        let namespace = version.namespace
        func make(
            _ name: String, _ bytes: [UInt8],
            _ attributes: KeyValuePairs<String, (any TextConvertible)?> = [:]
        )
            -> Element
        {
            Element(name, namespace: namespace, attributes: attributes, text: Crypto.base64(bytes))
        }
        let keys = preKeys.map { make(names.preKey, $0.key, [names.preKeyID: String($0.id)]) }
        return Element(
            "bundle", namespace: namespace,
            children: [
                make(names.signedPreKey, signedPreKey.key, [names.signedPreKeyID: String(signedPreKey.id)]),
                make(names.signature, signature), make(names.identityKey, identityKey),
                Element("prekeys", namespace: namespace, children: keys),
            ])
    }

    /// The names of the parts in the two versions.
    private struct Names {
        let signedPreKey, signedPreKeyID, signature, identityKey, preKey, preKeyID: String

        init(_ version: OmemoVersion) {
            switch version {
            case .legacy:
                (signedPreKey, signedPreKeyID) = ("signedPreKeyPublic", "signedPreKeyId")
                (signature, identityKey) = ("signedPreKeySignature", "identityKey")
                (preKey, preKeyID) = ("preKeyPublic", "preKeyId")
            case .omemo2:
                (signedPreKey, signedPreKeyID) = ("spk", "id")
                (signature, identityKey) = ("spks", "ik")
                (preKey, preKeyID) = ("pk", "id")
            }
        }
    }
}

extension OmemoBundle.PreKey {
    fileprivate init?(_ element: Element, _ idName: String, size: Int) {
        // Legacy clients number from 0.
        guard let id = element[idName].flatMap({ UInt32($0) }), id <= OmemoBundle.maximumID,
            let key = Crypto.bytes(lenientBase64: element.text), key.count == size
        else { return nil }
        self.init(id: id, key: key)
    }
}
