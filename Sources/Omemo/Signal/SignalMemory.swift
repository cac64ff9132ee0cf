import COmemo

/// The Signal stores of one operation, in memory.
///
/// The caller reads the few rows that an operation can need before it begins, and writes what changed after it
/// ended, all inside one step. So no C code runs SQL, a failing operation changes nothing, and the ratchet commits
/// with what it encrypted or decrypted.
final class SignalMemory {
    /// The own identity.
    let own: OwnIdentity
    /// The record of the session with the other device; nil when there is none. Replaced by the operation.
    var session: [UInt8]?
    /// The same record as the library holds it, if it was read already.
    private(set) var open: OpenSession?
    /// Own prekeys that the operation may need, serialized, by id.
    var preKeys: [UInt32: [UInt8]] = [:]
    /// Own signed prekeys that the operation may need, serialized, by id.
    var signedPreKeys: [UInt32: [UInt8]] = [:]
    /// The prekeys that the operation used up.
    fileprivate(set) var usedPreKeys: [UInt32] = []

    init(own: OwnIdentity, session: [UInt8]? = nil) {
        self.own = own
        self.session = session
    }

    deinit {
        session?.wipe()
        for id in preKeys.keys { preKeys[id]?.wipe() }
        for id in signedPreKeys.keys { signedPreKeys[id]?.wipe() }
    }

    /// Makes these the stores of a context, which must not outlive them.
    func attach(to stores: OpaquePointer) {
        let me = Unmanaged.passUnretained(self).toOpaque()
        var sessions = Self.sessionStore
        var preKeys = Self.preKeyStore
        var signedPreKeys = Self.signedPreKeyStore
        var identities = Self.identityStore
        (sessions.user_data, preKeys.user_data) = (me, me)
        (signedPreKeys.user_data, identities.user_data) = (me, me)
        // These copy what they are given and cannot fail.
        signal_protocol_store_context_set_session_store(stores, &sessions)
        signal_protocol_store_context_set_pre_key_store(stores, &preKeys)
        signal_protocol_store_context_set_signed_pre_key_store(stores, &signedPreKeys)
        signal_protocol_store_context_set_identity_key_store(stores, &identities)
    }

    // MARK: The record held open

    /// Hands out the record as the library holds it, read now if it was not yet.
    ///
    /// It comes back by ``keep(_:)`` or ``putBack(_:)``; after a failure half-way it does not, and will be read again.
    ///
    /// - Throws: ``SignalFailure``, also when there is no session.
    func removeOpen() throws(SignalFailure) -> OpenSession {
        let taken = open
        open = nil
        if let taken { return taken }
        guard let session else { throw SignalFailure.noSession }
        return try OpenSession(session)
    }

    /// Takes the record back as it was.
    func putBack(_ unchanged: OpenSession) { open = unchanged }

    /// Takes the record back with what was changed in it.
    func keep(_ changed: OpenSession) throws(SignalFailure) {
        let bytes = try changed.record.serialized()
        session?.wipe()
        session = bytes
        open = changed
    }

    /// Brings the record within its bounds after an older session or keys of skipped messages came to it.
    ///
    /// - Throws: ``SignalFailure`` when that cannot be; the operation must count as failed then.
    func trim() throws(SignalFailure) {
        let open = try removeOpen()
        if let bytes = try open.record.trimmed(from: session?.count ?? 0) {
            session?.wipe()
            session = bytes
        }
        putBack(open)
    }

    /// Marks sessions of the record as good for reading only.
    func retire(_ part: SessionRecord.Part) throws(SignalFailure) {
        let open = try removeOpen()
        let bytes = try open.record.retiring(part)
        session?.wipe()
        session = bytes
        putBack(open)
    }

    // MARK: What C calls

