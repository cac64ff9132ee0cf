import Handlers

/// A named place inside the steps of OMEMO at which a test makes the process kill itself.
///
/// Present like the runtime's own failpoints, and chosen by the same variable: `HANDLERS_FAILPOINT=name[:kill[:nth]]`.
enum OmemoFailpoint: String, CaseIterable {
    /// A session was started from a bundle; nothing is committed.
    case started = "omemo-started"
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

    func hit() { try? Failpoint.hit(named: rawValue) }
}
