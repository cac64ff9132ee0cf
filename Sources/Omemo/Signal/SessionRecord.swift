import COmemo

/// The record of a stored session with a device.
struct SessionRecord: ~Copyable {
    let context: KeyContext
    fileprivate let record: SignalObject

    init(_ bytes: [UInt8]) throws(SignalFailure) {
        let context = try KeyContext()
        record = try Self.soundRecord(bytes, context)
        self.context = context
    }

    /// Refuses a record that the library reads although it lacks keys, and crashes on when it uses them.
    private static func soundRecord(
        _ bytes: [UInt8], _ context: KeyContext
    ) throws(SignalFailure) -> SignalObject {
        let record = SignalObject(
            try makeSignal { session_record_deserialize($0, bytes, bytes.count, context.global) })
        var isSound = isSound(session_record_get_state(record.pointer))
        var node = session_record_get_previous_states_head(record.pointer)
        while let current = node, isSound {
            isSound = Self.isSound(session_record_get_previous_states_element(current))
            node = session_record_get_previous_states_next(current)
        }
        guard isSound else { throw SignalFailure(code: SG_ERR_INVALID_PROTO_BUF) }
        return record
    }

    /// The version is written into four bits of each message.
    private static let versions: ClosedRange<UInt32> = 2...15

    private static func isSound(_ state: OpaquePointer?) -> Bool {
        guard let state, versions.contains(session_state_get_session_version(state)),
            session_state_get_local_identity_key(state) != nil,
            session_state_get_remote_identity_key(state) != nil, session_state_get_root_key(state) != nil
        else { return false }
        if session_state_has_sender_chain(state) == 1 {
            guard session_state_get_sender_chain_key(state) != nil,
                session_state_get_sender_ratchet_key_pair(state) != nil
            else { return false }
        }
        return session_state_has_unacknowledged_pre_key_message(state) != 1
            || session_state_unacknowledged_pre_key_message_get_base_key(state) != nil
    }

    var state: OpaquePointer { session_record_get_state(record.pointer) }

    /// The record as it is stored; wipe it.
    func serialized() throws(SignalFailure) -> [UInt8] {
        SignalBuffer(try makeSignal { session_record_serialize($0, record.pointer) }).bytes
    }

    /// The other device's identity key.
    var identity: IdentityKey? { IdentityKey(signal: session_state_get_remote_identity_key(state)) }

    /// Whether this side began the session and has not yet had an answer in it.
    var isUnanswered: Bool { session_state_has_unacknowledged_pre_key_message(state) == 1 }

    /// Whether anything can be encrypted with it.
    var canSend: Bool { session_state_has_sender_chain(state) == 1 }

    /// Whether the session is from before a backup: its next keys were used by what the backup knows nothing of.
    ///
    /// A message makes the session current in which it is read, and so may make this one current again.
    var isForReadingOnly: Bool { session_state_get_needs_refresh(state) == 1 }

    /// Sessions of a record.
    enum Part {
        case current
        /// All but the current one.
        case older
    }

    /// Marks sessions as good for reading only.
    ///
    /// The library stores this mark of a session and does nothing with it.
    ///
    /// - Returns: The new record; wipe it.
    func retiring(_ part: Part) throws(SignalFailure) -> [UInt8] {
        let states =
            switch part {
            case .current: [state]
            case .older: olderSessions.compactMap { session_record_get_previous_states_element($0) }
            }
        for state in states { session_state_set_needs_refresh(state, 1) }
        return try serialized()
    }

    /// Makes an older session with the same identity, which this side began and which has had no answer yet, the
    /// one for sending.
    ///
    /// When both sides begin at the same moment, each gets the other's key exchange after it sent its own. A peer
    /// that keeps one session only has then replaced its own by ours, and could not read what we would send in the
    /// one it began. It can always read what carries our key exchange.
    ///
    /// - Returns: The new record; nil when there is no such session.
    func preferringOwn() throws(SignalFailure) -> [UInt8]? {
        let identity = self.identity
        var node = session_record_get_previous_states_head(record.pointer)
        while let current = node {
            let older = session_record_get_previous_states_element(current)
            if session_state_has_unacknowledged_pre_key_message(older) == 1,
                session_state_get_needs_refresh(older) != 1,
                IdentityKey(signal: session_state_get_remote_identity_key(older)) == identity
            {
                return try promoted(older, at: current)
            }
            node = session_record_get_previous_states_next(current)
        }
        return nil
    }

    private func promoted(_ state: OpaquePointer?, at node: OpaquePointer) throws(SignalFailure) -> [UInt8] {
        // Removing the node gives up its reference.
        signal_type_ref(state)
        let kept = state.map { SignalObject($0) }
        session_record_get_previous_states_remove(record.pointer, node)
        if let kept { try checkSignal(session_record_promote_state(record.pointer, kept.pointer)) }
        return try serialized()
    }
}

// A record holds older sessions, so that what was encrypted in them can still be read, and the keys of messages that were
// skipped. The library keeps 40 older ones with up to 2000 keys in each of their chains; the sender decides how many.
extension SessionRecord {
    /// The size of a record, with its older sessions and the keys of skipped messages, in bytes: some 1400 keys. XEP-0384
    /// section 4.2 recommends 1000. An ordinary record has 2000 to 10 000 bytes.
    static let maximumBytes = 128 << 10
    /// The maximum number of older sessions in a record. Two are enough for devices that begin at the same time.
    static let maximumOlder = 8

    /// Removes the oldest sessions until the record keeps within its bounds.
    ///
    /// - Parameter size: Its size in bytes.
    /// - Returns: The record as it is to be stored, wipe it; nil when nothing had to be removed.
    /// - Throws: ``SignalFailure`` when the session alone is too large: too many messages were skipped.
    func trimmed(from size: Int) throws(SignalFailure) -> [UInt8]? {
        var nodes = olderSessions
        var isTrimmed = false
        while nodes.count > Self.maximumOlder {
            removeLast(&nodes)
            isTrimmed = true
        }
        var bytes = isTrimmed ? try serialized() : nil
        while bytes?.count ?? size > Self.maximumBytes {
            guard !nodes.isEmpty else { throw .recordTooLarge }
            removeLast(&nodes)
            bytes?.wipe()
            bytes = try serialized()
        }
        return bytes
    }

    /// The number of older sessions.
    var olderCount: Int { olderSessions.count }

    /// The older sessions, the newest first.
    private var olderSessions: [OpaquePointer] {
        var nodes: [OpaquePointer] = []
        var next = session_record_get_previous_states_head(record.pointer)
        while let node = next {
            nodes.append(node)
            next = session_record_get_previous_states_next(node)
        }
        return nodes
    }

    private func removeLast(_ nodes: inout [OpaquePointer]) {
        session_record_get_previous_states_remove(record.pointer, nodes.removeLast())
    }
}
