#if DEBUG || Failpoints
    import Glibc
    import Synchronization
#endif

/// A named place inside the steps of OMEMO at which a test makes the process kill itself.
///
/// Present like the runtime's own failpoints, and chosen by the same variable: `HANDLERS_FAILPOINT=name[:kill[:nth]]`.
enum OmemoFailpoint: String, CaseIterable {
    /// A session was begun from a bundle; nothing is committed.
    case begun = "omemo-begun"
    /// A key was encrypted and the ratchet stored; the ciphertext is not yet in the outbox, nothing is committed.
    case encrypted = "omemo-encrypted"
    /// The ciphertext is in the outbox; nothing is committed.
    case sealed = "omemo-sealed"
    /// A key was decrypted and the ratchet stored; the program has not seen the content, nothing is committed.
    case decrypted = "omemo-decrypted"
    /// The program has taken the content; nothing is committed.
    case delivered = "omemo-delivered"
    /// Empty messages that were owed are in the outbox; nothing is committed.
    case dutiesDone = "omemo-duties-done"

    #if DEBUG || Failpoints
        /// Read once at first use: the environment does not change while a process runs.
        private static let armed: (name: String, nth: Int)? = {
            guard let text = getenv("HANDLERS_FAILPOINT").map({ String(cString: $0) }) else { return nil }
            let parts = text.split(separator: ":").map(String.init)
            return (parts.first ?? "", parts.count > 2 ? Int(parts[2]) ?? 1 : 1)
        }()

        private static let hits = Atomic<Int>(0)

        func hit() {
            guard let armed = Self.armed, armed.name == rawValue else { return }
            if Self.hits.add(1, ordering: .relaxed).newValue == armed.nth { kill(getpid(), SIGKILL) }
        }
    #else
        @inline(__always) func hit() {}
    #endif
}