    private static var sessionStore: signal_protocol_session_store {
        signal_protocol_session_store(
            load_session_func: { record, _, _, user in
                guard let session = memory(user).session else { return 0 }
                do throws(SignalFailure) { _ = try SessionRecord(session) } catch { return error.code }
                return hand(session, record) ? 1 : SG_ERR_NOMEM
            },
            get_sub_device_sessions_func: { _, _, _, _ in SG_ERR_INVAL },
            store_session_func: { _, record, count, _, _, user in
                let stores = memory(user)
                stores.session?.wipe()
                stores.open = nil
                stores.session = Array(UnsafeBufferPointer(start: record, count: count))
                return 0
            },
            contains_session_func: { _, user in memory(user).session == nil ? 0 : 1 },
            delete_session_func: { _, _ in SG_ERR_INVAL },
            delete_all_sessions_func: { _, _, _ in SG_ERR_INVAL },
            destroy_func: { _ in }, user_data: nil)
    }

    private static var preKeyStore: signal_protocol_pre_key_store {
        signal_protocol_pre_key_store(
            load_pre_key: { record, id, user in
                guard let key = memory(user).preKeys[id] else { return SG_ERR_INVALID_KEY_ID }
                return hand(key, record) ? SG_SUCCESS : SG_ERR_NOMEM
            },
            store_pre_key: { _, _, _, _ in SG_ERR_INVAL },
            contains_pre_key: { id, user in memory(user).preKeys[id] == nil ? 0 : 1 },
            remove_pre_key: { id, user in
                memory(user).usedPreKeys.append(id)
                return 0
            },
            destroy_func: { _ in }, user_data: nil)
    }

    private static var signedPreKeyStore: signal_protocol_signed_pre_key_store {
        signal_protocol_signed_pre_key_store(
            load_signed_pre_key: { record, id, user in
                guard let key = memory(user).signedPreKeys[id] else { return SG_ERR_INVALID_KEY_ID }
                return hand(key, record) ? SG_SUCCESS : SG_ERR_NOMEM
            },
            store_signed_pre_key: { _, _, _, _ in SG_ERR_INVAL },
            contains_signed_pre_key: { id, user in memory(user).signedPreKeys[id] == nil ? 0 : 1 },
            remove_signed_pre_key: { _, _ in SG_ERR_INVAL },
            destroy_func: { _ in }, user_data: nil)
    }

    private static var identityStore: signal_protocol_identity_key_store {
        signal_protocol_identity_key_store(
            get_identity_key_pair: { publicKey, privateKey, user in
                let own = memory(user).own
                guard hand([IdentityKey.curveType] + own.key.bytes, publicKey) else { return SG_ERR_NOMEM }
                let isHanded = own.secret.withBytes { secret in
                    guard
                        let buffer = signal_buffer_create(
                            secret.assumingMemoryBound(to: UInt8.self).baseAddress, secret.count)
                    else { return false }
                    privateKey?.pointee = buffer
                    return true
                }
                return isHanded ? 0 : SG_ERR_NOMEM
            },
            get_local_registration_id: { user, id in
                id?.pointee = memory(user).own.device.rawValue
                return 0
            },
            // Which identities are trusted is decided before anything is sent, and by rows (OmemoTrust): here
            // everything is let through, so that a message of an unknown device can be read.
            save_identity: { _, _, _, _ in 0 },
            is_trusted_identity: { _, _, _, _ in 1 },
            destroy_func: { _ in }, user_data: nil)
    }
}

// Free functions, because a C function pointer may capture nothing, not even the type around it.

private func memory(_ user: UnsafeMutableRawPointer?) -> SignalMemory {
    // Set by attach(to:), and the context holds its memory.
    Unmanaged<SignalMemory>.fromOpaque(user!).takeUnretainedValue()
}

private func hand(_ bytes: [UInt8], _ place: UnsafeMutablePointer<OpaquePointer?>?) -> Bool {
    guard let buffer = signal_buffer_create(bytes, bytes.count) else { return false }
    place?.pointee = buffer
    return true
}
