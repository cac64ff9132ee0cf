/// The sessions that were used in one step, held open for its next messages.
///
/// The rows stay the truth: an open record counts only for the very bytes that it was last written as. So nothing has to be
/// forgotten when a part of the step is undone or a program changes a row itself; and no other process can write before
/// the step has ended, and these with it.
final class OpenSessions {
    /// The maximum number of open sessions, about 10 kB each.
    static let limit = 128
    /// The maximum size of their records together, in bytes: some have more keys than others.
    static let byteLimit = 2 << 20

    private var used: [OmemoAddress: SignalMemory] = [:]
    /// The size of their records in bytes.
    private var bytes = 0
    /// The number of open sessions.
    var count: Int { used.count }

    /// The stores for an operation in a session.
    ///
    /// - Parameter record: The record as it is stored now.
    func memory(_ own: OwnIdentity, with peer: OmemoAddress, record: consuming [UInt8]?) -> SignalMemory {
        let before = used.removeValue(forKey: peer)
        bytes -= before?.session?.count ?? 0
        let isSame = before?.session == record
        let memory = SignalMemory(own: own, session: record)
        if isSame, let open = before?.open { memory.putBack(open) }
        return memory
    }

    /// Keeps what an operation left for the next one in that session.
    func keep(_ memory: SignalMemory, with peer: OmemoAddress) {
        let size = memory.session?.count ?? 0
        guard used.count < Self.limit, bytes + size <= Self.byteLimit else { return }
        used[peer] = memory
        bytes += size
    }
}
