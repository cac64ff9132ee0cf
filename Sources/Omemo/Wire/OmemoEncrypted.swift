import XMPPCore
import XMPPTransport

/// `<encrypted/>`: the content, encrypted once, and its key for each device.
///
/// Source: XEP-0384 sections 4.4 and 5.5; for the legacy version sections 4.5 and 4.6 of its version 0.3.
struct OmemoEncrypted: Hashable, Sendable {
    struct Key: Hashable, Sendable {
        /// The owner of the device; not sent in the legacy version.
        let jid: JID?
        let device: OmemoDeviceID
        let isKeyExchange: Bool
        let bytes: [UInt8]
    }

    let version: OmemoVersion
    let sender: OmemoDeviceID
    var keys: [Key]
    /// Legacy only.
    let iv: [UInt8]?
    /// Nil in a message that only carries keys.
    let payload: [UInt8]?

    /// The maximum number of keys in an accepted message.
    static let maximumKeys = 20_000
    /// The largest key element that is looked at, in bytes. A key exchange has some 250.
    static let maximumKeyBytes = 4096
    /// The maximum number of keys in a message for one device: in the legacy version devices of several users may have the same
    /// number, and each key that is tried costs time.
    static let maximumKeysForDevice = 8
}

extension OmemoEncrypted {
    /// Reads `<encrypted/>`, of its keys only those for one device.
    ///
    /// - Parameters:
    ///   - device: The own device.
    ///   - own: The own bare address.
    /// - Returns: Nil when the element is none of OMEMO.
    /// - Throws: ``OmemoError`` `malformed`.
    static func read(_ element: Element, for device: OmemoDeviceID, of own: JID) throws(OmemoError)
        -> OmemoEncrypted?
    {
        let version = OmemoVersion.allCases.first { element.has(name: "encrypted", namespace: $0.namespace) }
        guard let version else { return nil }
        let namespace = version.namespace
        guard let header = element.child("header", namespace), let sender = OmemoDeviceID(header["sid"])
        else { throw OmemoError(.malformed, "the message does not say which device sent it") }
        var keys: [Key] = []
        switch version {
        case .legacy:
            for key in header.children("key", namespace).prefix(maximumKeys)
            where OmemoDeviceID(key["rid"]) == device {
                keys.append(try Key(key, flag: "prekey", jid: nil, device))
            }
        case .omemo2:
            for list in header.children("keys", namespace).prefix(maximumKeys) where jid(list) == own {
                for key in list.children("key", namespace) where OmemoDeviceID(key["rid"]) == device {
                    keys.append(try Key(key, flag: "kex", jid: own, device))
                }
            }
        }
        guard keys.count <= maximumKeysForDevice else {
            throw OmemoError(.malformed, "the message has \(keys.count) keys for this device")
        }
        return OmemoEncrypted(
            version: version, sender: sender, keys: keys, iv: try bytes(header.child("iv", namespace)),
            payload: try bytes(element.child("payload", namespace)))
    }

    private static func jid(_ element: Element) -> JID? {
        element["jid"].flatMap { try? JID(received: $0) }?.bare
    }

    private static func bytes(_ element: Element?) throws(OmemoError) -> [UInt8]? {
        guard let element else { return nil }
        guard let bytes = Crypto.bytes(lenientBase64: element.text) else {
            throw OmemoError(.malformed, "<\(element.name)/> is not written in Base64")
        }
        return bytes
    }

    /// The element, with the keys grouped by user in their order.
    var element: Element {
        let namespace = version.namespace
        var header = Element("header", namespace: namespace, attributes: ["sid": sender.description])
        switch version {
        case .legacy:
            for key in keys { header.append(key.element(flag: "prekey", namespace)) }
            if let iv { header.append(Element("iv", namespace: namespace, text: Crypto.base64(iv))) }
        case .omemo2:
            for list in groups { header.append(list) }
        }
        var encrypted = Element("encrypted", namespace: namespace, children: [header])
        if let payload {
            encrypted.append(Element("payload", namespace: namespace, text: Crypto.base64(payload)))
        }
        return encrypted
    }

    private var groups: [Element] {
        var order: [JID?] = []
        var groups: [JID?: Element] = [:]
        for key in keys {
            if groups[key.jid] == nil {
                order.append(key.jid)
                groups[key.jid] = Element(
                    "keys", namespace: version.namespace, attributes: ["jid": key.jid?.description])
            }
            groups[key.jid]?.append(key.element(flag: "kex", version.namespace))
        }
        return order.compactMap { groups[$0] }
    }
}

extension OmemoEncrypted.Key {
    fileprivate init(_ element: Element, flag: String, jid: JID?, _ device: OmemoDeviceID) throws(OmemoError)
    {
        guard let bytes = Crypto.bytes(lenientBase64: element.text), !bytes.isEmpty,
            bytes.count <= OmemoEncrypted.maximumKeyBytes
        else {
            throw OmemoError(
                .malformed, "the key for this device is missing, too long or not written in Base64")
        }
        let isKeyExchange = try? element.value(of: flag, as: Bool.self)
        self.init(jid: jid, device: device, isKeyExchange: isKeyExchange == true, bytes: bytes)
    }

    fileprivate func element(flag: String, _ namespace: String) -> Element {
        Element(
            "key", namespace: namespace,
            attributes: ["rid": device.description, flag: isKeyExchange ? "true" : nil],
            text: Crypto.base64(bytes))
    }
}
