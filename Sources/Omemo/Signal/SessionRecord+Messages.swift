import COmemo
import COpenSSL

/// The messages of a chain whose keys are there: the half of the double ratchet that needs no new agreement.
///
/// The library's own `session_cipher` reads the record again for each message, twice for one that is decrypted, and
/// reading computes both identity keys from their other form: more work than the message itself. This does with a record
/// that is held open what the library does then, by the library's own functions, and leaves everything else to it.
extension SessionRecord {
    // MARK: Encrypting

    /// Encrypts with the next key of the sending chain.
    ///
    /// - Throws: ``SignalFailure``; the record is as it was then.
    func encrypt(_ plaintext: [UInt8]) throws(SignalFailure) -> SignalSession.Encrypted {
        guard let chain = session_state_get_sender_chain_key(state) else {
            throw SignalFailure(code: SG_ERR_UNKNOWN)
        }
        let isKeyExchange = isUnanswered
        let message = try makeMessage(plaintext, chain)
        let whole = isKeyExchange ? try makeKeyExchange(message) : message
        let next = SignalObject(try makeSignal { ratchet_chain_key_create_next(chain, $0) })
        try checkSignal(session_state_set_sender_chain_key(state, next.pointer))
        // The buffer belongs to the message.
        return .init(
            bytes: SignalBuffer.bytes(of: ciphertext_message_get_serialized(whole.pointer)),
            isKeyExchange: isKeyExchange)
    }

    private func makeMessage(
        _ plaintext: [UInt8], _ chain: OpaquePointer
    ) throws(SignalFailure) -> SignalObject {
        let keys = try MessageKeys(of: chain, in: state)
        guard let text = SignalCrypto.cbc(plaintext, key: keys.cipherKey, iv: keys.iv, encrypting: true)
        else { throw SignalFailure(code: SG_ERR_UNKNOWN) }
        return SignalObject(
            try makeSignal {
                signal_message_create(
                    $0, UInt8(session_state_get_session_version(state)), keys.macKey, MessageKeys.macKeySize,
                    session_state_get_sender_ratchet_key(state), ratchet_chain_key_get_index(chain),
                    session_state_get_previous_counter(state), text, text.count,
                    session_state_get_local_identity_key(state), session_state_get_remote_identity_key(state),
                    UInt8(session_state_get_local_is_alice(state)), context.global)
            })
    }

    /// Wraps a message in what the other side needs to begin the session.
    private func makeKeyExchange(_ message: borrowing SignalObject) throws(SignalFailure) -> SignalObject {
        let hasPreKey = session_state_unacknowledged_pre_key_message_has_pre_key_id(state) != 0
        var preKey = hasPreKey ? session_state_unacknowledged_pre_key_message_get_pre_key_id(state) : 0
        let inner = message.pointer
        return SignalObject(
            try makeSignal { place in
                withUnsafePointer(to: &preKey) { preKey in
                    pre_key_signal_message_create(
                        place, UInt8(session_state_get_session_version(state)),
                        session_state_get_local_registration_id(state), hasPreKey ? preKey : nil,
                        session_state_unacknowledged_pre_key_message_get_signed_pre_key_id(state),
                        session_state_unacknowledged_pre_key_message_get_base_key(state),
                        session_state_get_local_identity_key(state), inner, context.global)
                }
            })
    }

    // MARK: Decrypting

    /// Decrypts the message that is next in a receiving chain.
    ///
    /// - Returns: Nil when it is not that: it begins a chain, is out of order or a copy, belongs to an older session, or was
    ///   changed. Nothing has changed then, and the library finds out which it is.
    func decryptNext(_ message: borrowing SignalObject) throws(SignalFailure) -> [UInt8]? {
        let sender = signal_message_get_sender_ratchet_key(message.pointer)
        guard canSend, let sender,
            UInt32(signal_message_get_message_version(message.pointer))
                == session_state_get_session_version(state),
            let chain = session_state_get_receiver_chain_key(state, sender),
            ratchet_chain_key_get_index(chain) == signal_message_get_counter(message.pointer)
        else { return nil }
        guard let plaintext = try open(message.pointer, chain) else { return nil }
        let next = SignalObject(try makeSignal { ratchet_chain_key_create_next(chain, $0) })
        try checkSignal(session_state_set_receiver_chain_key(state, sender, next.pointer))
        session_state_clear_unacknowledged_pre_key_message(state)
        return plaintext
    }

    private func open(_ message: OpaquePointer, _ chain: OpaquePointer) throws(SignalFailure) -> [UInt8]? {
        let keys = try MessageKeys(of: chain, in: state)
        let isWhole = signal_message_verify_mac(
            message, session_state_get_remote_identity_key(state),
            session_state_get_local_identity_key(state), keys.macKey, MessageKeys.macKeySize,
            session_state_get_local_is_alice(state) == 0 ? 1 : 0, context.global)
        guard isWhole == 1, let body = signal_message_get_body(message) else { return nil }
        return SignalCrypto.cbc(
            SignalBuffer.bytes(of: body), key: keys.cipherKey, iv: keys.iv, encrypting: false)
    }
}

/// The keys of one message, wiped when they go.
private struct MessageKeys: ~Copyable {
    private let place: UnsafeMutablePointer<ratchet_message_keys>

    init(of chain: OpaquePointer, in state: OpaquePointer) throws(SignalFailure) {
        place = .allocate(capacity: 1)
        place.initialize(to: ratchet_message_keys())
        try checkSignal(ratchet_chain_key_get_message_keys(chain, place, session_state_get_kdf_infos(state)))
    }

    deinit {
        OPENSSL_cleanse(place, MemoryLayout<ratchet_message_keys>.size)
        place.deallocate()
    }

    // The parts lie one behind the other.
    private static let macKeyAt = Int(RATCHET_CIPHER_KEY_LENGTH)
    private static let ivAt = macKeyAt + macKeySize
    static let macKeySize = Int(RATCHET_MAC_KEY_LENGTH)

    /// For AES-256.
    var cipherKey: UnsafePointer<UInt8> { UnsafeRawPointer(place).assumingMemoryBound(to: UInt8.self) }
    var macKey: UnsafePointer<UInt8> { cipherKey + Self.macKeyAt }
    var iv: UnsafePointer<UInt8> { cipherKey + Self.ivAt }
}
