@testable import Omemo
import Handlers
import Testing

/// A device without account and store: identity, keys and one session.
final class Device {
    let own: OwnIdentity
    private var preKeys: [UInt32: [UInt8]] = [:]
    private var signedPreKeys: [UInt32: [UInt8]] = [:]
    var session: [UInt8]?

    init(_ number: UInt32) throws {
        own = try SignalKeys.makeIdentity(device: #require(OmemoDeviceID(rawValue: number)))
        let context = try KeyContext()
        for id in UInt32(1)...3 { preKeys[id] = try SignalKeys.makePreKey(id: id, context: context) }
        signedPreKeys[1] = try SignalKeys.makeSignedPreKey(
            id: 1, own: own, now: Timestamp(milliseconds: 1000))
    }

    func bundle(_ version: OmemoVersion) throws -> OmemoBundle {
        let signed = try SignalKeys.published(signedPreKey: signedPreKeys[1] ?? [], version)
        let keys = try preKeys.sorted { $0.key < $1.key }.map { id, record in
            OmemoBundle.PreKey(id: id, key: try SignalKeys.published(preKey: record, version))
        }
        return OmemoBundle(
            version: version, identityKey: try own.key.wire(version),
            signedPreKey: .init(id: 1, key: signed.key),
            signature: signed.signature, preKeys: keys)
    }

    private func perform<R>(_ version: OmemoVersion, _ body: (SignalSession) throws -> R) throws -> R {
        let memory = SignalMemory(own: own, session: session)
        memory.preKeys = preKeys
        memory.signedPreKeys = signedPreKeys
        let result = try body(SignalSession(version, memory))
        session = memory.session
        for id in memory.usedPreKeys { preKeys[id] = nil }
        return result
    }

    var preKeyIDs: [UInt32] { preKeys.keys.sorted() }

    func start(with bundle: OmemoBundle, preKey index: Int = 0) throws {
        try perform(bundle.version) { try $0.start(with: bundle, preKey: bundle.preKeys[index]) }
    }

    func encrypt(_ text: String, _ version: OmemoVersion) throws -> SignalSession.Encrypted {
        try perform(version) { try $0.encrypt(Array(text.utf8)) }
    }

    func decrypt(_ message: SignalSession.Encrypted, _ version: OmemoVersion) throws -> String {
        try perform(version) { session in
            let decrypted = try session.decrypt(message.bytes, isKeyExchange: message.isKeyExchange)
            return String(decoding: decrypted.plaintext, as: UTF8.self)
        }
    }
}
