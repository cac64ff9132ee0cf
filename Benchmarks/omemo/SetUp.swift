import COmemo
import Handlers
@testable import Omemo
import XMPPAccount
import XMPPCore

/// Starting sessions with a hundred devices of one user, beside the sum of the primitives that this takes.
struct SetUp {
    static let devices: UInt32 = 100
    private let bundles: [(device: OmemoDeviceID, bundle: OmemoBundle)]
    private let elements: [(device: OmemoDeviceID, element: Element)]
    private let user: JID

    init() throws {
        user = try JID("many@bench.example")
        let context = try KeyContext()
        bundles = try (1...Self.devices).compactMap { number in
            guard let device = OmemoDeviceID(rawValue: number) else { return nil }
            let own = try SignalKeys.makeIdentity(device: device)
            let signed = try SignalKeys.published(
                signedPreKey: SignalKeys.makeSignedPreKey(id: 1, own: own, now: Timestamp(milliseconds: 0)),
                .omemo2)
            let preKeys = try (UInt32(1)...100).map { id in
                OmemoBundle.PreKey(
                    id: id,
                    key: try SignalKeys.published(
                        preKey: SignalKeys.makePreKey(id: id, context: context), .omemo2))
            }
            let bundle = OmemoBundle(
                version: .omemo2, identityKey: try own.key.wire(.omemo2),
                signedPreKey: .init(id: 1, key: signed.key), signature: signed.signature, preKeys: preKeys)
            return (device, bundle)
        }
        elements = bundles.map { ($0.device, $0.bundle.element) }
    }

    /// Everything between the bundles' arrival and the first message in the outbox: one step.
    func ours(_ side: Pair.Side) throws {
        let omemo = side.omemo
        try side.store.step { step in
            for version in OmemoVersion.allCases {
                let list = OmemoDeviceList(
                    version, devices: version == .omemo2 ? bundles.map { .init($0.device) } : [])
                _ = try omemo.learn(list, of: user, in: step)
            }
            for (device, element) in elements {
                let peer = OmemoAddress(jid: user, device: device, version: .omemo2)
                try omemo.learn(OmemoBundle(element, .omemo2), of: peer, in: step)
            }
            _ = try omemo.send(OmemoContent(body: "to all"), to: user, in: step)
        }
    }

    /// So that the next round starts again.
    func forget(_ side: Pair.Side) throws {
        try side.store.step { step in
            for table in ["session", "device", "device_list", "identity", "device_identity"] {
                _ = try step.execute("DELETE FROM omemo_\(table) WHERE jid = ?", user.description)
            }
        }
        try side.clear()
    }

    /// The key agreement and the first encryption for each device, by the library alone, its stores in memory.
    func primitives(_ own: OwnIdentity) throws {
        let plaintext = [UInt8](repeating: 7, count: 48)
        for (_, bundle) in bundles {
            let memory = SignalMemory(own: own)
            let session = SignalSession(.omemo2, memory)
            try session.start(with: bundle, preKey: bundle.preKeys[0])
            _ = try session.encrypt(plaintext)
        }
    }
}
