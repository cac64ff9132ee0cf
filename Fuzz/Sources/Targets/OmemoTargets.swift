@testable import Omemo
import XMPPAccount
import XMPPCore

extension FuzzTarget {
    /// The XML of OMEMO: what is written of it reads as the same.
    static let omemo = FuzzTarget("omemo", dictionary: "xml") { bytes in
        let own = try JID(FuzzAccount.own)
        guard let device = OmemoDeviceID(rawValue: 7) else { return }
        for element in try Element.all(in: bytes, of: OmemoVersion.omemo2.namespace) {
            if let list = OmemoDeviceList(element) {
                let again = OmemoDeviceList(list.element)
                try require(
                    again?.element.canonical == list.element.canonical, "a device list reads as another one")
            }
            for version in OmemoVersion.allCases {
                guard let bundle = try? OmemoBundle(element, version) else { continue }
                let again = try? OmemoBundle(bundle.element, version)
                try require(again == bundle, "a bundle reads as another one")
            }
            _ = try? OmemoEnvelope.open(
                Serializer(standaloneIn: "").bytes(element), sender: own, recipient: own, isRoom: false)
            guard let encrypted = try? OmemoEncrypted.read(element, for: device, of: own) else { continue }
            let written = encrypted.element
            let again = try? OmemoEncrypted.read(written, for: device, of: own)
            try require(
                again?.element.canonical == written.canonical && again?.keys == encrypted.keys,
                "an encrypted message reads as another one")
            for key in encrypted.keys {
                guard let payload = encrypted.payload else { continue }
                _ = try? OmemoPayload.decrypt(
                    payload, keyMaterial: key.bytes, iv: encrypted.iv, encrypted.version)
            }
        }
    }

    /// Messages and stored records of the double ratchet, changed from good ones or made up: what a changed message says
    /// is never read as anything but what was written.
    static let omemoMessages = FuzzTarget("omemo-messages", .short, maximumLength: 512) { bytes in
        var directions = Bytes(bytes)
        let pairs = try OmemoPair.all.made()
        let pair = pairs[directions.number(below: pairs.count)]
        let kind = directions.byte()
        switch kind % 4 {
        case 0, 1:
            let good = pair.messages[Int(kind / 4) % pair.messages.count]
            let message = kind % 4 == 0 ? good.bytes.edited(by: &directions) : Array(directions.rest)
            try pair.decrypt(message, isKeyExchange: good.isKeyExchange)
        case 2: try pair.use(session: pair.session.edited(by: &directions))
        default: try pair.use(preKey: pair.preKey.edited(by: &directions))
        }
    }
}

/// A device with a session, and messages for it that it has not read.
private struct OmemoPair: Sendable {
    let version: OmemoVersion
    let own: OwnIdentity
    let session: [UInt8]
    let preKey: [UInt8]
    let signedPreKey: [UInt8]
    let messages: [(bytes: [UInt8], isKeyExchange: Bool)]

    private static let text = Array("Wherefore art thou?".utf8)

    static let all = Result { () throws in try OmemoVersion.allCases.map { try OmemoPair($0) } }

    /// Romeo starts, Juliet answers, and what Romeo then writes is kept with what he wrote first.
    init(_ version: OmemoVersion) throws {
        guard let one = OmemoDeviceID(rawValue: 1), let two = OmemoDeviceID(rawValue: 2) else {
            throw Finding("a device cannot have the number 1")
        }
        let (own, romeo) = (
            try SignalKeys.makeIdentity(device: one), try SignalKeys.makeIdentity(device: two)
        )
        self.version = version
        self.own = own
        preKey = try SignalKeys.makePreKey(id: 1, context: KeyContext())
        signedPreKey = try SignalKeys.makeSignedPreKey(id: 1, own: own, now: Timestamp(milliseconds: 1000))
        let his = SignalMemory(own: romeo)
        try SignalSession(version, his).start(with: Self.bundle(version, own, preKey, signedPreKey))
        let first = try SignalSession(version, his).encrypt(Self.text)
        let hers = Self.memory(own, nil, preKey, signedPreKey)
        _ = try SignalSession(version, hers).decrypt(first.bytes, isKeyExchange: true)
        let answer = try SignalSession(version, hers).encrypt(Self.text)
        _ = try SignalSession(version, his).decrypt(answer.bytes, isKeyExchange: false)
        let second = try SignalSession(version, his).encrypt(Self.text)
        session = hers.session ?? []
        messages = [first, second].map { ($0.bytes, $0.isKeyExchange) }
    }

    private static func bundle(
        _ version: OmemoVersion, _ own: OwnIdentity, _ preKey: [UInt8], _ signedPreKey: [UInt8]
    ) throws -> OmemoBundle {
        let signed = try SignalKeys.published(signedPreKey: signedPreKey, version)
        return OmemoBundle(
            version: version, identityKey: try own.key.wire(version),
            signedPreKey: .init(id: 1, key: signed.key), signature: signed.signature,
            preKeys: [.init(id: 1, key: try SignalKeys.published(preKey: preKey, version))])
    }

    private static func memory(
        _ own: OwnIdentity, _ session: [UInt8]?, _ preKey: [UInt8], _ signedPreKey: [UInt8]
    ) -> SignalMemory {
        let memory = SignalMemory(own: own, session: session)
        memory.preKeys = [1: preKey]
        memory.signedPreKeys = [1: signedPreKey]
        return memory
    }

    func decrypt(_ message: [UInt8], isKeyExchange: Bool) throws {
        for session in [session, nil] {
            let memory = Self.memory(own, session, preKey, signedPreKey)
            let signal = SignalSession(version, memory)
            if isKeyExchange { _ = try? signal.keyExchange(message) }
            guard let read = try? signal.decrypt(message, isKeyExchange: isKeyExchange) else { continue }
            try require(read.plaintext == Self.text, "a changed message says \(read.plaintext)")
        }
    }

    /// Works with a stored session as it may have been damaged.
    func use(session: [UInt8]) throws {
        if let record = try? SessionRecord(session) {
            _ = (record.identity, record.isUnanswered, record.canSend)
            _ = try? record.preferringOwn()
        }
        for message in messages {
            let memory = Self.memory(own, session, preKey, signedPreKey)
            _ = try? SignalSession(version, memory).decrypt(
                message.bytes, isKeyExchange: message.isKeyExchange)
            _ = try? SignalSession(version, memory).encrypt(Self.text)
        }
    }

    /// Works with a stored prekey as it may have been damaged.
    func use(preKey: [UInt8]) throws {
        _ = try? SignalKeys.published(preKey: preKey, version)
        _ = try? SignalKeys.published(signedPreKey: preKey, version)
        for (preKey, signed) in [(preKey, signedPreKey), (self.preKey, preKey)] {
            let memory = Self.memory(own, nil, preKey, signed)
            _ = try? SignalSession(version, memory).decrypt(messages[0].bytes, isKeyExchange: true)
        }
    }
}

extension SignalSession {
    fileprivate func start(with bundle: OmemoBundle) throws {
        try start(with: bundle, preKey: bundle.preKeys[0])
    }
}
