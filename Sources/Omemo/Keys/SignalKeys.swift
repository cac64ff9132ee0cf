import COmemo
import Handlers
import XMPPTransport

/// Making and reading keys with libomemo-c.
enum SignalKeys {
    /// Reads a public key from outside.
    ///
    /// The lengths are checked here: the library would also take an Ed25519 key where the legacy version has none.
    static func publicKey(
        _ bytes: [UInt8], _ version: OmemoVersion, isIdentity: Bool = false
    ) throws(SignalFailure) -> SignalObject {
        switch version {
        case .legacy:
            guard bytes.count == 33, bytes[0] == IdentityKey.curveType else {
                throw SignalFailure(code: SG_ERR_INVALID_KEY)
            }
            return SignalObject(try makeSignal { curve_decode_point_mont($0, bytes, bytes.count, nil) })
        case .omemo2:
            guard bytes.count == 32 else { throw SignalFailure(code: SG_ERR_INVALID_KEY) }
            return SignalObject(
                try makeSignal {
                    isIdentity
                        ? curve_decode_point_ed($0, bytes, bytes.count, nil)
                        : curve_decode_point_mont($0, bytes, bytes.count, nil)
                })
        }
    }

    /// A public key in the form of a version's bundle; for keys that are no identities.
    static func wire(_ key: OpaquePointer, _ version: OmemoVersion) throws(SignalFailure) -> [UInt8] {
        let buffer = try makeSignal {
            version == .legacy ? ec_public_key_serialize($0, key) : ec_public_key_serialize_omemo($0, key)
        }
        return SignalBuffer(buffer).bytes
    }

    // MARK: Own keys

    /// A new identity for a device of that number.
    static func makeIdentity(device: OmemoDeviceID) throws(SignalFailure) -> OwnIdentity {
        let context = try KeyContext()
        let pair = SignalObject(try makeSignal { curve_generate_key_pair(context.global, $0) })
        let secret = SignalBuffer(
            try makeSignal { ec_private_key_serialize($0, ec_key_pair_get_private(pair.pointer)) })
        guard let key = IdentityKey(signal: ec_key_pair_get_public(pair.pointer)) else {
            throw SignalFailure(code: SG_ERR_NOMEM)
        }
        return OwnIdentity(device: device, key: key, secret: secret.bytes.thenWiped { SecretBytes($0) })
    }

    /// A new prekey, serialized with its private part.
    static func makePreKey(id: UInt32, context: KeyContext) throws(SignalFailure) -> [UInt8] {
        let pair = SignalObject(try makeSignal { curve_generate_key_pair(context.global, $0) })
        let key = SignalObject(try makeSignal { session_pre_key_create($0, id, pair.pointer) })
        return SignalBuffer(try makeSignal { session_pre_key_serialize($0, key.pointer) }).bytes
    }

    /// A new signed prekey, signed for both versions and serialized with its private part.
    static func makeSignedPreKey(
        id: UInt32, own: OwnIdentity, now: Timestamp
    ) throws(SignalFailure) -> [UInt8] {
        let context = try KeyContext()
        let identity = try identityPair(own)
        let key = SignalObject(
            try makeSignal {
                signal_protocol_key_helper_generate_signed_pre_key(
                    $0, identity.pointer, id, UInt64(max(0, now.milliseconds)), context.global)
            })
        return SignalBuffer(try makeSignal { session_signed_pre_key_serialize($0, key.pointer) }).bytes
    }

    private static func identityPair(_ own: OwnIdentity) throws(SignalFailure) -> SignalObject {
        let publicKey = try publicKey([IdentityKey.curveType] + own.key.bytes, .legacy)
        let privateKey = SignalObject(
            try makeSignal { place in
                own.secret.withBytes { secret in
                    curve_decode_private_point(
                        place, secret.assumingMemoryBound(to: UInt8.self).baseAddress, secret.count, nil)
                }
            })
        return SignalObject(
            try makeSignal { ratchet_identity_key_pair_create($0, publicKey.pointer, privateKey.pointer) })
    }

    // MARK: What is published of them

    /// The public part of a stored prekey.
    static func published(preKey record: [UInt8], _ version: OmemoVersion) throws(SignalFailure) -> [UInt8] {
        let key = SignalObject(try makeSignal { session_pre_key_deserialize($0, record, record.count, nil) })
        return try wire(ec_key_pair_get_public(session_pre_key_get_key_pair(key.pointer)), version)
    }

    /// The public part of a stored signed prekey, and its signature for that version.
    static func published(
        signedPreKey record: [UInt8], _ version: OmemoVersion
    ) throws(SignalFailure) -> (key: [UInt8], signature: [UInt8]) {
        let key = SignalObject(
            try makeSignal { session_signed_pre_key_deserialize($0, record, record.count, nil) })
        let start: UnsafePointer<UInt8>?
        let count: Int
        switch version {
        case .legacy:
            start = session_signed_pre_key_get_signature(key.pointer)
            count = session_signed_pre_key_get_signature_len(key.pointer)
        case .omemo2:
            start = session_signed_pre_key_get_signature_omemo(key.pointer)
            count = session_signed_pre_key_get_signature_omemo_len(key.pointer)
        }
        let signature = Array(UnsafeBufferPointer(start: start, count: count))
        return (
            try wire(ec_key_pair_get_public(session_signed_pre_key_get_key_pair(key.pointer)), version),
            signature
        )
    }
}

/// A context of libomemo-c that uses OpenSSL: randomness and hashes, no stores.
final class KeyContext {
    let global: OpaquePointer

    init() throws(SignalFailure) {
        global = try makeSignal { signal_context_create($0, nil) }
        var provider = SignalCrypto.provider
        try checkSignal(signal_context_set_crypto_provider(global, &provider))
    }

    deinit { signal_context_destroy(global) }
}
