import COmemo

/// Encrypting and decrypting with the double ratchet between two devices.
///
/// Works on ``SignalMemory`` alone: the caller stores what changed. The names of peers play no part in the
/// cryptography, so the library is given none.
struct SignalSession {
    let version: OmemoVersion
    let memory: SignalMemory

    init(_ version: OmemoVersion, _ memory: SignalMemory) {
        self.version = version
        self.memory = memory
    }

    /// The version of the library's sessions: 3 is Signal's own protocol, 4 the one of the current OMEMO.
    private var number: UInt32 {
        version == .legacy ? UInt32(CIPHERTEXT_CURRENT_VERSION) : UInt32(CIPHERTEXT_OMEMO_VERSION)
    }

    // MARK: Beginning

    /// Begins a session with a device, from its bundle and one of its prekeys. An older session stays readable.
    ///
    /// - Throws: ``SignalFailure`` `SG_ERR_INVALID_KEY` for malformed keys and a wrong signature.
    func start(with bundle: OmemoBundle, preKey: OmemoBundle.PreKey) throws(SignalFailure) {
        let context = try SignalContext(memory)
        let identity = try SignalKeys.publicKey(bundle.identityKey, version, isIdentity: true)
        let signedPreKey = try SignalKeys.publicKey(bundle.signedPreKey.key, version)
        let oneTimeKey = try SignalKeys.publicKey(preKey.key, version)
        let made = SignalObject(
            try makeSignal {
                session_pre_key_bundle_create(
                    $0, 0, 1, preKey.id, oneTimeKey.pointer, bundle.signedPreKey.id, signedPreKey.pointer,
                    bundle.signature, bundle.signature.count, identity.pointer)
            })
        try withAddress { (address) throws(SignalFailure) in
            let builder = try makeSignal {
                session_builder_create($0, context.stores, address, context.global)
            }
            defer { session_builder_free(builder) }
            session_builder_set_version(builder, number)
            try checkSignal(session_builder_process_pre_key_bundle(builder, made.pointer))
        }
    }

    // MARK: Encrypting

    struct Encrypted {
        let bytes: [UInt8]
        /// Whether it carries what the other side needs to begin the session.
        let isKeyExchange: Bool
    }

    func encrypt(_ plaintext: borrowing [UInt8]) throws(SignalFailure) -> Encrypted {
        let open = try memory.removeOpen()
        let encrypted = try open.record.encrypt(copy plaintext)
        try memory.keep(open)
        return encrypted
    }

    // MARK: Decrypting

    /// A decrypted message.
    struct Decrypted {
        var plaintext: [UInt8]
        /// The number of the message in its chain.
        let counter: UInt32
        /// The ratchet key of its chain, for telling chains apart.
        let chain: [UInt8]
        /// Whether it began a session.
        let isKeyExchange: Bool
    }

    /// A key exchange, parsed to learn which of the own keys it needs.
    struct KeyExchange {
        let preKey: UInt32?
        let signedPreKey: UInt32
        let identity: IdentityKey
    }

    /// Reads a key exchange without decrypting it.
    func keyExchange(_ bytes: [UInt8]) throws(SignalFailure) -> KeyExchange {
        let context = try KeyContext()
        let message = SignalObject(try preKeyMessage(bytes, context.global))
        guard let identity = IdentityKey(signal: pre_key_signal_message_get_identity_key(message.pointer))
        else { throw SignalFailure(code: SG_ERR_INVALID_KEY) }
        let hasPreKey = pre_key_signal_message_has_pre_key_id(message.pointer) == 1
        let preKey = hasPreKey ? pre_key_signal_message_get_pre_key_id(message.pointer) : nil
        let signedPreKey = pre_key_signal_message_get_signed_pre_key_id(message.pointer)
        return KeyExchange(preKey: preKey, signedPreKey: signedPreKey, identity: identity)
    }

    func decrypt(_ bytes: [UInt8], isKeyExchange: Bool) throws(SignalFailure) -> Decrypted {
        if !isKeyExchange, memory.open != nil, let decrypted = try decryptNext(bytes) { return decrypted }
        return try withCipher { (cipher, context) throws(SignalFailure) in
            if isKeyExchange {
                let outer = SignalObject(try preKeyMessage(bytes, context.global))
                let plaintext = SignalBuffer(
                    try makeSignal {
                        session_cipher_decrypt_pre_key_signal_message(cipher, outer.pointer, nil, $0)
                    })
                return decrypted(
                    plaintext.bytes, pre_key_signal_message_get_signal_message(outer.pointer),
                    isKeyExchange: true)
            }
            let message = SignalObject(try self.message(bytes, context.global))
            let plaintext = SignalBuffer(
                try makeSignal { session_cipher_decrypt_signal_message(cipher, message.pointer, nil, $0) })
            return decrypted(plaintext.bytes, message.pointer, isKeyExchange: false)
        }
    }

    /// Decrypts what is next in the session that is held open; nil when the message is not.
    private func decryptNext(_ bytes: [UInt8]) throws(SignalFailure) -> Decrypted? {
        let open = try memory.removeOpen()
        let message = SignalObject(try message(bytes, open.record.context.global))
        guard let plaintext = try open.record.decryptNext(message) else {
            memory.putBack(open)
            return nil
        }
        try memory.keep(open)
        return decrypted(plaintext, message.pointer, isKeyExchange: false)
    }

    private func preKeyMessage(
        _ bytes: [UInt8], _ global: OpaquePointer
    ) throws(SignalFailure) -> OpaquePointer {
        try makeSignal {
            version == .legacy
                ? pre_key_signal_message_deserialize($0, bytes, bytes.count, global)
                : pre_key_signal_message_deserialize_omemo($0, bytes, bytes.count, 0, global)
        }
    }

    private func message(_ bytes: [UInt8], _ global: OpaquePointer) throws(SignalFailure) -> OpaquePointer {
        try makeSignal {
            version == .legacy
                ? signal_message_deserialize($0, bytes, bytes.count, global)
                : signal_message_deserialize_omemo($0, bytes, bytes.count, global)
        }
    }

    private func decrypted(_ plaintext: [UInt8], _ message: OpaquePointer, isKeyExchange: Bool) -> Decrypted {
        let chain = IdentityKey(signal: signal_message_get_sender_ratchet_key(message))?.bytes ?? []
        return Decrypted(
            plaintext: plaintext, counter: signal_message_get_counter(message), chain: chain,
            isKeyExchange: isKeyExchange)
    }

    // MARK: Inside

    private func withAddress<R>(
        _ body: (UnsafePointer<signal_protocol_address>) throws(SignalFailure) -> R
    ) throws(SignalFailure) -> R {
        // The library keeps the pointer for as long as its builder or cipher lives, which end inside `body`.
        let name: StaticString = "peer"
        let address = UnsafeMutablePointer<signal_protocol_address>.allocate(capacity: 1)
        address.initialize(
            to: signal_protocol_address(
                name: UnsafeRawPointer(name.utf8Start).assumingMemoryBound(to: CChar.self),
                name_len: name.utf8CodeUnitCount, device_id: 1))
        defer { address.deallocate() }
        return try body(address)
    }

    private func withCipher<R>(
        _ body: (OpaquePointer, SignalContext) throws(SignalFailure) -> R
    ) throws(SignalFailure) -> R {
        let context = try SignalContext(memory)
        return try withAddress { (address) throws(SignalFailure) in
            let cipher = try makeSignal { session_cipher_create($0, context.stores, address, context.global) }
            defer { session_cipher_free(cipher) }
            session_cipher_set_version(cipher, number)
            return try body(cipher, context)
        }
    }
}
