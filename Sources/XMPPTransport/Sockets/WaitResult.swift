/// The reason why a wait ended.
package enum WaitResult: Hashable, Sendable {
    /// Something can be read or written.
    case ready
    /// The deadline passed.
    case timedOut
    /// The waiting task was canceled.
    case interrupted
}
